package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// finishAll records outcomes in one transaction and answers their starts.
func (l *Launcher) finishAll(starts []*start) {
	l.timers.waitForCalls()
	var done []schedule.Finished
	err := l.guard(func() (err error) { done, err = l.finishKeys(starts); return err })
	l.renewer.forget(starts...)
	for i, s := range starts {
		if err != nil {
			s.end(schedule.StartReply{}, fmt.Errorf("record outcome of key %s: %w", s.req.Key, err))
			continue
		}
		s.finished(&done[i])
	}
}

func (l *Launcher) finishKeys(starts []*start) ([]schedule.Finished, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	reqs := make([]schedule.FinishRequest, len(starts))
	for i, s := range starts {
		reqs[i] = s.done
	}
	l.renewer.end(starts)
	done, err := l.store.Finish(ctx, reqs, l.now())
	for i := range done {
		if said, counts := reqs[i].Outcome.Status, done[i].Outcome.Status; said.Terminal() && counts.Terminal() && said != counts {
			l.endedLate()
		}
	}
	return done, err
}

// callFailed handles an executor's error. A refusal is recorded; any other error
// leaves the key open. After the last attempt it asks the executor by key.
func (s *start) callFailed(err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		s.called.unsent = refusal.Unsent
		s.finish(schedule.Outcome{
			Status: schedule.StatusFailed, Reason: cmp.Or(refusal.Reason, schedule.ReasonLaunchRefused),
			ErrorCode: refusal.Code, ErrorMessage: refusal.Message,
		}, time.Time{})
		return
	}
	notSent := errors.Is(err, ErrNotSent)
	if !notSent && s.overdue() {
		if outcome, err := s.getByKey(); err == nil {
			s.finish(outcome, s.called.at)
			return
		}
	}
	e := s.failed(err)
	s.releaseKey(e.Deliveries)
	s.log.Warn("executor call failed", "schedule_id", s.req.ScheduleID, "run_at", s.req.ScheduledFor,
		"key", s.req.Key.String(), "error_code", string(e.Code), "sent", !notSent, "err", err)
	s.end(schedule.StartReply{}, e)
}

// failed returns the error of an attempt whose call failed, or whose executor
// could not be asked by key.
func (s *start) failed(err error) *schedule.LaunchError {
	code := CallCode(err)
	e := &schedule.LaunchError{Code: code, Deliveries: s.before, At: s.called.at, Took: s.called.took, Err: err}
	if call, ok := errors.AsType[*CallError](err); ok && s.req.InQueue && call.NotTaken > 0 {
		e.NotTaken = call.NotTaken
		return e
	}
	if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {
		e.Reached, e.Deliveries, e.Err = true, s.before+1, outcomeUnknown{err}
	}
	return e
}

// outcomeUnknown marks an error as ErrOutcomeUnknown. It keeps the text, which
// becomes the error of the run.
type outcomeUnknown struct{ error }

func (e outcomeUnknown) Unwrap() []error { return []error{ErrOutcomeUnknown, e.error} }

// finish settles the run by a definite outcome. The one that counts is answered, which
// can be an earlier one of the key. Every repeat gets the same outcome.
func (s *start) finish(outcome schedule.Outcome, launchedAt time.Time) {
	switch {
	case outcome.Status == schedule.StatusEnqueued && !s.cfg.Feedback:
		outcome.Status, outcome.Reason = schedule.StatusSuccess, schedule.ReasonAccepted
	case outcome.Status == schedule.StatusFailed && outcome.Reason == "":
		outcome.Reason = schedule.ReasonWorkflowFailed
	case outcome.Reason == schedule.ReasonSnoozed && s.graph != nil:
		// Its caller waits for one outcome of its key.
		outcome = schedule.Outcome{
			Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: outcome.RunID, TraceID: outcome.TraceID,
			ErrorCode: string(schedule.CodeSnoozed), ErrorMessage: "the executor answered SNOOZE, which a graph run cannot do",
		}
	}
	if outcome.Reason == schedule.ReasonWorkflowFailed && outcome.ErrorCode == string(schedule.CodeInterrupted) {
		outcome.Reason = schedule.ReasonInterrupted
	}
	outcome.ErrorCode = schedule.ExecutorErrorCode(outcome.ErrorCode)
	outcome.Result = outcome.Result.Until(s.now().Add(s.cfg.KeepResults))
	if problem := outcome.Result.ProblemText(); problem != "" {
		s.log.Warn("a result was not kept", "schedule_id", s.req.ScheduleID, "key", s.req.Key.String(), "problem", problem)
	}
	sent := !s.called.at.IsZero() && !s.called.unsent
	deliveries := s.before
	if sent {
		deliveries++
	}
	s.done = schedule.FinishRequest{
		Key: s.req.Key, Outcome: outcome, LaunchedAt: launchedAt, Deliveries: deliveries, RunTimeout: s.req.RunTimeout, MaxRun: s.req.MaxRun,
		Unsent: s.lease != nil && !sent, WakeLeader: s.req.WakeLeader,
	}
	s.finishes.Add(s)
}

func (s *start) finished(f *schedule.Finished) {
	failpoint.Hit(failpoint.OutcomeRecorded)
	s.end(schedule.StartReply{Outcome: f.Outcome, LaunchedAt: s.done.LaunchedAt, Deliveries: s.done.Deliveries, Settled: f.Settled}, nil)
}

// releaseKey ends the lease early if this process still holds the key. calls is
// how many calls of the key may have reached the executor. If the statement fails,
// the lease ends by itself.
func (s *start) releaseKey(calls int32) {
	for _, until := range s.renewer.remove(s.lease) {
		if _, err := s.releases.Do(s.sender, schedule.KeyRelease{Key: s.req.Key, Held: until, Calls: calls}); err != nil {
			s.log.Warn("cannot release the key", "key", s.req.Key.String(), "err", err)
		}
	}
	s.lease = nil
}

// releaseAll is a batch: when an executor fails, thousands of calls fail at once.
func (l *Launcher) releaseAll(ctx context.Context, releases []schedule.KeyRelease) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return make([]struct{}, len(releases)), l.store.Release(ctx, releases, l.now())
}

func refusal(reason schedule.Reason, code schedule.ErrorCode, message string) schedule.StartReply {
	return schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.StatusFailed, Reason: reason, ErrorCode: string(code), ErrorMessage: message,
	}}
}
