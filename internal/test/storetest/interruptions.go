package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var interruptions = []check{
	{"an interrupted run starts again at once as the same attempt, three times in a row", interruptedAgain},
	{"a run with one attempt, with a requested cancel or of a deleted schedule does not start again", interruptedForGood},
	{"an interrupted last attempt starts again, and is no failure of its schedule", interruptedLast},
	{"a snooze and a failure end the row of interruptions", interruptedRow},
	{"an interrupted run of a queue waits at its place", interruptedInQueue},
}

// interrupted ends a launched run with the answer of an executor that is shut down.
func (r *rig) interrupted(run schedule.Run) schedule.Run {
	r.Helper()
	r.finish(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, ErrorCode: "interrupted"})
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonInterrupted && got.FailureClass == schedule.ClassLost, "it is FAILED(interrupted), got %+v", got)
	return got
}

// launching is the first of three attempts of a slot, sent.
func (r *rig) launching(s schedule.Schedule) schedule.Run {
	r.Helper()
	return r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = s.Retry.Attempts() }), schedule.StatusLaunching)
}

func interruptedAgain(r *rig) {
	r.lead()
	run := r.launching(r.retrying("again"))
	for n := int32(1); n <= 3; n++ {
		old := r.interrupted(run)
		run = r.next(old)
		r.hold(run.Key == schedule.AgainKey(old.Key) && run.RetryOf == old.Key && run.Attempt == 1 && run.MaxAttempts == 3 && run.Interruptions == n && run.IsAutomaticRetry() &&
			run.FireAt.Equal(r.now) && run.StartBy.Equal(run.RunAt.Add(time.Hour)), "interruption %d is followed by %+v", n, run)
		r.hold(len(r.claim().Launches) == 1, "it is claimed at once")
	}
	last := r.interrupted(run)
	retry := r.next(last)
	r.hold(retry.Attempt == 2 && retry.Interruptions == 0 && retry.FireAt.After(r.now), "the fourth one in a row uses an attempt, got %+v", retry)
}

func interruptedForGood(r *rig) {
	r.lead()
	one := r.interrupted(r.launching(r.create("one attempt")))
	r.hold(one.IsDead(), "one attempt is dead, got %+v", one)

	run := r.launching(r.retrying("cancelled"))
	r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
	r.finish(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, ErrorCode: "interrupted"})
	got := r.ledger(run.Key)
	_, followed := got.RetriedBy()
	r.hold(got.Status == schedule.StatusCancelled && !followed, "it is cancelled, got %+v", got)

	s := r.retrying("gone")
	run = r.launching(s)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	got = r.interrupted(run)
	_, followed = got.RetriedBy()
	r.hold(got.IsDead() && !followed, "it is dead, got %+v", got)
}

func interruptedLast(r *rig) {
	r.lead()
	s := r.retrying("last")
	run := r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.Attempt, run.MaxAttempts = 3, 3 })
	next := r.next(r.interrupted(r.bring(run, schedule.StatusLaunching)))
	r.hold(next.Attempt == 3 && next.Interruptions == 1, "the last attempt starts again, got %+v", next)
	r.hold(r.failure(s) == nil, "the schedule has not failed")
	shown, err := r.RecentOutcomes(r.ctx, []string{s.ScheduleID}, 5)
	r.ok(err, "recent outcomes")
	r.hold(shown[s.ScheduleID].Failure == nil, "it is not shown as failing, got %+v", shown[s.ScheduleID].Failure)
	r.hold(len(r.claim().Launches) == 1, "it is claimed")
	r.settleOne(next, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
	dead := r.ledger(next.Key)
	r.hold(dead.IsDead(), "its failure is the end, got %+v", dead)
}

func interruptedRow(r *rig) {
	r.lead()
	run := r.launching(r.retrying("row"))
	run = r.next(r.interrupted(run))
	r.claim()
	r.finish(run.Key, aSnooze(0))
	run = r.next(r.ledger(run.Key))
	r.hold(run.Interruptions == 0 && run.Snoozes == 1 && run.Attempt == 1, "the snooze ends the row, got %+v", run)
	r.claim()
	run = r.next(r.interrupted(run))
	r.hold(run.Interruptions == 1 && run.Snoozes == 1 && run.Attempt == 1, "the snoozes of the attempt still count, got %+v", run)
	r.claim()
	r.settleOne(run, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
	run = r.next(r.ledger(run.Key))
	r.hold(run.Interruptions == 0 && run.Snoozes == 0 && run.Attempt == 2, "the next attempt begins without, got %+v", run)
}

func interruptedInQueue(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	run := j.put("a")[0]
	j.put("b")
	place := r.ledger(run.Key).Queue
	j.admits(5, "a")
	next := r.next(r.interrupted(run))
	j.names[next.Key] = "a2"
	equal(r, "its place", next.Queue, schedule.QueuePlace{No: place.No, State: schedule.QueueWaiting, Position: place.Position, EnqueuedAt: r.now})
	j.hold(next.Attempt == 1 && next.Interruptions == 1, "it is the same attempt, got %+v", next)
	j.waits("a2 b")
	j.admits(5, "a2")
}
