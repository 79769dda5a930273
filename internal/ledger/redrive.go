package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// RetryByHand is a new attempt of a run that has ended, as RetryRun and RedriveRuns make it. d is
// the definition of the run's revision; nil: it cannot be read. q is its queue; nil: it is in none.
// The caller sets the overlap policy.
func RetryByHand(old *schedule.Run, d *schedule.Definition, q *schedule.Queue, o *schedule.RedriveOrder, fireAt time.Time) schedule.Run {
	row := schedule.Run{
		Key: schedule.RetryKey(old.Key, o.RequestID), ScheduleID: old.ScheduleID, Revision: old.Revision, UserID: old.UserID,
		WorkflowID: old.WorkflowID, Version: old.Version, RunAt: old.RunAt, FireAt: fireAt,
		Status: schedule.StatusPlanned, Trigger: schedule.TriggerRetry,
		OverlapKey: old.OverlapKey, MaxQueued: old.MaxQueued,
		Attempt: old.Attempt + 1, MaxAttempts: old.Attempt + 1, RetryOf: old.Key, Input: old.Input, Priority: old.Priority, Webhook: old.Webhook,
		RequestedBy: o.RequestedBy,
	}
	if old.IsJob() { // the leader puts the run of a slot into its queue once its overlap group is free
		enterQueueAgain(&row, old, fireAt)
	}
	if d == nil {
		return row
	}
	if d.QueueID != "" && !old.IsJob() {
		row.Webhook = "" // until it enters
	}
	row.MaxQueued = d.MaxQueued
	switch {
	case o.Renew && old.Queue.In():
		row.MaxAttempts, row.AttemptsBefore = old.Attempt+d.Retry.QueuedAttempts(q, o.JobAttempts), old.Attempt
	case o.Renew:
		row.MaxAttempts = old.Attempt + d.Retry.Attempts()
	}
	return row
}

// Redrive decides which of the found runs are retried, and returns the new runs in the order of
// the found ones. left is how many stay dead because their schedule, or the
// queue of a job, is deleted.
//
//   - A run that failed after the redrive began, or that this redrive made, is not retried: it has
//     had its chance, and a redrive of many transactions must come to an end.
//   - The new run has the overlap policy allow if the schedule has it now, else queue: each
//     redriven run waits for its overlap key, where a slot would be skipped or coalesced.
func Redrive(found []schedule.RunInput, o *schedule.RedriveOrder) (runs []schedule.Run, left int) {
	for i := range found {
		old, s := &found[i].Run, found[i].Schedule
		switch {
		case !old.IsDead(), old.CompletedAt.After(o.Began), !old.RetryOf.IsZero() && old.Key == schedule.RetryKey(old.RetryOf, o.RequestID):
			continue
		case s == nil || !s.Alive() || old.IsJob() && !found[i].Queue.Alive():
			left++
			continue
		}
		row := RetryByHand(old, found[i].Definition, found[i].Queue, o, redriveAt(o, o.Before+len(runs)))
		if row.OverlapPolicy = schedule.OverlapQueue; s.OverlapPolicy == schedule.OverlapAllow {
			row.OverlapPolicy = schedule.OverlapAllow
		}
		row.Exclusive = row.OverlapPolicy.Exclusive()
		runs = append(runs, row)
	}
	return runs, left
}

// redriveAt is when the n-th run of a redrive fires, counted from 0.
func redriveAt(o *schedule.RedriveOrder, n int) time.Time {
	if o.RatePerMinute == 0 {
		return o.Now
	}
	at := o.Began.Add(time.Duration(n) * time.Minute / time.Duration(o.RatePerMinute))
	if at.Before(o.Now) {
		return o.Now
	}
	return at
}
