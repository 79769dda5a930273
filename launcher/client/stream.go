package client

import (
	"context"
	"errors"
	"io"
	"sync"
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

// call is one running start.
type call struct {
	msg       *carillonv1.RunLauncherStartRequest
	answered  chan answer // buffered: the caller may have stopped waiting
	on        *batch      // nil: not written yet
	number    uint64      // in its batch
	abandoned bool        // by its caller
}

type answer struct {
	msg *carillonv1.RunLauncherStartBatchAnswer
	err error
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

// start sends one start and returns its answer. It stops waiting when ctx ends
// and after callTimeout.
func (s *stream) start(ctx context.Context, msg *carillonv1.RunLauncherStartRequest) (*carillonv1.RunLauncherStartBatchAnswer, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	c := &call{msg: msg, answered: make(chan answer, 1)}
	if err := s.enqueue(c); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	why := context.DeadlineExceeded
	select {
	case a := <-c.answered:
		return a.msg, a.err
	case <-timeout.C:
	case <-ctx.Done():
		why = ctx.Err()
	}
	s.withdraw(c)
	select {
	case a := <-c.answered: // just now
		return a.msg, a.err
	default:
		return nil, status.FromContextError(why).Err()
	}
}

func (s *stream) enqueue(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	s.pending = append(s.pending, c)
	s.wakeWriter()
	return nil
}

// withdraw abandons a call. If it was written, the launcher is told; otherwise it
// is never written.
func (s *stream) withdraw(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.abandoned = true
	if c.on == nil || c.on.open[c.number] == nil {
		return
	}
	delete(c.on.open, c.number)
	if c.on == s.current { // otherwise the sending side is closed
		c.on.withdrawn = append(c.on.withdrawn, c.number)
		s.wakeWriter()
	}
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
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	if err != nil {
		cancel()
		for _, c := range s.pending {
			c.answered <- answer{err: err}
		}
		s.pending = nil
		return
	}
	b := &batch{rpc: rpc, cancel: cancel, ended: make(chan struct{}), open: make(map[uint64]*call)}
	s.current = b
	s.work.Go(func() { s.read(b) })
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
		s.mu.Lock()
		for _, a := range msg.GetAnswers() {
			if c := b.open[a.GetNumber()]; c != nil {
				delete(b.open, a.GetNumber())
				c.answered <- answerTo(c, a)
			}
		}
		if msg.GetClosing() {
			s.retire(b)
		}
		s.mu.Unlock()
	}
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
	defer s.mu.Unlock()
	s.drop(b)
	for _, c := range b.open {
		c.answered <- answer{err: err}
	}
	clear(b.open)
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
