package launcher

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// called is when the executor was called, and what it said; zero: it was not.
type called struct {
	at      time.Time
	took    time.Duration
	outcome schedule.Outcome
	err     error
	unsent  bool // the executor refused before a request was written
}

// callInTime calls the executor at fire_at, or as soon after it as one of its
// calls is free. over = false: by then the check is too old. An error: ctx has
// ended before.
func (s *start) callInTime(ctx context.Context) (over bool, err error) {
	if err := s.gates.fire(ctx, s.req.FireAt, s.callAtOnce); err != nil || !s.called.at.IsZero() {
		return true, err
	}
	if err := s.gates.wait(ctx, s.req.FireAt); err != nil { // again if the clock was set back
		return true, err
	}
	if err := s.dial(ctx); err != nil {
		return true, err
	}
	return s.call(), nil
}

// callAtOnce is for the instant: what has to wait, or to be checked anew, is left
// to the start's own goroutine.
func (s *start) callAtOnce() {
	if !s.now().Before(s.req.FireAt) && s.dialAtOnce() {
		s.call()
	}
}

func (s *start) dialAtOnce() bool {
	if !s.dialed {
		s.dialedBy = s.req.UserID
		s.dialed = s.calls.take(s.dialedBy)
	}
	return s.dialed
}

// dial takes one of the calls that the executor bears at once, and keeps it also
// where the check has become too old meanwhile and is made again.
func (s *start) dial(ctx context.Context) error {
	if s.dialAtOnce() {
		return nil
	}
	s.leases.wait(s.lease)
	err := s.calls.enter(ctx, s.dialedBy)
	s.leases.proceed(s.lease)
	s.dialed = err == nil
	return err
}

func (s *start) hangUp() {
	if s.dialed {
		s.dialed = false
		s.calls.leave(s.dialedBy)
	}
}

// call calls the executor, unless the check is too old. The key was granted no
// longer ago than its check is good, and a lease lasts longer than that: no
// call of it can be open elsewhere now.
//
// Once begun, a call is not cut off by a lost leadership or a shutdown. Its
// answer is worth more than the seconds.
func (s *start) call() bool {
	at := s.now()
	left := checkLife - at.Sub(s.checkedAt)
	if left < 0 {
		return false
	}
	began := time.Now()
	ctx := s.deadlines.from(began)
	call := s.prepared
	call.Deadline, _ = ctx.Deadline()
	call.SendBy = began.Add(left) // of the store's clock and this machine's only the distance is compared
	span := s.span.Call(s.metrics.executor)
	call.TraceParent = cmp.Or(span.TraceParent(), call.TraceParent)
	failpoint.Hit(failpoint.Sending)
	outcome, err := s.executor.Run(ctx, call)
	s.called = called{at: at, took: time.Since(began), outcome: outcome, err: err}
	s.hangUp()
	span.End(outcome, err)
	failpoint.Hit(failpoint.Sent)
	s.metrics.called(s.called.took, outcome, err)
	return true
}
