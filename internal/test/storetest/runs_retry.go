package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func runCancelWaiting(r *rig) {
	s := r.create("queue", withPolicy(schedule.OverlapQueue))
	run := r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.WaitingSince = r.now })
	r.add(run)
	got, moved := r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled})
	r.hold(moved && got.Status == schedule.StatusCancelled && got.WaitingSince.IsZero(), "it is CANCELLED and waits no more, got %+v", got)
}

// retryOf is the next attempt of a run, as the registrar makes it.
func (r *rig) retryOf(s schedule.Schedule, run schedule.Run, requestID string) schedule.Run {
	return r.slot(s, run.RunAt, func(next *schedule.Run) {
		next.Key, next.Trigger = schedule.RetryKey(run.Key, requestID), schedule.TriggerRetry
		next.FireAt, next.Attempt, next.RetryOf = r.now, run.Attempt+1, run.Key
	})
}

func runRetry(r *rig) {
	s := r.create("retried")
	run := r.bring(r.due(s, 30), schedule.StatusFailed)
	next := r.retryOf(s, run, "1")
	event := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventRetried, Actor: r.user}
	got, moved, err := r.ChangeRun(r.ctx, run.Key, next.Key, func(in schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Insert: &next, Events: []schedule.Event{event}, Now: r.now}, nil
	})
	r.ok(err, "retry")
	r.hold(moved, "a run was inserted")
	equal(r, "answers", got, next)
	r.untouched(run, next)
	r.hold(len(r.eventsOf(s)) == 1, "the event is kept")
	r.hold(len(r.claim().Launches) == 1, "the new attempt is claimed")
}

func runRetryAgain(r *rig) {
	s := r.create("retried")
	run := r.bring(r.due(s, 30), schedule.StatusFailed)
	next := r.retryOf(s, run, "1")
	launched := r.bring(next, schedule.StatusStarted)
	next.Priority = 9
	_, moved, err := r.ChangeRun(r.ctx, run.Key, next.Key, func(in schedule.RunInput) (schedule.RunChange, error) {
		r.hold(in.Existing != nil && in.Existing.Key == next.Key, "the attempt that is there is shown")
		return schedule.RunChange{Insert: &next, Now: r.now}, nil
	})
	r.ok(err, "retry again")
	r.hold(!moved, "nothing was inserted")
	r.untouched(run, launched)
}

func runOfDeleted(r *rig) {
	s := r.create("deleted")
	run := r.bring(r.due(s, 30), schedule.StatusStarted)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	got, moved := r.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
		r.hold(in.Schedule != nil && !in.Schedule.Alive(), "the tombstone comes along")
		return schedule.RunChange{Settle: &schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess}}
	})
	r.hold(moved && got.Status == schedule.StatusSuccess, "its run still ends, got %s", got.Status)
}
