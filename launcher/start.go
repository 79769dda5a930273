package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The ways in which a start stays without an outcome. The same key may be sent
// again, later.
var (
	// ErrBusy: another call of this key is open.
	ErrBusy = errors.New("a call of this key is open")
	// ErrWithheld: a check failed, but that is not final.
	ErrWithheld = errors.New("not to be sent now")
	// ErrOutcomeUnknown: the executor was called and did not answer definitely.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Start starts one run. The outcomes:
//
//   - the key is new: it is recorded, the DAG is loaded, the executor called,
//     its answer recorded and returned;
//   - the key is known and done: the recorded answer, success and error alike;
//   - the key was used for another request: FAILED(key_conflict);
//   - the schedule is paused or deleted, or the run's cancel was asked for, and
//     nothing was sent: SKIPPED or CANCELLED, for good;
//   - anything else is an error, and the same key may be sent again.
func (l *Launcher) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	hash, err := requestHash(req)
	if err != nil {
		return refuse(schedule.ReasonLaunchRefused, "invalid_input", err.Error()), nil
	}
	// What was handed over early is checked and recorded ahead of fire_at, while
	// there is time, but so late that the check is still good when it is called.
	if err := l.waitUntil(ctx, req.FireAt.Add(-checkLife/2)); err != nil {
		return schedule.StartReply{}, err
	}
	b, err := l.begins.Do(ctx, schedule.BeginRequest{
		Key: req.Key, RequestHash: hash, ScheduleID: req.ScheduleID, Trigger: req.Trigger,
		FireAt: req.FireAt, Lease: l.cfg.CallTimeout + leaseMargin,
	})
	if err != nil {
		return schedule.StartReply{}, fmt.Errorf("record key %s: %w", req.Key, err)
	}
	switch b.Permission {
	case schedule.Granted:
		return l.call(ctx, req, b)
	case schedule.GrantedAgain:
		return l.askOrCallAgain(ctx, req, b)
	case schedule.Recorded, schedule.Refused:
		return schedule.StartReply{Outcome: b.Request.Outcome}, nil
	case schedule.Conflict:
		return refuse(schedule.ReasonKeyConflict, "key_conflict", "the key was used before for another request"), nil
	case schedule.Busy:
		return schedule.StartReply{}, ErrBusy
	default:
		return schedule.StartReply{}, fmt.Errorf("%w: %s", ErrWithheld, b.Reason)
	}
}

// waitUntil holds a run that was handed over early: never before fire_at.
func (l *Launcher) waitUntil(ctx context.Context, fireAt time.Time) error {
	for {
		left := fireAt.Sub(l.now())
		if left <= 0 {
			return ctx.Err()
		}
		// At most a second at a time: a timer does not see the clock being set.
		timer := time.NewTimer(min(left, time.Second))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// askOrCallAgain: a call of this key began and nobody knows how it ended.
func (l *Launcher) askOrCallAgain(ctx context.Context, req schedule.StartRequest, b begun) (schedule.StartReply, error) {
	askCtx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	outcome, err := l.executor.GetByKey(askCtx, req.Key)
	cancel()
	switch {
	case err == nil:
		return l.finish(ctx, req, outcome, time.Time{})
	case errors.Is(err, schedule.ErrNotFound), errors.Is(err, ErrUnsupported):
		return l.call(ctx, req, b)
	}
	l.release(ctx, req.Key, true)
	return schedule.StartReply{}, fmt.Errorf("%w: ask by key: %w", ErrOutcomeUnknown, err)
}

// call loads the DAG and calls the executor.
//
// The crash windows: before the call the key is recorded as in progress, so
// that the next sender asks or sends the same key; after the call and before
// Finish the executor has the key, and honours it.
func (l *Launcher) call(ctx context.Context, req schedule.StartRequest, b begun) (schedule.StartReply, error) {
	dag, err := l.workflows.LoadDAG(ctx, req.WorkflowID, req.Version)
	if errors.Is(err, schedule.ErrNotFound) {
		return l.finish(ctx, req, schedule.Outcome{
			Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowNotFound, ErrorCode: string(schedule.ReasonWorkflowNotFound),
			ErrorMessage: fmt.Sprintf("the workflow store holds no version %d of %q", req.Version, req.WorkflowID),
		}, time.Time{})
	}
	if err != nil {
		l.release(ctx, req.Key, b.Sent)
		return schedule.StartReply{}, fmt.Errorf("load workflow %s version %d: %w", req.WorkflowID, req.Version, err)
	}
	if err := l.waitUntil(ctx, req.FireAt); err != nil {
		l.release(ctx, req.Key, b.Sent)
		return schedule.StartReply{}, err
	}
	if l.now().Sub(b.checkedAt) > checkLife {
		l.release(ctx, req.Key, b.Sent)
		return schedule.StartReply{}, fmt.Errorf("%w: the check of pause and cancel is too old", ErrWithheld)
	}
	launchedAt := l.now()
	outcome, err := l.callExecutor(ctx, req, dag)
	if err != nil {
		return l.callFailed(ctx, req, b, err)
	}
	if outcome.Status == schedule.StatusEnqueued && !l.cfg.Feedback {
		outcome.Status, outcome.Reason = schedule.StatusSuccess, schedule.ReasonAccepted
	}
	if outcome.Status == schedule.StatusFailed && outcome.Reason == "" {
		outcome.Reason = schedule.ReasonWorkflowFailed
	}
	return l.finish(ctx, req, outcome, launchedAt)
}

func (l *Launcher) callExecutor(ctx context.Context, req schedule.StartRequest, dag []byte) (schedule.Outcome, error) {
	// Once begun, a call is not cut off by a lost leadership or a shutdown: its
	// answer is worth more than the seconds.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.CallTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	call := Call{StartRequest: req, DAG: dag, Deadline: deadline}
	if l.cfg.PublicURL != "" {
		call.ReportURL = strings.TrimRight(l.cfg.PublicURL, "/") + "/v1/runs/" + req.Key.String() + ":report"
		call.ReportToken = schedule.ReportToken(l.cfg.ReportSecret, req.Key)
	}
	began := time.Now()
	outcome, err := l.executor.Run(ctx, call)
	l.metrics.called(time.Since(began), outcome, err)
	return outcome, err
}

// callFailed sorts an executor's error: a definite no is recorded, anything
// else leaves the key open.
func (l *Launcher) callFailed(ctx context.Context, req schedule.StartRequest, b begun, err error) (schedule.StartReply, error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return l.finish(ctx, req, schedule.Outcome{
			Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused,
			ErrorCode: refusal.Code, ErrorMessage: refusal.Message,
		}, time.Time{})
	}
	notSent := errors.Is(err, ErrNotSent)
	l.release(ctx, req.Key, b.Sent || !notSent)
	l.log.WarnContext(ctx, "executor call failed", "schedule_id", req.ScheduleID, "run_at", req.ScheduledFor,
		"key", req.Key.String(), "sent", !notSent, "err", err)
	if notSent {
		return schedule.StartReply{}, err
	}
	return schedule.StartReply{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

func (l *Launcher) finish(ctx context.Context, req schedule.StartRequest, outcome schedule.Outcome, launchedAt time.Time) (schedule.StartReply, error) {
	if _, err := l.finishes.Do(ctx, schedule.FinishRequest{Key: req.Key, Outcome: outcome}); err != nil {
		return schedule.StartReply{}, fmt.Errorf("record outcome of key %s: %w", req.Key, err)
	}
	return schedule.StartReply{Outcome: outcome, LaunchedAt: launchedAt}, nil
}

// release gives the key back early. If that fails, the lease ends by itself.
func (l *Launcher) release(ctx context.Context, key schedule.Key, sent bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := l.store.Release(ctx, key, sent, l.now()); err != nil {
		l.log.WarnContext(ctx, "key not released", "key", key.String(), "err", err)
	}
}

func refuse(reason schedule.Reason, code, message string) schedule.StartReply {
	return schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.StatusFailed, Reason: reason, ErrorCode: code, ErrorMessage: message,
	}}
}
