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
	// maxAnswerBytes lets an answer pass that is longer than we expect any.
	maxAnswerBytes = 16 << 20
	// goodbye is how long Close waits for a stream with nothing open to end well.
	goodbye = 250 * time.Millisecond
)

// line is the way of all starts: one StartBatch stream that stays open, and is
// opened anew by the next start when it has ended. What is handed in while a
// message is being written goes with the next one.
//
// Callers wait for their answer and nothing else. Two goroutines work for them,
// and only while there is work: one writes while something is to be written, one
// reads for as long as a stream is open. Reading waits for nobody, so a launcher
// can always answer, also while it takes no more starts.
//
// A stream that breaks leaves the outcome of what was written to it unknown. If
// none can be opened, that ends the starts which waited for it: connections are
// tried again with the pauses of reconnect, and starts with the worker's own.
type line struct {
	rpc  carillonv1.RunLauncherClient
	work sync.WaitGroup

	mu      sync.Mutex
	pending []*call   // handed in, not written yet
	current *stream   // nil: the next start opens one
	retired []*stream // to be closed by the writer
	writing bool
	closed  bool
}

// call is one start under way.
type call struct {
	msg      *carillonv1.RunLauncherStartRequest
	answered chan answer // holds the answer, which nobody may wait for any more
	on       *stream     // nil: it is not written yet
	number   uint64      // on its stream
	left     bool        // by its caller
}

type answer struct {
	msg *carillonv1.RunLauncherStartBatchAnswer
	err error
}

// stream is one StartBatch. The line's lock guards what is below rpc, of which
// only the writer sends and closes.
type stream struct {
	rpc       grpc.BidiStreamingClient[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]
	cancel    context.CancelFunc
	ended     chan struct{} // closed when it has
	next      uint64
	open      map[uint64]*call
	withdrawn []uint64 // to be told to the launcher
}

func newLine(rpc carillonv1.RunLauncherClient) *line { return &line{rpc: rpc} }

// start sends one start and returns its answer. It ends early with ctx, and at
// callTimeout.
func (l *line) start(ctx context.Context, msg *carillonv1.RunLauncherStartRequest) (*carillonv1.RunLauncherStartBatchAnswer, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	c := &call{msg: msg, answered: make(chan answer, 1)}
	if err := l.hand(c); err != nil {
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
	l.withdraw(c)
	select {
	case a := <-c.answered: // just now
		return a.msg, a.err
	default:
		return nil, status.FromContextError(why).Err()
	}
}

func (l *line) hand(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	l.pending = append(l.pending, c)
	l.toWrite()
	return nil
}

// withdraw leaves a call: one that is not written yet never is, of another one
// the launcher hears that nobody waits for it.
func (l *line) withdraw(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.left = true
	if c.on == nil || c.on.open[c.number] == nil {
		return
	}
	delete(c.on.open, c.number)
	if c.on == l.current { // of another one the sending side is closed
		c.on.withdrawn = append(c.on.withdrawn, c.number)
		l.toWrite()
	}
}

// toWrite has the writer work; the lock is held.
func (l *line) toWrite() {
	if !l.writing {
		l.writing = true
		l.work.Go(l.write)
	}
}

// write writes until there is nothing to write.
func (l *line) write() {
	for {
		l.mu.Lock()
		retired := l.retired
		l.retired = nil
		l.leave()
		opens := len(l.pending) > 0 && l.current == nil
		if len(retired) == 0 && len(l.pending) == 0 && (l.current == nil || len(l.current.withdrawn) == 0) {
			l.writing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, s := range retired {
			_ = s.rpc.CloseSend() // if that fails, the stream has ended
		}
		if opens {
			l.open()
		}
		l.send()
	}
}

// leave drops what its callers have left; the lock is held.
func (l *line) leave() {
	for len(l.pending) > 0 && l.pending[0].left {
		l.pending = l.pending[1:]
	}
}

// open opens a stream. Where that fails, so does all that waits for it.
func (l *line) open() {
	ctx, cancel := context.WithCancel(context.Background()) // it outlives every call
	rpc, err := l.rpc.StartBatch(ctx, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.closed {
		err = status.Error(codes.Canceled, "the connection to the launcher is closed")
	}
	if err != nil {
		cancel()
		for _, c := range l.pending {
			c.answered <- answer{err: err}
		}
		l.pending = nil
		return
	}
	s := &stream{rpc: rpc, cancel: cancel, ended: make(chan struct{}), open: make(map[uint64]*call)}
	l.current = s
	l.work.Go(func() { l.read(s) })
}

// send writes one message to the current stream, if there is one still.
func (l *line) send() {
	l.mu.Lock()
	s := l.current
	if s == nil {
		l.mu.Unlock()
		return
	}
	msg := l.fill(s)
	l.mu.Unlock()
	if len(msg.Starts) == 0 && len(msg.Withdrawn) == 0 {
		return
	}
	if err := s.rpc.Send(msg); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.drop(s) // what was open on it, the reader ends: it hears why
	}
}

// fill moves what waits to the stream, as much as one message carries; the lock
// is held.
func (l *line) fill(s *stream) *carillonv1.RunLauncherStartBatchRequest {
	n := min(len(s.withdrawn), maxStarts)
	msg := &carillonv1.RunLauncherStartBatchRequest{
		Starts: make([]*carillonv1.RunLauncherStartRequest, 0, min(len(l.pending), maxStarts)), Withdrawn: s.withdrawn[:n:n],
	}
	s.withdrawn = s.withdrawn[n:]
	taken, bytes := 0, 0
	for _, c := range l.pending {
		if len(msg.Starts) == maxStarts || bytes > maxBytes-len(c.msg.GetInput()) && bytes > 0 {
			break
		}
		taken++
		if c.left {
			continue
		}
		c.on, c.number = s, s.next
		s.next++
		s.open[c.number] = c
		msg.Starts = append(msg.Starts, c.msg)
		bytes += len(c.msg.GetInput())
	}
	if l.pending = l.pending[taken:]; len(l.pending) == 0 {
		l.pending = nil
	}
	return msg
}

// drop has the next start open another stream; the lock is held.
func (l *line) drop(s *stream) {
	if l.current == s {
		l.current = nil
	}
}

// retire is drop for a stream that is to end well; the lock is held.
func (l *line) retire(s *stream) {
	if l.current == s {
		l.current = nil
		l.retired = append(l.retired, s)
		l.toWrite()
	}
}

// read hands out answers until the stream ends.
func (l *line) read(s *stream) {
	defer s.cancel()
	defer close(s.ended)
	for {
		msg, err := s.rpc.Recv()
		if err != nil {
			l.broken(s, err)
			return
		}
		l.mu.Lock()
		for _, a := range msg.GetAnswers() {
			if c := s.open[a.GetNumber()]; c != nil {
				delete(s.open, a.GetNumber())
				c.answered <- answerTo(c, a)
			}
		}
		if msg.GetClosing() {
			l.retire(s)
		}
		l.mu.Unlock()
	}
}

// answerTo does not let one start have the answer of another, whatever is wrong
// over there.
func answerTo(c *call, a *carillonv1.RunLauncherStartBatchAnswer) answer {
	if a.GetIdempotencyKey() != c.msg.GetIdempotencyKey() {
		return answer{err: status.Errorf(codes.Internal, "the launcher answered start %d with another key", a.GetNumber())}
	}
	return answer{msg: a}
}

// broken ends what is open on a stream that has ended.
func (l *line) broken(s *stream, err error) {
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the launcher ended the stream before it answered")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(s)
	for _, c := range s.open {
		c.answered <- answer{err: err}
	}
	clear(s.open)
}

// close takes no more starts. A stream with nothing open ends well, which the
// launcher's log then need not tell of.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	s := l.current
	quiet := s != nil && len(s.open) == 0 && len(l.pending) == 0
	if quiet {
		l.retire(s)
	}
	l.mu.Unlock()
	if !quiet {
		return
	}
	timeout := time.NewTimer(goodbye)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
	}
}

// wait returns when nothing works for the line any more: once the connection is
// closed.
func (l *line) wait() { l.work.Wait() }
