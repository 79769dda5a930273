package ledger

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// AttemptFacts is what the tables say about the schedule of a failed run.
type AttemptFacts struct {
	Planned *schedule.Definition // of the run's revision: the budget of attempts; nil: it cannot be read
	InForce *schedule.Definition // of the schedule: backoff and classes; nil: the schedule is deleted
	Queue   schedule.RetryPolicy // of the run's queue, in force; zero: it has none
	Setting schedule.RetryPolicy // of runs in queues without either; zero: schedule.DefaultRetry
}

// policy is what decides on retries. A schedule that has lost its policy keeps the one of the
// run's revision for the runs that were planned with it. A run in a queue of a schedule without one
// has that of the queue, else that of the settings.
func (f *AttemptFacts) policy(r *schedule.Run) schedule.RetryPolicy {
	none := schedule.RetryPolicy{}
	for _, d := range []*schedule.Definition{f.InForce, f.Planned} {
		if d != nil && d.Retry != none {
			return d.Retry.Resolved()
		}
	}
	switch {
	case !r.Queue.In():
		return none
	case f.Queue != none:
		return f.Queue.Resolved()
	case f.Setting != none:
		return f.Setting
	}
	return schedule.DefaultRetry
}

// place is the number of the retry after a failed run within its budget of attempts, counted
// from 1. A retry by hand that renews the budget begins a new one. The budget of a job can be
// another one than that of its schedule, so that its row says where it begins.
func (f *AttemptFacts) place(r *schedule.Run) int {
	before := r.AttemptsBefore
	if f.Planned != nil && !r.Queue.In() {
		before = max(r.MaxAttempts-f.Planned.Retry.Attempts(), 0)
	}
	return int(max(r.Attempt-before, 1))
}

// NeedsAttemptFacts reports whether a run follows an end if the facts allow it.
func NeedsAttemptFacts(r *schedule.Run) bool {
	return r.Snoozed() || r.Status == schedule.StatusFailed && (r.Attempt < r.MaxAttempts || r.StartsAgain()) && r.CancelRequestedAt.IsZero()
}

// Conclude completes a run that has ended with its failure class and whether it is dead, and
// returns the run that follows it: its next attempt, or the same one after a snooze; nil: there
// is none. Each end of a run goes through it before it is written to history, and what follows is
// written in the same transaction. facts are needed as NeedsAttemptFacts says.
func Conclude(r *schedule.Run, facts *AttemptFacts) (next *schedule.Run) {
	r.Dead = nil
	dead := r.Status == schedule.StatusSkipped && r.Reason == schedule.ReasonMissed && r.IsAutomaticRetry()
	if r.Status == schedule.StatusFailed {
		r.FailureClass = schedule.ClassOf(r.Reason, r.FailureClass)
		next, _ = NextAttempt(r, facts)
		dead = next == nil
	} else {
		r.FailureClass = ""
	}
	if r.Snoozed() {
		next = afterSnooze(r, facts)
		dead = next == nil
	}
	if dead {
		r.Dead = &dead
	}
	r.StartBy, r.DeadlineAt, r.SnoozeUntil, r.AttemptsBefore, r.Progress = time.Time{}, time.Time{}, time.Time{}, 0, "" // history has no use for them
	return next
}

// NextAttempt returns the automatic retry of a failed run, or nil and why there is none. An
// interrupted run starts again at once, as the same attempt. The catch-up window of the schedule
// limits the retries of its slots.
func NextAttempt(r *schedule.Run, facts *AttemptFacts) (next *schedule.Run, why string) {
	again := r.StartsAgain()
	switch {
	case again && r.CancelRequestedAt.IsZero(): // it uses no attempt
	case r.Attempt >= r.MaxAttempts && r.MaxAttempts > 1:
		return nil, fmt.Sprintf("attempt %d of %d was the last one", r.Attempt, r.MaxAttempts)
	case r.Attempt >= r.MaxAttempts:
		return nil, "the run has one attempt"
	case !r.CancelRequestedAt.IsZero():
		return nil, "its cancel was requested"
	}
	if facts == nil || facts.InForce == nil && !(r.Queue.In() && facts.Planned != nil) {
		return nil, "the schedule was deleted"
	}
	var row schedule.Run
	if again {
		row = successor(r, schedule.AgainKey(r.Key))
		row.Snoozes, row.Interruptions, row.FireAt = r.Snoozes, r.Interruptions+1, stored(r.CompletedAt)
	} else {
		policy := facts.policy(r)
		if !policy.On.Has(r.FailureClass) {
			return nil, fmt.Sprintf("class %s is not in retry.on", r.FailureClass)
		}
		row = successor(r, schedule.AttemptKey(r.Key))
		row.Attempt++
		row.FireAt = stored(r.CompletedAt.Add(policy.Wait(facts.place(r), row.Key)))
	}
	enterQueueAgain(&row, r, r.CompletedAt)
	if !r.Queue.In() && retriesSlot(r) {
		row.StartBy = stored(r.RunAt.Add(facts.InForce.CatchupWindow()))
	}
	if isPast(row.StartBy, row.FireAt) {
		return nil, "the next attempt would start later than catchup_window_ms after run_at"
	}
	return &row, ""
}

// successor is the run that Carillon plans after another one, as the same attempt.
func successor(r *schedule.Run, key schedule.Key) schedule.Run {
	return schedule.Run{
		Key: key, ScheduleID: r.ScheduleID, Revision: r.Revision, UserID: r.UserID, WorkflowID: r.WorkflowID, Version: r.Version,
		RunAt: r.RunAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerRetry,
		OverlapKey: r.OverlapKey, OverlapPolicy: r.OverlapPolicy, Exclusive: r.Exclusive, MaxQueued: r.MaxQueued,
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, AttemptsBefore: r.AttemptsBefore, RetryOf: r.Key, Input: r.Input, Priority: r.Priority, Webhook: r.Webhook, RequestedBy: r.RequestedBy, CreatedAt: r.CompletedAt,
	}
}

// afterSnooze returns the run that follows a snoozed one; nil: its schedule was deleted. The
// executor decides when it starts, so that it has no catch-up window, and neither have its retries.
func afterSnooze(r *schedule.Run, facts *AttemptFacts) *schedule.Run {
	if !r.Queue.In() && (facts == nil || facts.InForce == nil) {
		return nil
	}
	row := successor(r, schedule.SnoozeKey(r.Key))
	row.Snoozes, row.FireAt = r.Snoozes+1, schedule.Later(r.SnoozeUntil, r.CompletedAt)
	enterQueueAgain(&row, r, r.CompletedAt)
	return &row
}

// retriesSlot reports whether the retry of a run has the catch-up window of the schedule. Retries
// of a backfill and of a run by hand have none.
func retriesSlot(r *schedule.Run) bool { return r.Trigger.FromSpec() || !r.StartBy.IsZero() }

// isPast reports whether an instant is later than a limit; zero: there is no limit.
func isPast(limit, at time.Time) bool { return !limit.IsZero() && at.After(limit) }
