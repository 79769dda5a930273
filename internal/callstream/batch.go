package callstream

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// batch is one open stream. Stream.mu guards the fields after ended. Only the writer sends
// and closes.
type batch[C, Q, S, A any] struct {
	rpc       grpc.BidiStreamingClient[Q, S]
	cancel    context.CancelFunc
	ended     chan struct{} // closed when it has ended
	next      uint64
	open      map[uint64]*call[C, Q, S, A]
	withdrawn []uint64    // not sent to the peer yet
	spoke     bool        // it has answered a call
	aged      *time.Timer // nil: it may get old
}

// wakeWriter starts the writer if it does not run. The caller holds mu.
func (s *Stream[C, Q, S, A]) wakeWriter() {
	if !s.writing {
		s.writing = true
		s.work.Go(s.write)
	}
}

// write writes until nothing is left to write.
func (s *Stream[C, Q, S, A]) write() {
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
			s.openBatch()
		}
		s.send()
	}
}

// dropAbandoned removes abandoned calls from the head of pending. The caller holds
// mu.
func (s *Stream[C, Q, S, A]) dropAbandoned() {
	for len(s.pending) > 0 && s.pending[0].abandoned {
		s.pending = s.pending[1:]
	}
}

// openBatch opens a stream. If that fails, all pending calls fail.
func (s *Stream[C, Q, S, A]) openBatch() {
	ctx, cancel := context.WithCancel(context.Background()) // it outlives every call
	rpc, err := s.rpc.Open(ctx, grpc.MaxCallRecvMsgSize(MaxAnswerBytes))
	s.mu.Lock()
	if err == nil && s.closed {
		err = s.errClosed()
	}
	if err != nil {
		failed := s.takePending()
		s.mu.Unlock()
		cancel()
		endAll(failed, Answer[A]{Err: err, Silent: true})
		return
	}
	defer s.mu.Unlock()
	b := &batch[C, Q, S, A]{rpc: rpc, cancel: cancel, ended: make(chan struct{}), open: make(map[uint64]*call[C, Q, S, A])}
	s.current = b
	if s.rpc.MaxAge > 0 {
		b.aged = time.AfterFunc(s.rpc.MaxAge, func() { s.retireAged(b) })
	}
	s.work.Go(func() { s.read(b) })
}

// takePending abandons the calls that are not written and returns them. The caller holds
// mu.
func (s *Stream[C, Q, S, A]) takePending() (calls []*call[C, Q, S, A]) {
	for _, c := range s.pending {
		if !c.abandoned {
			c.abandoned = true
			calls = append(calls, c)
		}
	}
	s.pending = nil
	return calls
}

// send writes one message to the current stream, if there still is one. A stream that
// takes the message too late is cancelled, so that it never arrives.
func (s *Stream[C, Q, S, A]) send() {
	s.mu.Lock()
	b := s.current
	if b == nil {
		s.mu.Unlock()
		return
	}
	msg, by, late := s.fill(b)
	s.mu.Unlock()
	endAll(late, Answer[A]{Err: ErrLate})
	if msg == nil {
		return
	}
	stop := func() bool { return true }
	if !by.IsZero() {
		stop = time.AfterFunc(time.Until(by), b.cancel).Stop
	}
	err := b.rpc.Send(msg)
	stop()
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(b) // the reader gets the reason and ends its open calls
	}
}

// fill moves as many pending calls to the stream as one message can carry, and abandons
// those that are too late. The message, nil if there is nothing to send, must be written
// at the instant by. The caller holds mu.
func (s *Stream[C, Q, S, A]) fill(b *batch[C, Q, S, A]) (msg *Q, by time.Time, late []*call[C, Q, S, A]) {
	n := min(len(b.withdrawn), maxCalls)
	withdrawn := b.withdrawn[:n:n]
	b.withdrawn = b.withdrawn[n:]
	calls := make([]*C, 0, min(len(s.pending), maxCalls))
	taken, bytes, now := 0, 0, time.Now()
	for _, c := range s.pending {
		size := s.rpc.Size(c.msg)
		if len(calls) == maxCalls || bytes > maxBytes-size && bytes > 0 {
			break
		}
		taken++
		if c.abandoned {
			continue
		}
		if !c.by.IsZero() && !now.Before(c.by) {
			c.abandoned = true
			late = append(late, c)
			continue
		}
		if !c.by.IsZero() && (by.IsZero() || c.by.Before(by)) {
			by = c.by
		}
		c.on, c.number = b, b.next
		b.next++
		b.open[c.number] = c
		calls = append(calls, c.msg)
		bytes += size
	}
	if s.pending = s.pending[taken:]; len(s.pending) == 0 {
		s.pending = nil
	}
	if len(calls) == 0 && len(withdrawn) == 0 {
		return nil, by, late
	}
	return s.rpc.Message(calls, withdrawn), by, late
}

// drop makes the next call open another stream. The caller holds mu.
func (s *Stream[C, Q, S, A]) drop(b *batch[C, Q, S, A]) {
	if s.current == b {
		s.current = nil
	}
}

// retire is drop for a stream that is closed cleanly. The caller holds mu.
func (s *Stream[C, Q, S, A]) retire(b *batch[C, Q, S, A]) {
	if s.current == b {
		s.current = nil
		s.retired = append(s.retired, b)
		s.wakeWriter()
	}
}

func (s *Stream[C, Q, S, A]) retireAged(b *batch[C, Q, S, A]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire(b)
}

// read delivers answers until the stream ends.
func (s *Stream[C, Q, S, A]) read(b *batch[C, Q, S, A]) {
	defer b.cancel()
	defer close(b.ended)
	for {
		msg, err := b.rpc.Recv()
		if err != nil {
			s.fail(b, err)
			return
		}
		answers, closing := s.rpc.Answers(msg)
		for i, c := range s.answered(b, answers, closing) {
			if c != nil {
				c.end(s.answerTo(c, answers[i]))
			}
		}
	}
}

// answered takes the calls of answers from the stream; nil: not open any more.
func (s *Stream[C, Q, S, A]) answered(b *batch[C, Q, S, A], answers []*A, closing bool) []*call[C, Q, S, A] {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := make([]*call[C, Q, S, A], len(answers))
	for i, a := range answers {
		calls[i] = b.open[s.rpc.Number(a)]
		delete(b.open, s.rpc.Number(a))
	}
	b.spoke = b.spoke || len(answers) > 0
	if closing {
		s.retire(b)
	}
	return calls
}

// answerTo protects against a faulty peer: a call never gets the answer for another key.
func (s *Stream[C, Q, S, A]) answerTo(c *call[C, Q, S, A], a *A) Answer[A] {
	if !s.rpc.Fits(c.msg, a) {
		return Answer[A]{Err: status.Errorf(codes.Internal, "%s answered call %d with another key", s.rpc.Peer, s.rpc.Number(a)), Written: true}
	}
	return Answer[A]{Msg: a, Written: true}
}

// fail ends the open calls of a stream that has ended.
func (s *Stream[C, Q, S, A]) fail(b *batch[C, Q, S, A], err error) {
	if errors.Is(err, io.EOF) {
		err = status.Errorf(codes.Unavailable, "%s ended the stream before it answered", s.rpc.Peer)
	}
	s.mu.Lock()
	s.drop(b)
	open := slices.Collect(maps.Values(b.open))
	clear(b.open)
	silent := !b.spoke
	if b.aged != nil {
		b.aged.Stop()
	}
	s.mu.Unlock()
	endAll(open, Answer[A]{Err: err, Written: true, Silent: silent})
}
