// Package callstream makes many calls over one bidirectional stream that stays open,
// which costs a fraction of a call of its own for each.
//
// The calls of a stream are numbered from 0, in the order of sending. Each has one
// answer, in any order, with its number.
package callstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxCalls and maxBytes bound one message, far below what a peer takes.
	maxCalls = 256
	maxBytes = 1 << 20
	// MaxAnswerBytes is how long a message with answers may be.
	MaxAnswerBytes = 16 << 20
	// closeTimeout is how long Close waits for an idle stream to end cleanly.
	closeTimeout = 250 * time.Millisecond
)

// RPC says how one RPC carries calls (C) in messages (Q), and answers (A) in others (S).
type RPC[C, Q, S, A any] struct {
	Peer    string // who answers, such as "the launcher"; for errors
	Open    func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Q, S], error)
	Message func(calls []*C, withdrawn []uint64) *Q
	Size    func(*C) int // roughly, in bytes
	Answers func(*S) (answers []*A, closing bool)
	Number  func(*A) uint64
	Fits    func(*C, *A) bool // the answer names the key of the call
	// MaxAge is how long calls go into one stream, so that each peer behind one address
	// gets some, and that an idle stream ends; 0: for as long as it does not break.
	MaxAge time.Duration
}

// Answer is how a call ended.
type Answer[A any] struct {
	Msg *A    // nil after an error
	Err error // of the stream or of the wait
	// Written is whether the call may have reached the peer.
	Written bool
	// Silent is whether the stream of the call ended before it answered any call.
	Silent bool
}

// ErrLate is the error of a call that could not be written in time.
var ErrLate = status.Error(codes.DeadlineExceeded, "no connection was available in time")

// Stream makes all calls over one stream. Calls that come while a message is written go
// into the next message.
//
// Two goroutines do the work: a writer, while there is something to write, and a reader
// for each open stream. The reader never waits for the writer, so a peer can always
// answer, even while it takes no more calls.
//
// If the stream breaks, the outcome of the calls written to it is unknown. If none can be
// opened, the waiting calls fail: the connection has its own pauses between attempts.
type Stream[C, Q, S, A any] struct {
	rpc  RPC[C, Q, S, A]
	work sync.WaitGroup

	mu      sync.Mutex
	pending []*call[C, Q, S, A]  // not written yet
	current *batch[C, Q, S, A]   // nil: the next call opens one
	retired []*batch[C, Q, S, A] // to be closed by the writer
	writing bool
	closed  bool
}

// New returns a Stream. It opens with the first call.
func New[C, Q, S, A any](rpc RPC[C, Q, S, A]) *Stream[C, Q, S, A] {
	return &Stream[C, Q, S, A]{rpc: rpc}
}

// Call makes calls and returns when each is answered; answered is called once for each, in
// any goroutine, and must not wait. It stops waiting when ctx ends: the peer is told which
// calls are withdrawn. A call that is not written at the instant by (zero: no bound) never
// is, and ends with ErrLate.
func (s *Stream[C, Q, S, A]) Call(ctx context.Context, by time.Time, msgs []*C, answered func(i int, a Answer[A])) {
	if len(msgs) == 0 {
		return
	}
	g := &group[A]{by: by, answer: answered, answered: make(chan struct{})}
	g.open.Store(int64(len(msgs)))
	calls := make([]*call[C, Q, S, A], len(msgs))
	for i, msg := range msgs {
		calls[i] = &call[C, Q, S, A]{group: g, i: i, msg: msg}
	}
	if err := ctx.Err(); err != nil {
		endAll(calls, Answer[A]{Err: status.FromContextError(err).Err()})
		return
	}
	if err := s.enqueue(calls); err != nil {
		endAll(calls, Answer[A]{Err: err})
		return
	}
	late, stop := lateAfter(by)
	defer stop()
	for {
		select {
		case <-g.answered:
			return
		case <-late:
			late = nil
			endAll(s.withdraw(calls, false), Answer[A]{Err: ErrLate})
		case <-ctx.Done():
			why := status.FromContextError(ctx.Err()).Err()
			endAll(s.withdraw(calls, false), Answer[A]{Err: why})
			endAll(s.withdraw(calls, true), Answer[A]{Err: why, Written: true})
			<-g.answered // some may be answered just now
			return
		}
	}
}

// lateAfter fires at an instant; a nil channel for the zero time.
func lateAfter(by time.Time) (late <-chan time.Time, stop func()) {
	if by.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(by))
	return timer.C, func() { timer.Stop() }
}

// call is one call that is not answered. Stream.mu guards the fields after msg.
type call[C, Q, S, A any] struct {
	*group[A]
	i         int // in the group
	msg       *C
	on        *batch[C, Q, S, A] // nil: not written yet
	number    uint64             // in its batch
	abandoned bool
}

// group is the calls of one Call.
type group[A any] struct {
	by       time.Time
	answer   func(i int, a Answer[A])
	open     atomic.Int64
	answered chan struct{} // closed when none is open
}

// end answers a call, after it was removed from its list. mu is not held.
func (c *call[C, Q, S, A]) end(a Answer[A]) {
	c.answer(c.i, a)
	if c.open.Add(-1) == 0 {
		close(c.answered)
	}
}

func endAll[C, Q, S, A any](calls []*call[C, Q, S, A], a Answer[A]) {
	for _, c := range calls {
		c.end(a)
	}
}

func (s *Stream[C, Q, S, A]) enqueue(calls []*call[C, Q, S, A]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.errClosed()
	}
	s.pending = append(s.pending, calls...)
	s.wakeWriter()
	return nil
}

func (s *Stream[C, Q, S, A]) errClosed() error {
	return status.Errorf(codes.Canceled, "the connection to %s is closed", s.rpc.Peer)
}

// withdraw abandons the calls that are not answered, and are written or not, and returns
// them. Of a written one the peer is told; another is never written.
func (s *Stream[C, Q, S, A]) withdraw(calls []*call[C, Q, S, A], written bool) (open []*call[C, Q, S, A]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		if c.abandoned || (c.on != nil) != written {
			continue
		}
		if written {
			if c.on.open[c.number] == nil {
				continue
			}
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

// Close rejects further calls. An idle stream is closed cleanly, so that the peer logs no
// error.
func (s *Stream[C, Q, S, A]) Close() {
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

// Wait returns when reader and writer have ended, which needs a closed connection.
func (s *Stream[C, Q, S, A]) Wait() { s.work.Wait() }
