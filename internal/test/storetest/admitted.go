package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// admittedRuns are how runs of a dispatch queue go on and end.
var admittedRuns = []check{
	{"a run that the executor has taken is running, with a bound of its own", lifeAccepted},
	{"a run that has ended keeps its queue and its entry", lifeEnded},
	{"a failed run with attempts left has a retry in its queue, at its place", lifeRetried},
	{"the last attempt is dead, and a deletion of its schedule ends no attempts", lifeDead},
	{"without a policy of its schedule a run follows the one of its queue, as it is in force", lifeQueuePolicy},
	{"where neither the schedule nor the queue has a policy, retries wait as the settings say", lifeSettingsPolicy},
	{"a retry by hand enters the queue of the run before it", lifeRetriedByHand},
	{"the waits of a job whose attempts were renewed by hand begin again", lifeRenewed},
	{"a cancel ends a waiting or delayed run at once", lifeCancelWaiting},
	{"a cancel of an admitted run that nobody has is its end, else it is asked for", lifeCancelAdmitted},
	{"an answer that comes late or twice moves nothing", lifeAnswers},
	{"a call of unknown outcome keeps its run in flight, and a later call is granted again", lifeUnknown},
	{"a reported start and end move an admitted run", lifeReports},
	{"runs of queues are found by status, and counted apart from those of leaders", lifeListed},
	{"the view shows queue, state and status", lifeViewed},
}

func lifeAccepted(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(5, "a")
	r.now = r.at(time.Second)
	got := j.accept(run)
	j.isIn(run, schedule.QueueRunning)
	j.hold(got.RunID == accepted.RunID && got.TimeoutAt.Equal(r.at(time.Minute)) && !got.LaunchedAt.IsZero() && got.Deliveries == 1, "it is accepted, got %+v", got)
	moved := r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted, StartedAt: r.now, TimeoutAt: r.at(time.Hour)})
	j.hold(moved[0], "a sign of life counts")
	got = j.isIn(run, schedule.QueueRunning)
	j.hold(got.StartedAt.Equal(r.now) && got.TimeoutAt.Equal(r.at(time.Hour)), "it moves the bound, got %+v", got)
}

func lifeEnded(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	entered := r.now
	j.admits(5, "a")
	r.now = r.at(time.Minute)
	j.accept(run)
	got := j.end(run, schedule.StatusSuccess)
	want := schedule.QueuePlace{No: j.queue.No, EnqueuedAt: entered, AdmittedAs: schedule.AdmittedInOrder}
	equal(r, "its place in history", got.Queue, want)
	j.everyView(run.Key, func(view string, run schedule.Run) { equal(r, view+": place", run.Queue, want) })
	j.hold(got.ClaimedAt.Equal(entered), "it was admitted then, got %s", got.ClaimedAt)
}

func lifeRetried(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	run := j.put("a")[0]
	j.put("b")
	j.enqueue(0, j.job("low", -1))
	place := r.ledger(run.Key).Queue
	j.admits(5, "a")
	failed := j.end(run, schedule.StatusFailed)
	retry := r.next(failed)
	j.names[retry.Key] = "a2"
	j.isIn(retry, schedule.QueueDelayed)
	j.hold(retry.Attempt == 2 && retry.RetryOf == run.Key && retry.Trigger == schedule.TriggerRetry && retry.FireAt.After(r.now), "it is the second attempt, got %+v", retry)
	equal(r, "its place", retry.Queue, schedule.QueuePlace{No: place.No, State: schedule.QueueDelayed, Priority: 0, Position: place.Position, EnqueuedAt: r.now})
	j.waits("b low a2")
	r.now = retry.FireAt
	swept := j.sweepQueues()
	j.hold(swept.Ready, "its wait is over")
	j.waits("a2 b low")
	j.admits(5, "a2")
}

func lifeDead(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	gone := j.of
	gone.DeletedAt = r.now
	r.change(schedule.Change{Row: &gone})
	for attempt := int32(1); attempt <= 3; attempt++ {
		out := j.admission(1)
		j.hold(len(out.Dispatches) == 1 && out.Dispatches[0].Run.Key == run.Key && out.Dispatches[0].Run.Attempt == attempt, "attempt %d is admitted, got %+v", attempt, out)
		failed := j.end(run, schedule.StatusFailed)
		if attempt == 3 {
			j.hold(failed.IsDead(), "the last one is dead, got %+v", failed)
			_, followed := failed.RetriedBy()
			j.hold(!followed, "nothing follows")
			return
		}
		run = r.next(failed)
		r.now = run.FireAt
		j.sweepQueues()
	}
}

func lifeQueuePolicy(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) {
		q.Retry = schedule.RetryPolicy{MaxAttempts: 4, BackoffMS: 60_000}.Resolved()
	})
	j.of = r.create("plain.template", func(s *schedule.Schedule) {
		s.CronExpr, s.NextRunAt, s.PlanAt, s.Retry = "", time.Time{}, time.Time{}, schedule.RetryPolicy{}
	})
	run := j.put("a")[0]
	waits := func(want time.Duration) {
		j.Helper()
		j.admission(1)
		failed := j.end(run, schedule.StatusFailed)
		run = r.next(failed)
		wait := run.FireAt.Sub(failed.CompletedAt)
		j.hold(wait >= want*9/10 && wait <= want*11/10, "the retry waits %s, want about %s", wait, want)
		r.now = run.FireAt
		j.sweepQueues()
	}
	waits(time.Minute)
	q := j.queue
	q.Retry = schedule.RetryPolicy{MaxAttempts: 1, BackoffMS: 5_000, FactorPercent: 100}.Resolved()
	q.Revision++
	j.queue = r.putQueue(q)
	waits(5 * time.Second)
	q.Retry = schedule.RetryPolicy{}
	q.Revision++
	j.queue = r.putQueue(q)
	j.admission(1)
	failed := j.end(run, schedule.StatusFailed)
	j.hold(failed.IsDead() && failed.MaxAttempts == 3, "its attempts are those of its entry, got %+v", failed)
}

func lifeSettingsPolicy(r *rig) {
	j := r.jobs("q")
	j.of = r.create("plain.template", func(s *schedule.Schedule) {
		s.CronExpr, s.NextRunAt, s.PlanAt, s.Retry = "", time.Time{}, time.Time{}, schedule.RetryPolicy{}
	})
	run := j.job("a", 0, func(run *schedule.Run) { run.MaxAttempts = 4 })
	j.enqueue(0, run)
	for _, want := range []time.Duration{7 * time.Second, 14 * time.Second, 20 * time.Second} {
		j.admission(1)
		failed := j.end(run, schedule.StatusFailed)
		run = r.next(failed)
		wait := run.FireAt.Sub(failed.CompletedAt)
		j.hold(wait >= want*9/10 && wait <= want*11/10, "the retry waits %s, want about %s", wait, want)
		r.now = run.FireAt
		j.sweepQueues()
	}
}

func lifeRetriedByHand(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	old := j.end(run, schedule.StatusSuccess)
	_, moved := r.changeRun(old.Key, func(in schedule.RunInput) schedule.RunChange {
		retry := ledger.RetryByHand(&in.Run, in.Definition, in.Queue, &schedule.RedriveOrder{RequestID: "hand"}, r.now)
		retry.OverlapPolicy = in.Run.OverlapPolicy
		return schedule.RunChange{Insert: &retry}
	})
	j.hold(moved, "it is inserted")
	waiting := j.listed()
	j.hold(len(waiting) == 1 && waiting[0].RetryOf == old.Key && waiting[0].Attempt == 2, "it waits, got %+v", waiting)
	j.hold(len(j.admission(1).Dispatches) == 1, "it is admitted")
}

func lifeRenewed(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	for attempt := int32(1); attempt <= 2; attempt++ {
		j.admission(1)
		run = r.next(j.end(run, schedule.StatusFailed))
		r.now = run.FireAt
		j.sweepQueues()
	}
	j.admission(1)
	old := j.end(run, schedule.StatusFailed)
	j.hold(old.IsDead() && old.Attempt == 3, "the third attempt is dead, got %+v", old)
	var retry schedule.Run
	_, moved := r.changeRun(old.Key, func(in schedule.RunInput) schedule.RunChange {
		retry = ledger.RetryByHand(&in.Run, in.Definition, in.Queue, &schedule.RedriveOrder{RequestID: "hand", Renew: true, JobAttempts: 3}, r.now)
		retry.OverlapPolicy = in.Run.OverlapPolicy
		return schedule.RunChange{Insert: &retry}
	})
	j.hold(moved && retry.Attempt == 4 && retry.MaxAttempts == 6, "it is inserted, got %+v", retry)
	run = r.ledger(retry.Key)
	for n := time.Duration(1); n <= 2; n++ {
		j.admission(1)
		failed := j.end(run, schedule.StatusFailed)
		run = r.next(failed)
		wait, want := run.FireAt.Sub(failed.CompletedAt), n*10*time.Second
		j.hold(wait >= want*9/10 && wait <= want*11/10, "retry %d of the new budget waits %s, want about %s", n, wait, want)
		r.now = run.FireAt
		j.sweepQueues()
	}
	j.admission(1)
	last := j.end(run, schedule.StatusFailed)
	j.hold(last.IsDead() && last.Attempt == 6 && last.AttemptsBefore == 0, "the sixth is the last one, got %+v", last)
}

// cancel cancels a run as a caller does.
func (j *jobs) cancel(run schedule.Run) schedule.Run {
	j.Helper()
	after, moved := j.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
		end, request, ok := ledger.RequestCancel(&in.Run, schedule.ReasonCancelled, j.now)
		j.hold(ok, "it can be cancelled")
		return schedule.RunChange{Settle: end, AskCancel: request}
	})
	j.hold(moved, "the cancel counts")
	return after
}

func lifeCancelWaiting(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b", "c")
	later := j.job("later", 0, delayed(r.at(time.Hour)))
	j.enqueue(0, later)
	for _, run := range []schedule.Run{runs[1], later} {
		got := j.cancel(run)
		j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled && got.CompletedAt.Equal(r.now), "it has ended, got %+v", got)
	}
	j.waits("a c")
	j.admits(5, "a c")
}

func lifeCancelAdmitted(r *rig) {
	j := r.jobs("q")
	runs := j.put("unsent", "sent", "running")
	j.admits(5, "unsent sent running")
	j.unsent(runs[0])
	j.accept(runs[2])
	got := j.cancel(runs[0])
	j.hold(got.Status == schedule.StatusCancelled, "nobody has it: it ends, got %+v", got)
	for _, run := range runs[1:] {
		got := j.cancel(run)
		j.hold(!got.Status.Terminal() && got.CancelRequestedAt.Equal(r.now) && got.CancelReason == schedule.ReasonCancelled, "its cancel is requested, got %+v", got)
	}
	r.permits(r.beginRequest(runs[1]), schedule.Busy)
	after := r.ledger(runs[2].Key)
	end := schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, CompletedAt: r.now}, Now: r.now}
	r.changeRun(after.Key, func(schedule.RunInput) schedule.RunChange { return end })
	got = r.ledger(after.Key)
	j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled && got.Queue.No == j.queue.No, "a confirmation ends it, got %+v", got)
}

func lifeAnswers(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	j.end(run, schedule.StatusSuccess)
	before := r.ledger(run.Key)
	j.finish(run.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})
	j.finish(run.Key, accepted)
	j.hold(!r.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})[0], "it has ended")
	j.hold(!j.putsBack(run), "it waits no more")
	equal(r, "the run", r.ledger(run.Key), before)
	j.waits("")
}

func lifeUnknown(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	run := j.put("a", "b")[0]
	j.admits(1, "a")
	req := r.beginRequest(run)
	r.permits(req, schedule.Busy)
	r.releaseHeld(run.Key, r.at(lease), 1, "release after an unknown outcome")
	j.isIn(run, schedule.QueueDispatching)
	j.admits(1, "")
	got := r.permits(req, schedule.GrantedAgain)
	j.hold(got.Sent && got.Request.Calls == 2, "it may have been sent before, got %+v", got)
	j.hold(r.ledger(run.Key).Deliveries == 2, "both calls count")
	j.hold(!j.putsBack(run), "it does not wait again")
	j.end(run, schedule.StatusSuccess)
	j.admits(1, "b")
}

func lifeReports(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b")
	j.admits(5, "a b")
	r.changeRun(runs[0].Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusStarted, StartedAt: r.now, RunID: "x", TimeoutAt: r.at(time.Hour)}}
	})
	got := j.isIn(runs[0], schedule.QueueRunning)
	j.hold(got.StartedAt.Equal(r.now) && got.RunID == "x", "it has started, got %+v", got)
	for _, run := range runs {
		r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange {
			return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: r.now}}
		})
		j.hold(r.ledger(run.Key).Status == schedule.StatusSuccess, "it has ended")
	}
	early := j.put("c")[0]
	_, moved := r.changeRun(early.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{LateReport: schedule.StatusSuccess, Events: []schedule.Event{{Kind: schedule.EventReportIgnored, Time: r.now, ScheduleID: early.ScheduleID, Note: "early"}}}
	})
	j.hold(!moved, "a report before its admission moves nothing")
	r.changeRun(early.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{LateReport: schedule.StatusSuccess}
	})
	events, err := r.ListEvents(r.ctx, early.ScheduleID, 0, 100)
	r.ok(err, "events")
	n := 0
	for i := range events {
		if events[i].Note == "early" {
			n++
		}
	}
	j.hold(n == 1, "and is told once, got %d", n)
	j.waits("c")
}

func lifeListed(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	runs := j.put("a", "b", "c")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	j.admits(5, "a b")
	j.accept(runs[0])
	list := func(statuses ...schedule.Status) string {
		found, err := r.ListRuns(r.ctx, schedule.RunFilter{UserID: r.user, Statuses: statuses, Now: r.at(time.Hour), Ascending: true, Limit: 100})
		r.ok(err, "list")
		names := make(map[string]bool)
		for i := range found {
			names[j.names[found[i].Key]] = true
		}
		return fmt.Sprint(names)
	}
	equal(r, "ENQUEUED", list(schedule.StatusEnqueued), fmt.Sprint(map[string]bool{"b": true, "c": true, "later": true}))
	equal(r, "STARTED", list(schedule.StatusStarted), fmt.Sprint(map[string]bool{"a": true}))
	equal(r, "PLANNED", list(schedule.StatusPlanned), fmt.Sprint(map[string]bool{}))
	equal(r, "LAUNCHING", list(schedule.StatusLaunching), fmt.Sprint(map[string]bool{}))
	n, err := r.CountFleet(r.ctx, schedule.FleetQuery{UserID: r.user, DueBefore: r.at(time.Hour)})
	r.ok(err, "count")
	j.hold(n.InFlight == 0 && n.Waiting == 0 && n.Late == 0, "no leader has them, got %+v", n)
}

func lifeViewed(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	runs := j.put("a", "b", "c", "d")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	j.admits(5, "a b")
	j.accept(runs[0])
	j.end(runs[1], schedule.StatusSuccess)
	rows, err := r.probe(`SELECT v.trace_id, v.status, v.queue_state, v.queue_id, v.trigger, CASE WHEN v.enqueued_at IS NULL THEN 'no' ELSE 'yes' END
FROM schedule_runs v ORDER BY v.status, v.queue_state`)
	r.ok(err, "read the view")
	var got []string
	for _, row := range rows {
		got = append(got, fmt.Sprint(row[1:]))
	}
	id := j.queue.QueueID
	equal(r, "the view", got, []string{
		"[ENQUEUED delayed " + id + " job yes]", "[ENQUEUED waiting " + id + " job yes]", "[ENQUEUED waiting " + id + " job yes]",
		"[STARTED running " + id + " job yes]", "[SUCCESS  " + id + " job yes]",
	})
}
