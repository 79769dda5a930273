package launcher

import (
	"cmp"
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

// due calls the executor at fire_at, or later when a call becomes free.
func (s *start) due() {
	switch {
	case s.now().Before(s.req.FireAt): // the clock was set back
		s.at(s.req.FireAt, s.due)
	case !s.acquireSlot(): // it goes on when a call is free
	case !s.call():
		s.releaseKey(s.before)
		s.loaded = false // whether the owner may run it must be checked again too
		s.checkAgain()
	case s.called.err != nil:
		s.callFailed(s.called.err)
	default:
		s.finish(s.called.outcome, s.called.at)
	}
}

// acquireSlot takes one of the MaxCalls calls. The start keeps it while a check that has
// become too old is repeated. false: none is free, and due is called again when one is.
func (s *start) acquireSlot() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slotHeld {
		return true
	}
	if s.gaveUp {
		go s.safely(s.leave)
		return false
	}
	s.slotOwner = s.req.UserID
	s.waiter = s.limiter.acquire(s.slotOwner, s.admitted)
	if s.slotHeld = s.waiter == nil; !s.slotHeld {
		s.renewer.suspend(s.lease)
	}
	return s.slotHeld
}

// admitted goes on after the start has waited for a free call.
func (s *start) admitted() {
	s.mu.Lock()
	s.slotHeld = true
	s.mu.Unlock()
	s.renewer.resume(s.lease)
	s.safely(s.due)
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
