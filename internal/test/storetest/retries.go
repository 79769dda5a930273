package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var retries = []check{
	{"a failed run with attempts left has one retry, until it is the last one", retryUntilDead},
	{"a class that is not in retry.on, a deletion and the catch-up window end the attempts", retryNoMore},
	{"a retry by hand of a dead run takes it off the list of dead runs", retryByHand},
	{"a retry waits for its overlap group, and during a pause", retryWaits},
	{"a retry under replace is coalesced once a newer slot has started", retrySuperseded},
	{"a schedule does not fail while a retry follows", retryFails},
	{"a retry that waits ends with its catch-up window, also during a pause, and is dead", retryTooLate},
	{"a retry that was claimed is not called during a pause, nor for the first time after its catch-up window", retryNotCalled},
	{"the retry of a backfill has no catch-up window, although its key begins as that of a slot", retryOfBackfill},
	{"an end that is applied twice has one retry", retryOnce},
}

// retrying is a schedule with three attempts, ten seconds apart at first.
func (r *rig) retrying(name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	return r.create(name, append([]func(*schedule.Schedule){func(s *schedule.Schedule) {
		s.Retry = schedule.RetryPolicy{MaxAttempts: 3}.Resolved()
		s.CatchupWindowMS = 3_600_000
	}}, edits...)...)
}

// failed is a slot of s that has failed on its first attempt.
func (r *rig) failed(s schedule.Schedule, edits ...func(*schedule.Settlement)) schedule.Run {
	r.Helper()
	run := r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = s.Retry.Attempts() })
	started := r.bring(run, schedule.StatusStarted)
	r.settleOne(started, schedule.StatusFailed, append([]func(*schedule.Settlement){because(schedule.ReasonWorkflowFailed)}, edits...)...)
	return r.ledger(run.Key)
}

func because(reason schedule.Reason) func(*schedule.Settlement) {
	return func(e *schedule.Settlement) { e.Reason = reason }
}

// next is the retry of a failed run.
func (r *rig) next(run schedule.Run) schedule.Run {
	r.Helper()
	key, ok := run.RetriedBy()
	r.hold(ok, "a retry follows run %s", run.Key)
	return r.ledger(key)
}

func retryUntilDead(r *rig) {
	r.lead()
	s := r.retrying("retried")
	run := r.failed(s)
	for attempt := int32(2); attempt <= 3; attempt++ {
		before := run
		run = r.next(run)
		r.hold(run.Attempt == attempt && run.MaxAttempts == 3 && run.RetryOf == before.Key && run.Trigger == schedule.TriggerRetry && run.RunAt.Equal(before.RunAt) &&
			run.Status == schedule.StatusPlanned && run.IsAutomaticRetry() && run.StartBy.Equal(run.RunAt.Add(time.Hour)), "attempt %d is planned, got %+v", attempt, run)
		wait := run.FireAt.Sub(before.CompletedAt)
		base := time.Duration(attempt-1) * 10 * time.Second
		r.hold(wait >= base*9/10 && wait <= base*11/10, "attempt %d waits %s", attempt, wait)
		r.hold(len(r.claim().Launches) == 0, "it is not claimed before")
		r.now = run.FireAt
		r.hold(len(r.claim().Launches) == 1, "it is claimed at its fire_at")
		r.settleOne(run, schedule.StatusFailed, because(schedule.ReasonTimeout))
		run = r.ledger(run.Key)
	}
	r.hold(run.IsDead() && run.FailureClass == schedule.ClassTimeout, "the last attempt is dead, got %+v", run)
	_, followed := run.RetriedBy()
	r.hold(!followed, "nothing follows it")
}

func retryNoMore(r *rig) {
	r.lead()
	logic := r.failed(r.retrying("logic"), func(e *schedule.Settlement) { e.FailureClass = schedule.ClassLogic })
	r.hold(logic.IsDead() && logic.FailureClass == schedule.ClassLogic, "logic is not retried, got %+v", logic)
	late := r.failed(r.retrying("late", func(s *schedule.Schedule) { s.CatchupWindowMS = 5000 }))
	r.hold(late.IsDead(), "a retry after the catch-up window is not planned, got %+v", late)

	s := r.retrying("deleted")
	run := r.bring(r.slot(s, r.now.Truncate(time.Second), func(run *schedule.Run) { run.MaxAttempts = 3 }), schedule.StatusStarted)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.settleOne(run, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
	ended := r.ledger(run.Key)
	r.hold(ended.IsDead(), "a run of a deleted schedule is not retried")
}

func retryByHand(r *rig) {
	r.lead()
	s := r.retrying("by hand")
	run := r.failed(s, func(e *schedule.Settlement) { e.FailureClass = schedule.ClassLogic })
	listed := func() int {
		runs, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Dead: true, Now: r.now, Limit: 10})
		r.ok(err, "list dead runs")
		return len(runs)
	}
	r.hold(listed() == 1, "it is listed as dead")
	next := r.retryOf(s, run, "1")
	_, _, err := r.ChangeRun(r.ctx, run.Key, next.Key, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Insert: &next, Redriven: true, Now: r.now}, nil
	})
	r.ok(err, "retry")
	after := r.ledger(run.Key)
	_, automatic := after.RetriedBy()
	r.hold(listed() == 0 && after.Dead != nil && !*after.Dead && !automatic, "it is dead no more, got %+v", after)
}

func retryWaits(r *rig) {
	r.lead()
	s := r.retrying("waits", withPolicy(schedule.OverlapSkip))
	next := r.next(r.failed(s))
	r.now = next.FireAt.Add(-time.Second)
	other := r.bring(r.slot(s, r.now.Truncate(time.Second)), schedule.StatusStarted)
	r.now = next.FireAt
	r.hold(len(r.claim().Launches) == 0 && !r.ledger(next.Key).WaitingSince.IsZero(), "it waits under skip while another run is in flight")
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true} })
	r.settleOne(other, schedule.StatusSuccess)
	r.now = r.at(time.Second)
	r.hold(len(r.claim().Launches) == 0 && r.ledger(next.Key).Status == schedule.StatusPlanned, "it waits while the schedule is paused")
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{} })
	r.now = r.at(time.Second)
	r.hold(len(r.claim().Launches) == 1, "it is claimed after the pause")
}

func retrySuperseded(r *rig) {
	r.lead()
	s := r.retrying("replaces", withPolicy(schedule.OverlapReplace))
	next := r.next(r.failed(s))
	r.now = next.FireAt.Add(-time.Second)
	r.bring(r.slot(s, r.now.Truncate(time.Second)), schedule.StatusSuccess)
	r.now = next.FireAt
	r.hold(len(r.claim().Launches) == 0, "it is not claimed")
	got := r.ledger(next.Key)
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonCoalesced, "it is SKIPPED(coalesced), got %+v", got)
}

func retryFails(r *rig) {
	r.lead()
	s := r.retrying("fails")
	next := r.next(r.failed(s))
	r.hold(r.failure(s) == nil, "a failure with a retry does not count")
	r.now = next.FireAt
	r.hold(len(r.claim().Launches) == 1, "the retry is claimed")
	r.settleOne(next, schedule.StatusFailed, func(e *schedule.Settlement) {
		e.Reason, e.FailureClass = schedule.ReasonWorkflowFailed, schedule.ClassLogic
	})
	f := r.failure(s)
	r.hold(f != nil && f.Failures == 1 && f.LastKey == next.Key, "the last attempt counts, got %+v", f)
}

func retryTooLate(r *rig) {
	r.lead()
	s := r.retrying("too late", func(s *schedule.Schedule) { s.CatchupWindowMS = 60_000 })
	next := r.next(r.failed(s))
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true} })
	r.now = next.StartBy
	r.hold(len(r.claim().Launches) == 0 && r.ledger(next.Key).Status == schedule.StatusPlanned, "it waits while the schedule is paused")
	r.now = r.at(time.Microsecond)
	r.hold(len(r.claim().Launches) == 0, "it is not claimed")
	got := r.ledger(next.Key)
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonMissed && got.IsDead() && got.StartBy.IsZero(), "it is SKIPPED(missed) and dead, got %+v", got)
	_, followed := got.RetriedBy()
	r.hold(!followed, "nothing follows it")
}

func retryNotCalled(r *rig) {
	r.lead()
	s := r.retrying("not called", func(s *schedule.Schedule) { s.CatchupWindowMS = 60_000 })
	next := r.next(r.failed(s))
	r.now = next.FireAt
	r.hold(len(r.claim().Launches) == 1, "it is claimed")
	next = r.ledger(next.Key)
	r.pause(s, time.Time{})
	r.withheld(r.beginRequest(next), schedule.ReasonPaused)
	r.now = next.StartBy.Add(time.Microsecond)
	r.refused(r.beginRequest(next), schedule.StatusSkipped, schedule.ReasonMissed)
	got := r.ledger(next.Key)
	r.hold(got.IsDead(), "it is dead")
}

func retryOfBackfill(r *rig) {
	r.lead()
	s := r.retrying("backfilled")
	run := r.slot(s, r.at(-1000*time.Hour).Truncate(time.Second), func(run *schedule.Run) {
		run.Trigger, run.MaxAttempts, run.FireAt = schedule.TriggerBackfill, 3, r.now
	})
	for range 2 {
		r.settleOne(r.bring(run, schedule.StatusStarted), schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
		run = r.next(r.ledger(run.Key))
		r.hold(run.StartBy.IsZero(), "it has no catch-up window, got %s", run.StartBy)
		r.now = run.FireAt
	}
	r.hold(len(r.claim().Launches) == 1, "the third attempt is claimed")
}

func retryOnce(r *rig) {
	r.lead()
	s := r.retrying("once")
	run := r.failed(s)
	r.hold(!r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})[0], "the second end moves nothing")
	runs, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Now: r.at(time.Hour), Limit: 10})
	r.ok(err, "list runs")
	r.hold(len(runs) == 2, "there are the run and its retry, got %d runs", len(runs))
}

// loggedRetries are the ways in which retries come and go.
var loggedRetries = []loggedChange{
	{"a retry by hand", func(r *rig) func() {
		run := r.bring(r.due(r.create("s"), 1), schedule.StatusFailed)
		return func() {
			again := run
			again.Key, again.Trigger, again.RetryOf, again.FireAt = schedule.RetryKey(run.Key, "again"), schedule.TriggerRetry, run.Key, r.now
			again.Status, again.Reason = schedule.StatusPlanned, schedule.ReasonNone
			r.moveRun(run.Key, schedule.RunChange{Insert: &again})
		}
	}},
	{"the automatic retry after a settlement", func(r *rig) func() {
		run := r.bring(r.soonRetried(), schedule.StatusStarted)
		return func() { r.settleOne(run, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed)) }
	}},
	{"the automatic retry after the answer to a call", func(r *rig) func() {
		run := r.bring(r.soonRetried(), schedule.StatusLaunching)
		r.begin(r.beginRequest(run))
		return func() {
			r.finish(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "1"})
		}
	}},
	{"the automatic retry after a report", func(r *rig) func() {
		run := r.bring(r.soonRetried(), schedule.StatusEnqueued)
		return func() {
			r.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, CompletedAt: r.now}})
		}
	}},
	{"the automatic retry after a sweep", func(r *rig) func() {
		r.bring(r.soonRetried(), schedule.StatusStarted, func(s *schedule.Settlement) { s.TimeoutAt = r.at(time.Second) })
		return func() {
			r.now = r.at(2 * time.Second)
			r.hold(len(r.sweep()) == 1, "the run ends")
		}
	}},
	{"the cancel of an automatic retry", func(r *rig) func() {
		run := r.bring(r.soonRetried(), schedule.StatusStarted)
		r.settleOne(run, schedule.StatusFailed, because(schedule.ReasonWorkflowFailed))
		next := r.next(r.ledger(run.Key))
		return func() {
			r.moveRun(next.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}})
		}
	}},
}

// soonRetried is a slot that is tried again a second after it has failed.
func (r *rig) soonRetried() schedule.Run {
	r.Helper()
	s := r.retrying("s", func(s *schedule.Schedule) { s.Retry.BackoffMS = 1000 })
	return r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.MaxAttempts = 3 })
}
