package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var snoozes = []check{
	{"a snoozed run ends, and the same attempt starts again after its delay", snoozeAgain},
	{"a snooze comes as an answer, as a report, and to a run that was accepted", snoozeWays},
	{"a snooze of a run that waits or is over moves nothing", snoozeTooEarly},
	{"a run that was snoozed too often fails, and is dead", snoozeTooOften},
	{"the retry of a snoozed run has snoozed no more, and no catch-up window", snoozeRetried},
	{"a snooze after a cancel was requested is the end of the run", snoozeCancelled},
	{"a snoozed run of a deleted schedule is dead, and nothing follows", snoozeDeleted},
	{"a snoozed run of a queue waits at its place, without a count of attempts", snoozeInQueue},
	{"a snooze without a delay waits at once, also of a run whose schedule is gone", snoozeInQueueAtOnce},
}

// aSnooze is the answer of an executor that wants a run again after a delay.
func aSnooze(delay time.Duration) schedule.Outcome {
	return schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, RunID: "snoozed-1", SnoozeFor: delay}
}

// snoozed ends a launched run with an answer.
func (r *rig) snoozed(run schedule.Run, delay time.Duration) schedule.Run {
	r.Helper()
	done := r.finishRun(run, schedule.FinishRequest{Outcome: aSnooze(delay), LaunchedAt: r.now, Deliveries: 1})
	r.hold(done.Settled, "the answer settles the run")
	got := r.ledger(run.Key)
	r.hold(got.Snoozed() && got.CompletedAt.Equal(r.now) && got.FailureClass == "" && got.RunID == "snoozed-1", "it is SKIPPED(snoozed), got %+v", got)
	return got
}

func snoozeAgain(r *rig) {
	r.lead()
	s := r.retrying("snoozes", withPolicy(schedule.OverlapSkip))
	run := r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = 3 }), schedule.StatusLaunching)
	for n := int32(1); n <= 3; n++ {
		old := r.snoozed(run, time.Hour)
		r.hold(old.Dead == nil && old.Snoozes == n-1 && old.SnoozeUntil.IsZero(), "it is not dead, got %+v", old)
		next := r.next(old)
		want := schedule.Run{
			Key: schedule.SnoozeKey(old.Key), RetryOf: old.Key, Trigger: schedule.TriggerRetry, Status: schedule.StatusPlanned, Attempt: 1, MaxAttempts: 3, Snoozes: n,
			ScheduleID: old.ScheduleID, Revision: old.Revision, UserID: old.UserID, WorkflowID: old.WorkflowID, Version: old.Version,
			RunAt: old.RunAt, FireAt: r.at(time.Hour), OverlapKey: old.OverlapKey, OverlapPolicy: old.OverlapPolicy, Exclusive: old.Exclusive, MaxQueued: old.MaxQueued,
			Input: old.Input, Priority: old.Priority, CreatedAt: r.now, UpdatedAt: r.now, TraceID: next.TraceID,
		}
		equal(r, "what follows", next, stored(want))
		r.hold(next.IsAutomaticRetry(), "Carillon has planned it")
		r.everyView(next.Key, func(view string, run schedule.Run) {
			r.hold(run.Snoozes == n, "%s: snoozes is %d, got %d", view, n, run.Snoozes)
		})
		r.now = next.FireAt.Add(-time.Microsecond)
		r.hold(len(r.claim().Launches) == 0, "it is not claimed before")
		r.now = next.FireAt
		launches := r.claim().Launches
		r.hold(len(launches) == 1 && launches[0].Run.Key == next.Key && launches[0].Run.Attempt == 1, "it is claimed then, got %+v", launches)
		run = r.ledger(next.Key)
	}
	r.settleOne(run, schedule.StatusSuccess)
	success := r.ledger(run.Key)
	_, followed := success.RetriedBy()
	r.hold(!followed, "nothing follows its success")
	r.hold(r.failure(s) == nil, "the schedule has not failed")
}

func snoozeWays(r *rig) {
	r.lead()
	s := r.retrying("ways")
	for name, end := range map[string]func(run schedule.Run){
		"answer to an accepted run": func(run schedule.Run) {
			r.settleOne(run, schedule.StatusStarted)
			r.finish(run.Key, aSnooze(time.Minute))
		},
		"report": func(run schedule.Run) {
			r.settleOne(run, schedule.StatusEnqueued)
			r.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, CompletedAt: r.now, SnoozeUntil: r.at(time.Minute)}})
		},
		"settlement by the sender": func(run schedule.Run) {
			r.settleOne(run, schedule.StatusSkipped, because(schedule.ReasonSnoozed), func(e *schedule.Settlement) { e.SnoozeUntil = r.at(time.Minute) })
		},
	} {
		r.now = r.at(time.Hour)
		run := r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = 3 }), schedule.StatusLaunching)
		end(run)
		old := r.ledger(run.Key)
		r.hold(old.Snoozed(), "%s: it is SKIPPED(snoozed), got %+v", name, old)
		next := r.next(old)
		r.hold(next.FireAt.Equal(r.at(time.Minute)) && next.Attempt == 1 && next.Snoozes == 1, "%s: it starts again, got %+v", name, next)
		r.hold(!r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed})[0], "%s: the second snooze moves nothing", name)
		r.settleOne(next, schedule.StatusCancelled, because(schedule.ReasonCancelled))
	}
}

func snoozeTooEarly(r *rig) {
	r.lead()
	s := r.retrying("too early")
	planned := r.slot(s, r.at(time.Hour).Truncate(time.Second))
	r.add(planned)
	over := r.bring(r.slot(s, r.now.Truncate(time.Second)), schedule.StatusSuccess)
	for _, run := range []schedule.Run{planned, over} {
		before := r.ledger(run.Key)
		moved := r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, SnoozeUntil: r.at(time.Hour)})[0]
		r.hold(!moved, "a run that is %s does not move", before.Status)
		equal(r, "the run", r.ledger(run.Key), before)
	}
}

func snoozeTooOften(r *rig) {
	r.lead()
	s := r.retrying("too often")
	run := r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts, run.Snoozes = 3, schedule.MaxSnoozes-1 }), schedule.StatusLaunching)
	next := r.next(r.snoozed(run, 0))
	r.hold(next.Snoozes == schedule.MaxSnoozes && next.FireAt.Equal(r.now), "it starts again at once, got %+v", next)
	r.hold(len(r.claim().Launches) == 1, "it is claimed")
	r.finishRun(next, schedule.FinishRequest{Outcome: aSnooze(0), LaunchedAt: r.now, Deliveries: 1})
	got := r.ledger(next.Key)
	r.hold(got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonSnoozeLimit && got.FailureClass == schedule.ClassLogic && got.IsDead() && got.ErrorMessage != "",
		"it is FAILED(snooze_limit) and dead, got %+v", got)
}

func snoozeRetried(r *rig) {
	r.lead()
	s := r.retrying("retried", func(s *schedule.Schedule) { s.CatchupWindowMS = 60_000 })
	run := r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = 3 }), schedule.StatusLaunching)
	again := r.next(r.snoozed(run, 24*time.Hour))
	r.now = again.FireAt
	r.hold(len(r.claim().Launches) == 1, "it is claimed a day later")
	r.settleOne(again, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
	retry := r.next(r.ledger(again.Key))
	r.hold(retry.Attempt == 2 && retry.Snoozes == 0 && retry.StartBy.IsZero(), "the second attempt follows, got %+v", retry)
	wait := retry.FireAt.Sub(r.now)
	r.hold(wait >= 9*time.Second && wait <= 11*time.Second, "it waits as a first retry, got %s", wait)
}

func snoozeCancelled(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.retrying("cancelled"), r.now.Truncate(time.Second)), schedule.StatusLaunching)
	r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
	r.finish(run.Key, aSnooze(time.Hour))
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled, "it is cancelled, got %+v", got)
	_, followed := got.RetriedBy()
	r.hold(!followed, "nothing follows")
}

func snoozeDeleted(r *rig) {
	r.lead()
	s := r.retrying("gone")
	run := r.bring(r.slot(s, r.now.Truncate(time.Second)), schedule.StatusLaunching)
	r.begin(r.beginRequest(run))
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.finish(run.Key, aSnooze(time.Hour))
	got := r.ledger(run.Key)
	r.hold(got.Snoozed(), "it is SKIPPED(snoozed), got %+v", got)
	_, followed := got.RetriedBy()
	r.hold(got.IsDead() && !followed, "it is dead, got %+v", got)
}

func snoozeInQueue(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	run := j.put("a")[0]
	j.put("b")
	place := r.ledger(run.Key).Queue
	j.admits(5, "a")
	r.finish(run.Key, aSnooze(time.Hour))
	old := r.ledger(run.Key)
	j.hold(old.Snoozed() && old.Queue.No == place.No, "it is SKIPPED(snoozed), got %+v", old)
	next := r.next(old)
	j.names[next.Key] = "a2"
	j.hold(next.Attempt == 1 && next.MaxAttempts == old.MaxAttempts && next.Snoozes == 1 && next.FireAt.Equal(r.at(time.Hour)), "the same attempt waits, got %+v", next)
	equal(r, "its place", next.Queue, schedule.QueuePlace{No: place.No, State: schedule.QueueDelayed, Position: place.Position, EnqueuedAt: r.now})
	j.waits("b a2")
	r.now = next.FireAt.Add(-time.Microsecond)
	j.hold(!j.sweepQueues().Ready, "it waits for its instant")
	r.now = next.FireAt
	j.hold(j.sweepQueues().Ready, "its wait is over")
	j.waits("a2 b")
	j.admits(5, "a2")
}

func snoozeInQueueAtOnce(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	run := j.put("a")[0]
	j.put("b")
	j.admits(5, "a")
	gone := j.of
	gone.DeletedAt = r.now
	r.change(schedule.Change{Row: &gone})
	j.accept(run)
	moved := r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, CompletedAt: r.now})
	j.hold(moved[0], "it ends")
	next := r.next(r.ledger(run.Key))
	j.names[next.Key] = "a2"
	j.isIn(next, schedule.QueueWaiting)
	j.waits("a2 b")
	j.admits(1, "a2")
}
