package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// called describes the executor call of a start. Zero: no call was made.
type called struct {
	at      time.Time
	took    time.Duration
	outcome schedule.Outcome
	err     error
	unsent  bool // the executor refused before a request was written
}

// load loads the DAG, once for each check, and has the call made at fire_at. sent: an
// earlier call may have reached the executor. A missing DAG is final only from fire_at
// on, because it may be deployed until then.
func (s *start) load(sent bool) {
	if s.loaded {
		s.at(s.req.FireAt, s.due)
		return
	}
	early := s.now().Before(s.req.FireAt)
	dag, err := s.workflows.LoadDAG(s.loads.from(time.Now()), s.req.UserID, s.req.WorkflowID, s.req.Version)
	if err == nil {
		events, err := s.events(s.loads.from(time.Now()))
		if err != nil {
			s.release(&schedule.LaunchError{Code: schedule.CodeWorkflowUnavailable, Err: err})
			return
		}
		s.loaded = true
		s.prepare(dag, events)
		s.at(s.req.FireAt, s.due)
		return
	}
	verdict, definite := s.unloadable(err)
	switch {
	case definite && early:
		s.at(s.req.FireAt, func() { s.load(sent) })
	case definite && !sent && s.renewer.held(s.lease):
		s.finish(verdict.Outcome, time.Time{})
	default:
		s.release(&schedule.LaunchError{
			Code: schedule.CodeWorkflowUnavailable, Err: fmt.Errorf("load workflow %s version %d: %w", s.req.WorkflowID, s.req.Version, err),
		})
	}
}

// events loads what the run of a consumer has taken; nil: it is another run. What a run has never
// changes, so a redelivery is the same request.
func (s *start) events(ctx context.Context) (*topic.Batch, error) {
	if !s.req.Trigger.MayHaveEvents() || s.req.InQueue { // a consumer has no queue
		return nil, nil
	}
	events, err := s.store.EventsOf(ctx, s.req.Key)
	if err == nil && events == nil && s.req.Trigger == schedule.TriggerEvent {
		err = errors.New("the database of this launcher does not have them; a launcher needs that of the worker")
	}
	if err == nil && events != nil && events.Count != len(events.Events) {
		err = fmt.Errorf("%d of %d are there", len(events.Events), events.Count)
	}
	if err != nil {
		return nil, fmt.Errorf("load the events of run %s: %w", s.req.Key, err)
	}
	return events, nil
}

// prepare builds the call before its instant.
func (s *start) prepare(dag []byte, events *topic.Batch) {
	s.prepared = Call{StartRequest: s.req, DAG: dag, Events: events, State: s.state}
	// Not that of the sender.
	s.prepared.TraceParent = s.tracer.NotSampled(s.req.Key)
	if s.graph != nil {
		s.prepared.ClientKey = s.graph.Key // the ledger has no row of it: no report_url
	} else if s.cfg.PublicURL != "" {
		s.prepared.ReportURL = s.cfg.reportURL(s.req.Key)
		s.prepared.ReportToken = schedule.ReportToken(s.cfg.ReportSecret, s.req.Key)
	}
}

// unloadable returns the outcome of a run whose DAG cannot be loaded. Not
// definite: the workflow store is unavailable.
func (s *start) unloadable(err error) (verdict schedule.StartReply, definite bool) {
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); ok {
		return refusal(schedule.ReasonLaunchRefused, schedule.CodeWorkflowInvalid, schedule.Storable(invalid.Error(), schedule.MaxErrorMessage)), true
	}
	// The text must not reveal whether the workflow exists for another owner.
	message := fmt.Sprintf("the workflow store holds no version %d of %q for owner %q", s.req.Version, s.req.WorkflowID, s.req.UserID)
	return refusal(schedule.ReasonWorkflowNotFound, schedule.CodeWorkflowNotFound, message), errors.Is(err, schedule.ErrNotFound)
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
