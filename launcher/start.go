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

// Errors of a start without an outcome. The same key may be sent again later.
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
//   - the key is new: the call is recorded, the DAG loaded, the executor called,
//     its answer recorded and returned;
//   - the key is known and done: the recorded answer, success or error;
//   - the key was used for another request: FAILED(key_conflict);
//   - nothing was sent, and the schedule is paused or deleted, a cancel of the run
//     was requested, or its grant does not allow it: SKIPPED or CANCELLED, final;
//   - anything else is an error, and the same key may be sent again.
func (l *Launcher) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	hash, err := requestHash(req)
	if err != nil {
		// Nothing is final before fire_at.
		return refuse(schedule.ReasonLaunchRefused, schedule.CodeInvalidInput, err.Error()), l.timers.wait(ctx, req.FireAt)
	}
	// An early start is checked and recorded ahead of fire_at, but so late that the
	// check is still valid at fire_at.
	if err := l.timers.wait(ctx, req.FireAt.Add(-CheckAhead)); err != nil {
		return schedule.StartReply{}, err
	}
	s := &start{Launcher: l, req: req, hash: hash, span: l.tracer.Start(&req)}
	defer s.releaseSlot()
	reply, err := s.run(ctx)
	s.span.End(reply.Outcome, err)
	return reply, err
}

// run begins the key and continues with it, or answers with the outcome that it has.
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
			return schedule.StartReply{Outcome: b.Request.Outcome, Deliveries: b.Request.Calls, Settled: b.Settled}, nil
		case schedule.Conflict:
			return refuse(schedule.ReasonKeyConflict, schedule.CodeKeyConflict, "the key is that of another request"), s.timers.wait(ctx, s.req.FireAt)
		case schedule.Busy:
			return schedule.StartReply{}, ErrBusy
		default:
			if !s.now().Before(s.req.FireAt) {
				return s.withheld(ctx, b)
			}
			// A check before fire_at is not final: repeat it then.
			if err := s.timers.wait(ctx, s.req.FireAt); err != nil {
				return schedule.StartReply{}, err
			}
		}
	}
	return schedule.StartReply{}, fmt.Errorf("%w: the check of pause and cancel was too old %d times", ErrWithheld, renewals)
}

// renewals bounds the checks of one Start. A check is repeated if it expired while
// the DAG was loaded or the executor was asked by key.
const renewals = 3

// busyWait is how long a start waits for another open call of its key. The pauses
// are short because the key is free as soon as its holder is proven to be gone.
const (
	busyWait     = 5 * time.Second
	minBusyPause = 20 * time.Millisecond
	maxBusyPause = 100 * time.Millisecond
)

// start is one running Start.
type start struct {
	*Launcher
	req       schedule.StartRequest
	hash      [32]byte
	lease     *lease    // of the key while this process holds it
	before    int32     // calls of the key that may have reached the executor earlier
	slotHeld  bool      // the start has one of the MaxCalls calls
	slotOwner string    // owner for which it has it: a repeated check may change that of a graph run
	asked     bool      // the executor was asked by key and does not know it or cannot answer
	graph     *GraphRun // nil: a run in the ledger
	span      tracing.Span
	loaded    bool
	prepared  Call      // the call without deadline and trace
	checkedAt time.Time // time of the last check
	called    called
}

// begin asks for the key. It waits up to busyWait for another open call of the key.
func (s *start) begin(ctx context.Context) (begun, error) {
	began := time.Now()
	// Drawn once: two starts of a key that waited for one batch part again.
	jitter := s.renewer.spread(s.req.Key, maxBusyPause/4)
	for pause := minBusyPause; ; pause = min(2*pause, maxBusyPause) {
		b, err := s.begins.Do(ctx, schedule.BeginRequest{
			Key: s.req.Key, RequestHash: s.hash, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor, Trigger: s.req.Trigger,
			Version: s.req.Version, Input: s.req.Input, Grant: s.grantUse(),
			FireAt: s.req.FireAt, // beginAll sets the lease
		})
		if err != nil || b.Permission != schedule.Busy || time.Since(began) >= busyWait {
			return b, err
		}
		if err := sleep(ctx, pause+jitter); err != nil {
			return b, nil // still busy
		}
	}
}

// grantUse is the grant that Begin checks. For a graph run, permitted checks it
// later, because the owner is not known yet.
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

// granted continues with a key that this process holds and renews its lease.
func (s *start) granted(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	failpoint.Hit(failpoint.KeyRecorded)
	s.lease, s.before = s.renewer.add(b), b.Request.Calls-1
	defer s.renewer.remove(s.lease)
	return s.proceed(ctx, b)
}

// proceed continues with a key that this process holds. If an earlier call may
// have arrived it asks the executor by key. Then it loads the DAG and calls the
// executor. over = false: the check expired meanwhile, the key was released, and
// the check must be repeated.
//
// Crash before the call: the run names this process as holder, so the next sender
// asks or sends the same key when the lease is over. Crash between the call and
// Finish: the executor knows the key and honours it.
func (s *start) proceed(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	if b.Sent {
		if reply, over, err := s.ask(ctx, b); over {
			return reply, true, err
		}
	}
	if s.overdue() {
		s.releaseKey(ctx, s.before)
		return reply, true, fmt.Errorf("%w: the time to launch it ended at %s", ErrWithheld, s.req.SendUntil.Format(time.RFC3339))
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
		s.releaseKey(ctx, s.before)
		return reply, true, fmt.Errorf("%w: %w", ErrWithheld, context.Cause(ctx))
	case !over:
		s.releaseKey(ctx, s.before)
		s.loaded = false // whether the owner may run it must be checked again too
		return reply, false, nil
	case s.called.err != nil:
		reply, err = s.callFailed(ctx, s.called.err)
	default:
		reply, err = s.finish(ctx, s.called.outcome, s.called.at)
	}
	return reply, true, err
}

// overdue reports whether the run may no longer be sent.
func (s *start) overdue() bool {
	return !s.req.SendUntil.IsZero() && s.now().After(s.req.SendUntil)
}

// ask asks the executor for the outcome of the key. over = false: the executor
// does not know the key or cannot answer.
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
	s.releaseKey(ctx, s.before)
	return reply, true, s.failed(fmt.Errorf("%w: ask by key: %w", ErrOutcomeUnknown, err))
}

func (s *start) getByKey(ctx context.Context) (schedule.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	return s.executor.GetByKey(ctx, schedule.RunRef{
		Key: s.req.Key, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor,
	})
}

// withheld answers for a key that may not be sent. If the key was sent before, it
// asks the executor by key first.
func (s *start) withheld(ctx context.Context, b begun) (schedule.StartReply, error) {
	if b.Sent {
		if outcome, err := s.getByKey(ctx); err == nil {
			return s.finish(ctx, outcome, time.Time{})
		}
	}
	return schedule.StartReply{}, fmt.Errorf("%w: %s", ErrWithheld, b.Reason)
}

// load loads the DAG, once for each check. over = true: the owner may run no such
// DAG, or the store is unavailable. A missing DAG is final only from fire_at on,
// because it may be deployed until then.
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
		if err := s.timers.wait(ctx, s.req.FireAt); err != nil {
			s.releaseKey(ctx, s.before)
			return reply, true, fmt.Errorf("%w: %w", ErrWithheld, context.Cause(ctx))
		}
		return s.load(ctx, b)
	case definite && !b.Sent && s.renewer.held(s.lease):
		reply, err = s.finish(ctx, verdict.Outcome, time.Time{})
		return reply, true, err
	}
	s.releaseKey(ctx, s.before)
	return reply, true, &schedule.LaunchError{
		Code: schedule.CodeWorkflowUnavailable, Err: fmt.Errorf("load workflow %s version %d: %w", s.req.WorkflowID, s.req.Version, err),
	}
}

// prepare builds the call before its instant.
func (s *start) prepare(dag []byte) {
	s.prepared = Call{StartRequest: s.req, DAG: dag}
	// Not that of the sender.
	s.prepared.TraceParent = s.tracer.NotSampled(s.req.Key)
	if s.graph != nil {
		s.prepared.ClientKey = s.graph.Key // the ledger has no row of it: no report_url
	} else if s.cfg.PublicURL != "" {
		s.prepared.ReportURL = strings.TrimRight(s.cfg.PublicURL, "/") + "/v1/runs/" + s.req.Key.String() + ":report"
		s.prepared.ReportToken = schedule.ReportToken(s.cfg.ReportSecret, s.req.Key)
	}
}

// unloadable returns the outcome of a run whose DAG cannot be loaded. Not
// definite: the workflow store is unavailable.
func (s *start) unloadable(err error) (verdict schedule.StartReply, definite bool) {
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); ok {
		return refuse(schedule.ReasonLaunchRefused, schedule.CodeWorkflowInvalid, schedule.Storable(invalid.Error(), schedule.MaxErrorMessage)), true
	}
	// The text must not reveal whether the workflow exists for another owner.
	message := fmt.Sprintf("the workflow store holds no version %d of %q for owner %q", s.req.Version, s.req.WorkflowID, s.req.UserID)
	return refuse(schedule.ReasonWorkflowNotFound, schedule.CodeWorkflowNotFound, message), errors.Is(err, schedule.ErrNotFound)
}

// callFailed handles an executor's error. A refusal is recorded; any other error
// leaves the key open. After the last attempt it asks the executor by key.
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
	s.releaseKey(ctx, e.Deliveries)
	s.log.WarnContext(ctx, "executor call failed", "schedule_id", s.req.ScheduleID, "run_at", s.req.ScheduledFor,
		"key", s.req.Key.String(), "error_code", string(e.Code), "sent", !notSent, "err", err)
	return schedule.StartReply{}, e
}

// failed returns the error of an attempt whose call failed, or whose executor
// could not be asked by key.
func (s *start) failed(err error) *schedule.LaunchError {
	code := CallCode(err)
	e := &schedule.LaunchError{Code: code, Deliveries: s.before, At: s.called.at, Took: s.called.took, Err: err}
	if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {
		e.Reached, e.Deliveries, e.Err = true, s.before+1, outcomeUnknown{err}
	}
	return e
}

// outcomeUnknown marks an error as ErrOutcomeUnknown. It keeps the text, which
// becomes the error of the run.
type outcomeUnknown struct{ error }

func (e outcomeUnknown) Unwrap() []error { return []error{ErrOutcomeUnknown, e.error} }

// finish settles the run by a definite outcome, and returns the one that counts,
// which can be an earlier one of the key. Every repeat gets the same outcome.
func (s *start) finish(ctx context.Context, outcome schedule.Outcome, launchedAt time.Time) (schedule.StartReply, error) {
	switch {
	case outcome.Status == schedule.StatusEnqueued && !s.cfg.Feedback:
		outcome.Status, outcome.Reason = schedule.StatusSuccess, schedule.ReasonAccepted
	case outcome.Status == schedule.StatusFailed && outcome.Reason == "":
		outcome.Reason = schedule.ReasonWorkflowFailed
	}
	outcome.ErrorCode = schedule.ExecutorErrorCode(outcome.ErrorCode)
	if s.lease != nil {
		s.renewer.end(s.lease)
	}
	sent := !s.called.at.IsZero() && !s.called.unsent
	deliveries := s.before
	if sent {
		deliveries++
	}
	finished, err := s.finishes.Do(ctx, schedule.FinishRequest{
		Key: s.req.Key, Outcome: outcome, LaunchedAt: launchedAt, Deliveries: deliveries, RunTimeout: s.req.RunTimeout,
		Unsent: s.lease != nil && !sent, WakeLeader: s.req.WakeLeader,
	})
	if err != nil {
		return schedule.StartReply{}, fmt.Errorf("record outcome of key %s: %w", s.req.Key, err)
	}
	failpoint.Hit(failpoint.OutcomeRecorded)
	return schedule.StartReply{Outcome: finished.Outcome, LaunchedAt: launchedAt, Deliveries: deliveries, Settled: finished.Settled}, nil
}

// releaseKey ends the lease early if this process still holds the key. calls is
// how many calls of the key may have reached the executor. If the statement fails,
// the lease ends by itself.
func (s *start) releaseKey(ctx context.Context, calls int32) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	for _, until := range s.renewer.remove(s.lease) {
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
