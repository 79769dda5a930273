package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// maxStarts and maxBytes bound one message, far below what a launcher takes.
	maxStarts = 256
	maxBytes  = 1 << 20
	// maxAnswerBytes is far above the longest expected answer.
	maxAnswerBytes = 16 << 20
	// closeTimeout is how long Close waits for an idle stream to end cleanly.
	closeTimeout = 250 * time.Millisecond
)

// stream sends all starts over one StartBatch call that stays open. After it has
// ended, the next start opens another. Starts that arrive while a message is
// written go into the next message.
//
// Two goroutines do the work: a writer, while there is something to write, and a
// reader for each open StartBatch. The reader never waits for the writer, so a
// launcher can always answer, even while it accepts no more starts.
//
// If a StartBatch breaks, the outcome of the starts written to it is unknown. If
// none can be opened, the waiting starts fail: reconnect and the worker have
// their own pauses between attempts.
type stream struct {
	rpc  carillonv1.RunLauncherClient
	work sync.WaitGroup

	mu      sync.Mutex
	pending []*call  // not written yet
	current *batch   // nil: the next start opens one
	retired []*batch // to be closed by the writer
	writing bool
	closed  bool
}

// call is one start that is not answered. stream.mu guards the fields after msg.
type call struct {
	*group
	i         int // in the group
	msg       *carillonv1.RunLauncherStartRequest
	on        *batch // nil: not written yet
	number    uint64 // in its batch
	abandoned bool
}

// group is the starts of one startAll.
type group struct {
	answer   func(i int, a answer)
	open     atomic.Int64
	answered chan struct{} // closed when none is open
}

type answer struct {
	msg *carillonv1.RunLauncherStartBatchAnswer
	err error
}

// end answers a call, after it was removed from its list. mu is not held.
func (c *call) end(a answer) {
	c.answer(c.i, a)
	if c.open.Add(-1) == 0 {
		close(c.answered)
	}
}

func endAll(calls []*call, err error) {
	for _, c := range calls {
		c.end(answer{err: err})
	}
}

// batch is one StartBatch call. stream.mu guards the fields after cancel. Only the
// writer sends and closes.
type batch struct {
	rpc       grpc.BidiStreamingClient[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]
	cancel    context.CancelFunc
	ended     chan struct{} // closed when it has ended
	next      uint64
	open      map[uint64]*call
	withdrawn []uint64 // not sent to the launcher yet
}

func newStream(rpc carillonv1.RunLauncherClient) *stream { return &stream{rpc: rpc} }

// startAll sends starts and returns when each is answered. It stops waiting when ctx ends
// and after callTimeout.
func (s *stream) startAll(ctx context.Context, msgs []*carillonv1.RunLauncherStartRequest, answered func(i int, a answer)) {
	if len(msgs) == 0 {
		return
	}
	g := &group{answer: answered, answered: make(chan struct{})}
	g.open.Store(int64(len(msgs)))
	calls := make([]*call, len(msgs))
	for i, msg := range msgs {
		calls[i] = &call{group: g, i: i, msg: msg}
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	why := ctx.Err()
	if why == nil {
		if err := s.enqueue(calls); err != nil {
			endAll(calls, err)
			return
		}
		select {
		case <-g.answered:
			return
		case <-timeout.C:
			why = context.DeadlineExceeded
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	endAll(s.withdraw(calls), status.FromContextError(why).Err())
	<-g.answered // some may be answered just now
}

func (s *stream) enqueue(calls []*call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	s.pending = append(s.pending, calls...)
	s.wakeWriter()
	return nil
}

// withdraw abandons the calls that are not answered and returns them. If they were
// written, the launcher is told; otherwise they are never written.
func (s *stream) withdraw(calls []*call) (open []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		switch {
		case c.abandoned:
			continue
		case c.on == nil:
		case c.on.open[c.number] == nil:
			continue
		default:
			delete(c.on.open, c.number)
			if c.on == s.current { // otherwise the sending side is closed
				c.on.withdrawn = append(c.on.withdrawn, c.number)
				s.wakeWriter()
			}
		}
		c.abandoned = true
		open = append(open, c)
	}
	return open
}

// wakeWriter starts the writer if it does not run. The caller holds mu.
func (s *stream) wakeWriter() {
	if !s.writing {
		s.writing = true
		s.work.Go(s.write)
	}
}

// write writes until nothing is left to write.
func (s *stream) write() {
	for {
		s.mu.Lock()
		retired := s.retired
		s.retired = nil
		s.dropAbandoned()
		opens := len(s.pending) > 0 && s.current == nil
		if len(retired) == 0 && len(s.pending) == 0 && (s.current == nil || len(s.current.withdrawn) == 0) {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, b := range retired {
			_ = b.rpc.CloseSend() // if that fails, the stream has ended
		}
		if opens {
			s.open()
		}
		s.send()
	}
}

// dropAbandoned removes abandoned calls from the head of pending. The caller holds
// mu.
func (s *stream) dropAbandoned() {
	for len(s.pending) > 0 && s.pending[0].abandoned {
		s.pending = s.pending[1:]
	}
}

// open opens a batch. If that fails, all pending calls fail.
func (s *stream) open() {
	ctx, cancel := context.WithCancel(context.Background()) // it outlives every call
	rpc, err := s.rpc.StartBatch(ctx, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	s.mu.Lock()
	if err == nil && s.closed {
		err = status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	if err != nil {
		failed := s.takePending()
		s.mu.Unlock()
		cancel()
		endAll(failed, err)
		return
	}
	defer s.mu.Unlock()
	b := &batch{rpc: rpc, cancel: cancel, ended: make(chan struct{}), open: make(map[uint64]*call)}
	s.current = b
	s.work.Go(func() { s.read(b) })
}

// takePending abandons the calls that are not written and returns them. The caller holds
// mu.
func (s *stream) takePending() (calls []*call) {
	for _, c := range s.pending {
		if !c.abandoned {
			c.abandoned = true
			calls = append(calls, c)
		}
	}
	s.pending = nil
	return calls
}

// send writes one message to the current batch, if there still is one.
func (s *stream) send() {
	s.mu.Lock()
	b := s.current
	if b == nil {
		s.mu.Unlock()
		return
	}
	msg := s.fill(b)
	s.mu.Unlock()
	if len(msg.Starts) == 0 && len(msg.Withdrawn) == 0 {
		return
	}
	if err := b.rpc.Send(msg); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(b) // the reader gets the reason and ends its open calls
	}
}

// fill moves as many pending calls to the batch as one message can carry. The
// caller holds mu.
func (s *stream) fill(b *batch) *carillonv1.RunLauncherStartBatchRequest {
	n := min(len(b.withdrawn), maxStarts)
	msg := &carillonv1.RunLauncherStartBatchRequest{
		Starts: make([]*carillonv1.RunLauncherStartRequest, 0, min(len(s.pending), maxStarts)), Withdrawn: b.withdrawn[:n:n],
	}
	b.withdrawn = b.withdrawn[n:]
	taken, bytes := 0, 0
	for _, c := range s.pending {
		if len(msg.Starts) == maxStarts || bytes > maxBytes-len(c.msg.GetInput()) && bytes > 0 {
			break
		}
		taken++
		if c.abandoned {
			continue
		}
		c.on, c.number = b, b.next
		b.next++
		b.open[c.number] = c
		msg.Starts = append(msg.Starts, c.msg)
		bytes += len(c.msg.GetInput())
	}
	if s.pending = s.pending[taken:]; len(s.pending) == 0 {
		s.pending = nil
	}
	return msg
}

// drop makes the next start open another batch. The caller holds mu.
func (s *stream) drop(b *batch) {
	if s.current == b {
		s.current = nil
	}
}

// retire is drop for a batch that is closed cleanly. The caller holds mu.
func (s *stream) retire(b *batch) {
	if s.current == b {
		s.current = nil
		s.retired = append(s.retired, b)
		s.wakeWriter()
	}
}

// read delivers answers until the batch ends.
func (s *stream) read(b *batch) {
	defer b.cancel()
	defer close(b.ended)
	for {
		msg, err := b.rpc.Recv()
		if err != nil {
			s.fail(b, err)
			return
		}
		for i, c := range s.answered(b, msg) {
			if c != nil {
				c.end(answerTo(c, msg.GetAnswers()[i]))
			}
		}
	}
}

// answered takes the calls of a message's answers from the batch; nil: not open any more.
func (s *stream) answered(b *batch, msg *carillonv1.RunLauncherStartBatchResponse) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := make([]*call, len(msg.GetAnswers()))
	for i, a := range msg.GetAnswers() {
		calls[i] = b.open[a.GetNumber()]
		delete(b.open, a.GetNumber())
	}
	if msg.GetClosing() {
		s.retire(b)
	}
	return calls
}

// answerTo protects against a faulty launcher: a start never gets the answer for
// another key.
func answerTo(c *call, a *carillonv1.RunLauncherStartBatchAnswer) answer {
	if a.GetIdempotencyKey() != c.msg.GetIdempotencyKey() {
		return answer{err: status.Errorf(codes.Internal, "the launcher answered start %d with another key", a.GetNumber())}
	}
	return answer{msg: a}
}

// fail ends the open calls of a batch that has ended.
func (s *stream) fail(b *batch, err error) {
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the launcher ended the stream before it answered")
	}
	s.mu.Lock()
	s.drop(b)
	open := slices.Collect(maps.Values(b.open))
	clear(b.open)
	s.mu.Unlock()
	endAll(open, err)
}

// close rejects further starts. An idle batch is closed cleanly, so that the
// launcher logs no error.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	b := s.current
	quiet := b != nil && len(b.open) == 0 && len(s.pending) == 0
	if quiet {
		s.retire(b)
	}
	s.mu.Unlock()
	if !quiet {
		return
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-b.ended:
	case <-timeout.C:
	}
}

// wait returns when reader and writer have ended, which needs a closed connection.
func (s *stream) wait() { s.work.Wait() }
