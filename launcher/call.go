package launcher

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// called describes the executor call of a start. Zero: no call was made.
type called struct {
	at      time.Time
	took    time.Duration
	outcome schedule.Outcome
	err     error
	unsent  bool // the executor refused before a request was written
}

// callInTime calls the executor at fire_at, or later when a call becomes free.
// over = false: the check is too old by then. An error: ctx has ended before the
// call.
func (s *start) callInTime(ctx context.Context) (over bool, err error) {
	if err := s.timers.callAt(ctx, s.req.FireAt, s.callAtOnce); err != nil || !s.called.at.IsZero() {
		return true, err
	}
	if err := s.timers.wait(ctx, s.req.FireAt); err != nil { // again if the clock was set back
		return true, err
	}
	if err := s.acquireSlot(ctx); err != nil {
		return true, err
	}
	return s.call(), nil
}

// callAtOnce runs in a burst and must not wait: waiting for a free call and
// repeating a check are left to the goroutine of the start.
func (s *start) callAtOnce() {
	if !s.now().Before(s.req.FireAt) && s.tryAcquireSlot() {
		s.call()
	}
}

func (s *start) tryAcquireSlot() bool {
	if !s.slotHeld {
		s.slotOwner = s.req.UserID
		s.slotHeld = s.limiter.tryAcquire(s.slotOwner)
	}
	return s.slotHeld
}

// acquireSlot waits for one of the MaxCalls calls. The start keeps it while a
// check that has become too old is repeated.
func (s *start) acquireSlot(ctx context.Context) error {
	if s.tryAcquireSlot() {
		return nil
	}
	s.renewer.suspend(s.lease)
	err := s.limiter.acquire(ctx, s.slotOwner)
	s.renewer.resume(s.lease)
	s.slotHeld = err == nil
	return err
}

func (s *start) releaseSlot() {
	if s.slotHeld {
		s.slotHeld = false
		s.limiter.release(s.slotOwner)
	}
}

// call calls the executor unless the check is too old or the presence lock under
// which the key was recorded is lost: then others may take the key over now. A valid check proves that
// the lease still runs, because leases last longer than checkLife. So no other
// call of the key can be open now.
//
// Lost leadership or a shutdown does not interrupt a call: its answer can still
// be recorded.
func (s *start) call() bool {
	at := s.now()
	left := checkLife - at.Sub(s.checkedAt)
	if left < 0 || !s.presence.Holds(s.lease.holder.Load()) {
		return false
	}
	began := time.Now()
	ctx := s.deadlines.from(began)
	call := s.prepared
	call.Deadline, _ = ctx.Deadline()
	call.SendBy = began.Add(left) // compares only durations: the clocks of store and machine may differ
	span := s.span.Call(s.metrics.executor)
	call.TraceParent = cmp.Or(span.TraceParent(), call.TraceParent)
	failpoint.Hit(failpoint.Sending)
	outcome, err := s.executor.Run(ctx, call)
	s.called = called{at: at, took: time.Since(began), outcome: outcome, err: err}
	s.releaseSlot()
	span.End(outcome, err)
	failpoint.Hit(failpoint.Sent)
	s.metrics.called(s.called.took, outcome, err)
	return true
}
