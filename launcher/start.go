package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// The ways in which a start stays without an outcome. The same key may be sent
// again, later.
var (
	// ErrBusy: another call of this key is open.
	ErrBusy = schedule.ErrBusy
	// ErrWithheld: a check failed, but that is not final.
	ErrWithheld = schedule.ErrWithheld
	// ErrOutcomeUnknown: the executor was called and did not answer definitely.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Start starts one run. The outcomes:
//
//   - the key is new: it is recorded, the DAG is loaded, the executor called,
//     its answer recorded and returned;
//   - the key is known and done: the recorded answer, success and error alike;
//   - the key was used for another request: FAILED(key_conflict);
//   - the schedule is paused or deleted, the run's cancel was asked for, or its
//     grant does not allow it, and nothing was sent: SKIPPED or CANCELLED, for
//     good;
//   - anything else is an error, and the same key may be sent again.
func (l *Launcher) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	hash, err := requestHash(req)
	if err != nil {
		// Nothing is final before fire_at.
		return refuse(schedule.ReasonLaunchRefused, schedule.CodeInvalidInput, err.Error()), l.gates.wait(ctx, req.FireAt)
	}
	// What was handed over early is checked and recorded ahead of fire_at, while
	// there is time for it, but so late that the check is still good at fire_at.
	if err := l.gates.wait(ctx, req.FireAt.Add(-CheckAhead)); err != nil {
		return schedule.StartReply{}, err
	}
	s := &start{Launcher: l, req: req, hash: hash, span: l.tracer.Start(&req)}
	defer s.hangUp()
	reply, err := s.run(ctx)
	s.span.End(reply.Outcome, err)
	return reply, err
}

// run records the key and goes on with it, or answers from the record.
func (s *start) run(ctx context.Context) (schedule.StartReply, error) {
	for range renewals {
		b, err := s.begin(ctx)
		if err != nil {
			return schedule.StartReply{}, fmt.Errorf("record key %s: %w", s.req.Key, err)
		}
		switch b.Permission {
		case schedule.Granted, schedule.GrantedAgain:
			if reply, over, err := s.granted(ctx, b); over {
				return reply, err
			}
		case schedule.Recorded, schedule.Refused:
			return schedule.StartReply{Outcome: b.Request.Outcome, Deliveries: b.Request.Calls}, nil
		case schedule.Conflict:
			return refuse(schedule.ReasonKeyConflict, schedule.CodeKeyConflict, "the key was used before for another request"), s.gates.wait(ctx, s.req.FireAt)
		case schedule.Busy:
			return schedule.StartReply{}, ErrBusy
		default:
			if !s.now().Before(s.req.FireAt) {
				return s.withheld(ctx, b)
			}
			// What a check says ahead of fire_at is not final: look again then.
			if err := s.gates.wait(ctx, s.req.FireAt); err != nil {
				return schedule.StartReply{}, err
			}
		}
	}
	return schedule.StartReply{}, fmt.Errorf("%w: the check of pause and cancel was too old %d times", ErrWithheld, renewals)
}

// renewals bounds how often one Start checks anew because loading the DAG, or
// asking by key, has outlived the last check.
const renewals = 3

// busyWait is how long a repeat waits for an open call of its key to end.
const busyWait = 5 * time.Second

// start is one Start under way.
type start struct {
	*Launcher
	req       schedule.StartRequest
	hash      [32]byte
	lease     *lease    // of the key while it is ours
	before    int32     // calls of the key that may have reached the executor before this start
	dialed    bool      // it has one of the executor's calls,
	dialedBy  string    // as this owner: whose a graph run is, is asked anew with each check
	asked     bool      // the executor was asked by key, and does not know it or cannot say
	graph     *GraphRun // nil: a run of the ledger
	span      tracing.Span
	loaded    bool
	prepared  Call      // all of it that is known before the call
	checkedAt time.Time // the last time
	called    called
}

// begin records the key, and waits a while for another call of it to end.
func (s *start) begin(ctx context.Context) (begun, error) {
	began := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		b, err := s.begins.Do(ctx, schedule.BeginRequest{
			Key: s.req.Key, RequestHash: s.hash, ScheduleID: s.req.ScheduleID, Trigger: s.req.Trigger,
			FireAt: s.req.FireAt, // the lease is known when it is written: see beginAll
			Grant:  s.grantUse(),
		})
		if err != nil || b.Permission != schedule.Busy || time.Since(began) >= busyWait {
			return b, err
		}
		if err := sleep(ctx, pause+s.leases.spread(s.req.Key, pause/4)); err != nil {
			return b, nil // busy is all that is known
		}
	}
}

// grantUse is what the record of the key is to look at. Whose the grant of a
// graph run is, is not known then: see permitted.
func (s *start) grantUse() schedule.GrantUse {
	if s.graph != nil {
		return schedule.GrantUse{}
	}
	return s.req.GrantUse(s.cfg.RequireGrant)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// granted goes on with a key that is ours, and keeps it so meanwhile.
func (s *start) granted(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	failpoint.Hit(failpoint.KeyRecorded)
	s.lease, s.before = s.leases.keep(b), b.Request.Calls-1
	defer s.leases.leave(s.lease)
	return s.proceed(ctx, b)
}

// proceed goes on with a key that is ours: it asks by key where an earlier call
// may have arrived, loads the DAG, and calls the executor. over = false: that
// took longer than the check is good for, the key was given back, and the
// check is to be made again.
//
// The crash windows: before the call the key is recorded as in progress, so
// that the next sender, when the lease is over, asks or sends the same key;
// after the call and before Finish the executor has the key, and honours it.
func (s *start) proceed(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	if b.Sent {
		if reply, over, err := s.ask(ctx, b); over {
			return reply, true, err
		}
	}
	if s.overdue() {
		s.release(ctx, s.before)
		return reply, true, fmt.Errorf("%w: its time to be launched was over at %s", ErrWithheld, s.req.SendUntil.Format(time.RFC3339))
	}
	if reply, over, err := s.permitted(ctx, b); over {
		return reply, true, err
	}
	if reply, over, err := s.load(ctx, b); over {
		return reply, true, err
	}
	s.checkedAt = b.checkedAt
	over, err = s.callInTime(ctx)
	switch {
	case err != nil:
		s.release(ctx, s.before)
		return reply, true, fmt.Errorf("%w: %w", ErrWithheld, context.Cause(ctx))
	case !over:
		s.release(ctx, s.before)
		s.loaded = false // what the owner may run is as old as the check
		return reply, false, nil
	case s.called.err != nil:
		reply, err = s.callFailed(ctx, s.called.err)
	default:
		reply, err = s.finish(ctx, s.called.outcome, s.called.at)
	}
	return reply, true, err
}

// overdue reports whether nothing of the run is to be sent any more.
func (s *start) overdue() bool {
	return !s.req.SendUntil.IsZero() && s.now().After(s.req.SendUntil)
}

// ask asks the executor what became of the key; over = false: it does not know
// it, or cannot say.
func (s *start) ask(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	if s.asked {
		return reply, false, nil
	}
	outcome, err := s.getByKey(ctx)
	switch {
	case err == nil:
		reply, err = s.finish(ctx, outcome, time.Time{})
		return reply, true, err
	case errors.Is(err, schedule.ErrNotFound), errors.Is(err, ErrUnsupported):
		s.asked = true
		return reply, false, nil
	}
	s.release(ctx, s.before)
	return reply, true, s.failed(fmt.Errorf("%w: ask by key: %w", ErrOutcomeUnknown, err))
}

func (s *start) getByKey(ctx context.Context) (schedule.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	return s.executor.GetByKey(ctx, schedule.RunRef{
		Key: s.req.Key, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor,
	})
}

// withheld answers for a key that may not be sent. If it was sent before, only
// asking can still tell what became of it.
func (s *start) withheld(ctx context.Context, b begun) (schedule.StartReply, error) {
	if b.Sent {
		if outcome, err := s.getByKey(ctx); err == nil {
			return s.finish(ctx, outcome, time.Time{})
		}
	}
	return schedule.StartReply{}, fmt.Errorf("%w: %s", ErrWithheld, b.Reason)
}

// load loads the DAG, once for each check; over = true: there is none that the
// owner may run, or not now. That there is none is final from fire_at on only: it
// may be deployed until then.
func (s *start) load(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	if s.loaded {
		return reply, false, nil
	}
	early := s.now().Before(s.req.FireAt)
	dag, err := s.workflows.LoadDAG(s.loads.from(time.Now()), s.req.UserID, s.req.WorkflowID, s.req.Version)
	if err == nil {
		s.loaded = true
		s.prepare(dag)
		return reply, false, nil
	}
	verdict, definite := s.unloadable(err)
	switch {
	case definite && early:
		if err := s.gates.wait(ctx, s.req.FireAt); err != nil {
			s.release(ctx, s.before)
			return reply, true, fmt.Errorf("%w: %w", ErrWithheld, context.Cause(ctx))
		}
		return s.load(ctx, b)
	case definite && !b.Sent && s.leases.ours(s.lease):
		reply, err = s.finish(ctx, verdict.Outcome, time.Time{})
		return reply, true, err
	}
	s.release(ctx, s.before)
	return reply, true, &schedule.LaunchError{
		Code: schedule.CodeWorkflowUnavailable, Err: fmt.Errorf("load workflow %s version %d: %w", s.req.WorkflowID, s.req.Version, err),
	}
}

// prepare puts the call together while there is time for it.
func (s *start) prepare(dag []byte) {
	s.prepared = Call{StartRequest: s.req, DAG: dag}
	// No longer the sender's.
	s.prepared.TraceParent = s.tracer.NotSampled(s.req.Key)
	if s.graph != nil {
		s.prepared.ClientKey = s.graph.Key // it has no row in the ledger: nothing to report to
	} else if s.cfg.PublicURL != "" {
		s.prepared.ReportURL = strings.TrimRight(s.cfg.PublicURL, "/") + "/v1/runs/" + s.req.Key.String() + ":report"
		s.prepared.ReportToken = schedule.ReportToken(s.cfg.ReportSecret, s.req.Key)
	}
}

// unloadable is what it means for a run that its DAG cannot be loaded; not
// definite: the workflow store is away.
func (s *start) unloadable(err error) (verdict schedule.StartReply, definite bool) {
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); ok {
		return refuse(schedule.ReasonLaunchRefused, schedule.CodeWorkflowInvalid, schedule.Storable(invalid.Error(), schedule.MaxErrorMessage)), true
	}
	// The same words whether there is none or it is not this owner's to run.
	message := fmt.Sprintf("the workflow store holds no version %d of %q for owner %q", s.req.Version, s.req.WorkflowID, s.req.UserID)
	return refuse(schedule.ReasonWorkflowNotFound, schedule.CodeWorkflowNotFound, message), errors.Is(err, schedule.ErrNotFound)
}

// callFailed sorts an executor's error: a definite no is recorded, anything
// else leaves the key open. After the last call that is made, an executor that
// can be asked by key is.
func (s *start) callFailed(ctx context.Context, err error) (schedule.StartReply, error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		s.called.unsent = refusal.Unsent
		return s.finish(ctx, schedule.Outcome{
			Status: schedule.StatusFailed, Reason: cmp.Or(refusal.Reason, schedule.ReasonLaunchRefused),
			ErrorCode: refusal.Code, ErrorMessage: refusal.Message,
		}, time.Time{})
	}
	notSent := errors.Is(err, ErrNotSent)
	if !notSent && s.overdue() {
		if outcome, err := s.getByKey(ctx); err == nil {
			return s.finish(ctx, outcome, s.called.at)
		}
	}
	e := s.failed(err)
	s.release(ctx, e.Deliveries)
	s.log.WarnContext(ctx, "executor call failed", "schedule_id", s.req.ScheduleID, "run_at", s.req.ScheduledFor,
		"key", s.req.Key.String(), "error_code", string(e.Code), "sent", !notSent, "err", err)
	return schedule.StartReply{}, e
}

// failed is what an attempt came to whose call failed, or whose executor could
// not be asked by key.
func (s *start) failed(err error) *schedule.LaunchError {
	code := CallCode(err)
	e := &schedule.LaunchError{Code: code, Deliveries: s.before, At: s.called.at, Took: s.called.took, Err: err}
	if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {
		e.Reached, e.Deliveries, e.Err = true, s.before+1, outcomeUnknown{err}
	}
	return e
}

// outcomeUnknown marks an error as ErrOutcomeUnknown. It adds nothing to the text,
// which becomes the error of the run.
type outcomeUnknown struct{ error }

func (e outcomeUnknown) Unwrap() []error { return []error{ErrOutcomeUnknown, e.error} }

// finish records a definite outcome, so that every repeat is answered the same,
// and answers with what then stands.
func (s *start) finish(ctx context.Context, outcome schedule.Outcome, launchedAt time.Time) (schedule.StartReply, error) {
	switch {
	case outcome.Status == schedule.StatusEnqueued && !s.cfg.Feedback:
		outcome.Status, outcome.Reason = schedule.StatusSuccess, schedule.ReasonAccepted
	case outcome.Status == schedule.StatusFailed && outcome.Reason == "":
		outcome.Reason = schedule.ReasonWorkflowFailed
	}
	outcome.ErrorCode = schedule.ExecutorErrorCode(outcome.ErrorCode)
	if s.lease != nil {
		s.leases.end(s.lease)
	}
	sent := !s.called.at.IsZero() && !s.called.unsent
	standing, err := s.finishes.Do(ctx, schedule.FinishRequest{
		Key: s.req.Key, Outcome: outcome, LaunchedAt: launchedAt, Unsent: s.lease != nil && !sent,
	})
	if err != nil {
		return schedule.StartReply{}, fmt.Errorf("record outcome of key %s: %w", s.req.Key, err)
	}
	failpoint.Hit(failpoint.OutcomeRecorded)
	reply := schedule.StartReply{Outcome: standing, LaunchedAt: launchedAt, Deliveries: s.before}
	if sent {
		reply.Deliveries++
	}
	return reply, nil
}

// release gives the key back early, if it is still ours. calls is how many calls
// of it may have reached the executor. If that fails, the lease ends by itself.
func (s *start) release(ctx context.Context, calls int32) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	for _, until := range s.leases.leave(s.lease) {
		if err := s.store.Release(ctx, s.req.Key, until, calls, s.now()); err != nil {
			s.log.WarnContext(ctx, "cannot release the key", "key", s.req.Key.String(), "err", err)
		}
	}
}

func refuse(reason schedule.Reason, code schedule.ErrorCode, message string) schedule.StartReply {
	return schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.StatusFailed, Reason: reason, ErrorCode: string(code), ErrorMessage: message,
	}}
}
