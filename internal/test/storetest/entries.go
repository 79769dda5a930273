package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// entries are how the runs of schedules go into dispatch queues.
var entries = []check{
	{"a due slot goes into the queue of its schedule, with what its definition says", entryPlaced},
	{"no slot goes into its queue before fire_at", entryNotEarly},
	{"a slot goes into its queue while no launch is free, and others wait for one", entryWithoutLaunches},
	{"a run in a queue has the attempts of its schedule, else those of jobs, and its budget begins with it", entryAttempts},
	{"slots enter in claim order, and catch-up goes behind all others", entryOrder},
	{"a slot is skipped while a run of its group waits in the queue, is sent or runs", entrySkip},
	{"a slot that waits for its group enters once the run in the queue has ended", entryQueue},
	{"a newer slot ends the run that waits in the queue", entryReplaceWaiting},
	{"an admission ends a run that was replaced meanwhile", entryReplaceAdmitted},
	{"a newer slot cancels the run that the queue has admitted", entryReplaceRunning},
	{"a group with an attempt in the queue is never free between two of them", entryRetry},
	{"a queue that is closed, full, foreign or gone takes no slot, and the run says why", entryRefused},
	{"a pause or deletion of its schedule leaves a run that is in the queue", entryIsolated},
	{"the database refuses a second exclusive run of a group", entryGuarded},
	{"a retry by hand enters the queue once its group is free", entryByHand},
	{"jobs of a schedule take no part in its overlap", entryJobs},
	{"a run in a queue is in flight for those who ask what blocked a slot", entryBlocks},
}

// slotQueue is a queue with a schedule that names it.
type slotQueue struct {
	*jobs
	leader *memory
	s      schedule.Schedule
}

func (r *rig) slotsIn(policy schedule.OverlapPolicy, edits ...func(*schedule.Schedule)) *slotQueue {
	r.Helper()
	r.lead()
	j := r.jobs("q", maxInFlight(1))
	s := r.create("nightly", append([]func(*schedule.Schedule){withPolicy(policy), func(s *schedule.Schedule) {
		s.QueueID, s.Retry = j.queue.QueueID, schedule.RetryPolicy{}
	}}, edits...)...)
	return &slotQueue{jobs: j, s: s, leader: r.load()}
}

// next is a slot that is due now, and goes by a name.
func (q *slotQueue) due(name string, edits ...func(*schedule.Run)) schedule.Run {
	q.Helper()
	run := q.add(q.slot(q.s, q.now, edits...))[0]
	q.names[run.Key] = name
	return run
}

// passes lets the leader that has known the shard since the start claim; it fails unless just
// these runs enter.
func (q *slotQueue) passes(want string, edits ...func(*claimRequest)) claimResult {
	q.Helper()
	result := q.leader.pass(edits...)
	equal(q.rig, "what enters", q.named(result.Entered), want)
	q.hold(len(result.Launches) == 0 && len(result.Refused) == 0 && len(result.Missing) == 0, "nothing is launched, refused or missing: %+v", result)
	return result
}

func (q *slotQueue) later(d time.Duration) { q.now = q.at(d) }

func entryPlaced(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip, func(s *schedule.Schedule) { s.Limits, s.Webhook = []string{"gpu"}, "billing" })
	run := q.due("a", func(run *schedule.Run) { run.Priority = 7 })
	entered := q.passes("a", func(req *claimRequest) { req.BoundQueues = true }).Entered[0]
	got := q.isIn(run, schedule.QueueWaiting)
	equal(r, "the answer", entered.Queue, got.Queue)
	want := schedule.QueuePlace{
		No: q.queue.No, State: schedule.QueueWaiting, Priority: -7, Position: got.Queue.Position, EnqueuedAt: r.now,
		Limits: schedule.Limits(schedule.AllQueuesLimit + ",gpu"),
	}
	equal(r, "its place", got.Queue, want)
	r.hold(got.ClaimedAt.IsZero() && got.Deliveries == 0 && got.Epoch == r.term.Epoch && got.MaxAttempts == 3 && got.Webhook == "billing" && !got.IsJob(),
		"it was not admitted, and is a run of the term, got %+v", got)
	r.hold(got.RunAt.Equal(run.RunAt) && got.Trigger == schedule.TriggerSchedule && got.CreatedAt.Equal(run.CreatedAt), "it is the slot, got %+v", got)
	open, err := r.LoadOpen(r.ctx, r.term, time.Time{}, r.now)
	r.ok(err, "load")
	r.hold(len(open.Runs) == 1 && open.Runs[0].Queued && open.Runs[0].Status == schedule.StatusEnqueued, "the next leader knows it, got %+v", open.Runs)
	q.admits(1, "a")
	q.accept(run)
	ended := q.end(run, schedule.StatusSuccess)
	r.hold(ended.Epoch == got.Epoch && ended.Queue.No == q.queue.No && !ended.IsJob(), "history has its queue and term, got %+v", ended)
}

func entryNotEarly(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	at := q.at(300 * time.Millisecond)
	run := r.add(r.slot(q.s, at))[0]
	q.names[run.Key] = "a"
	early := func(req *claimRequest) { req.ClaimAhead = time.Second }
	q.passes("", early)
	next := q.leader.state.NextFireAt(r.now)
	r.hold(next.Equal(at), "the leader comes back at its fire_at, got %s", next)
	r.now = at
	q.passes("a", early)
}

func entryAttempts(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow)
	again := func(run *schedule.Run) {
		run.Key, run.Trigger, run.Attempt, run.MaxAttempts = schedule.ManualKey(q.s.ScheduleID, "again"), schedule.TriggerBackfill, 4, 4
	}
	fresh, fourth := q.due("fresh"), q.due("fourth", again)
	q.passes("fresh fourth")
	got := r.ledger(fresh.Key)
	r.hold(got.MaxAttempts == 3 && got.AttemptsBefore == 0, "without a policy a slot has three attempts, got %+v", got)
	got = r.ledger(fourth.Key)
	r.hold(got.Attempt == 4 && got.MaxAttempts == 6 && got.AttemptsBefore == 3, "so has a backfill of a slot that ran before, got %+v", got)
	q.s = r.revise(q.s, func(s *schedule.Schedule) { s.Retry = schedule.RetryPolicy{MaxAttempts: 2}.Resolved() })
	q.later(time.Second)
	own := q.due("own", func(run *schedule.Run) { run.MaxAttempts = 2 })
	q.passes("own")
	got = r.ledger(own.Key)
	r.hold(got.MaxAttempts == 2, "with a policy it has as many as that says, got %+v", got)
}

func entryOrder(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow)
	later := q.at(3 * time.Second)
	q.due("caught up", func(run *schedule.Run) { run.Trigger, run.Priority = schedule.TriggerCatchup, 1000 })
	for i, name := range []string{"first", "second"} {
		q.later(time.Duration(i+1) * time.Second)
		q.due(name)
	}
	q.due("urgent", func(run *schedule.Run) {
		run.Key, run.Trigger, run.Priority = schedule.ManualKey(q.s.ScheduleID, "x"), schedule.TriggerManual, 1
	})
	r.now = later
	q.passes("urgent first second caught up")
	q.put("job")
	q.waits("urgent first second job caught up")
}

func entrySkip(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	run := q.due("a")
	q.passes("a")
	for _, step := range []func(){
		func() {},
		func() { q.admits(1, "a") },
		func() { q.accept(run) },
		func() { q.leader = r.load() },
	} {
		step()
		q.later(time.Second)
		next := q.due("next")
		q.passes("")
		r.stand([]schedule.Run{next}, "SKIPPED(overlap)")
	}
	q.end(run, schedule.StatusSuccess)
	q.later(time.Second)
	q.due("b")
	q.passes("b")
}

func entryQueue(r *rig) {
	q := r.slotsIn(schedule.OverlapQueue)
	a := q.due("a")
	q.passes("a")
	q.later(time.Second)
	b := q.due("b")
	q.passes("")
	r.stand([]schedule.Run{b}, "waiting")
	q.admits(5, "a")
	q.end(a, schedule.StatusFailed)
	retry := r.next(r.ledger(a.Key))
	q.names[retry.Key] = "a2"
	q.passes("")
	after, _ := q.changeRun(retry.Key, func(in schedule.RunInput) schedule.RunChange {
		end, _, _ := ledger.RequestCancel(&in.Run, schedule.ReasonCancelled, r.now)
		return schedule.RunChange{Settle: end}
	})
	r.hold(after.Status == schedule.StatusCancelled, "the retry is cancelled, got %+v", after)
	q.passes("b")
}

func entryReplaceWaiting(r *rig) {
	q := r.slotsIn(schedule.OverlapReplace)
	old := q.due("old")
	q.passes("old")
	q.later(time.Second)
	q.due("new")
	result := q.passes("")
	equal(r, "what is to be cancelled", q.named(result.Cancels), "old")
	due := q.sweepQueues()
	r.hold(len(due.Ended) == 1 && due.Ended[0].Run.Key == old.Key && len(due.Cancels) == 0, "the sweep ends it, got %+v", due)
	r.stand([]schedule.Run{old}, "CANCELLED(replaced)")
	q.passes("new")
	q.admits(5, "new")
}

func entryReplaceAdmitted(r *rig) {
	q := r.slotsIn(schedule.OverlapReplace)
	old := q.due("old")
	q.passes("old")
	q.later(time.Second)
	q.due("new")
	q.passes("")
	q.admits(5, "")
	r.stand([]schedule.Run{old}, "CANCELLED(replaced)")
	q.passes("new")
}

func entryReplaceRunning(r *rig) {
	q := r.slotsIn(schedule.OverlapReplace)
	old := q.due("old")
	q.passes("old")
	q.admits(5, "old")
	q.accept(old)
	q.later(time.Second)
	q.due("new")
	q.passes("")
	r.hold(len(q.leader.state.CancelsDue(r.now, 10, func(schedule.Key) time.Time { return time.Time{} })) == 0, "the leader sends no cancel of a queue")
	swept := q.sweepQueues()
	r.hold(len(swept.Cancels) == 1 && swept.Cancels[0].Key == old.Key, "a launcher carries it, got %+v", swept)
	q.passes("")
	r.settleLaunched(schedule.Settlement{Key: old.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonReplaced, CompletedAt: r.now})
	q.passes("new")
}

func entryRetry(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	run := q.due("a")
	q.passes("a")
	place := r.ledger(run.Key).Queue
	for attempt := int32(1); attempt <= 3; attempt++ {
		q.later(time.Second)
		out := q.admission(5)
		r.hold(len(out.Dispatches) == 1 && out.Dispatches[0].Run.Key == run.Key && out.Dispatches[0].Run.Attempt == attempt, "attempt %d is admitted, got %+v", attempt, out)
		failed := q.end(run, schedule.StatusFailed)
		if attempt == 3 {
			r.hold(failed.IsDead(), "the third one is dead, got %+v", failed)
			break
		}
		run = r.next(failed)
		r.hold(run.Queue.No == place.No && run.Queue.Position == place.Position && run.Epoch == r.term.Epoch && run.StartBy.IsZero(), "it is in the queue, at its place, got %+v", run)
		q.later(time.Second)
		slot := q.due("slot")
		q.passes("")
		r.stand([]schedule.Run{slot}, "SKIPPED(overlap)")
		r.now = run.FireAt
		q.sweepQueues()
	}
	q.later(time.Second)
	q.due("b")
	q.passes("b")
}

func entryRefused(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow)
	refused := func(name, status string, code string) {
		r.Helper()
		run := q.due(name)
		q.passes("")
		r.stand([]schedule.Run{run}, status)
		got := r.ledger(run.Key)
		r.hold(got.ErrorMessage != "" && got.ErrorCode == code && !got.Queue.In(), "%s: it says why, got %+v", name, got)
		q.later(time.Second)
	}
	edit := func(edit func(*schedule.Queue)) {
		edit(&q.queue)
		q.queue.Revision++
		q.queue = r.putQueue(q.queue)
	}
	edit(func(now *schedule.Queue) { now.MaxWaiting = 1 })
	q.due("waits")
	q.passes("waits")
	q.later(time.Second)
	refused("full", "SKIPPED(queue_full)", "")
	edit(func(now *schedule.Queue) { now.MaxWaiting, now.Closed = 0, true })
	refused("closed", "SKIPPED(queue_closed)", "")
	edit(func(now *schedule.Queue) { now.Closed, now.UserID = false, "another" })
	refused("foreign", "FAILED(queue_not_found)", "queue_not_found")
	edit(func(now *schedule.Queue) { now.Shared = true })
	q.due("shared")
	q.passes("shared")
	q.later(time.Second)
	edit(func(now *schedule.Queue) { now.DeletedAt = r.now })
	refused("deleted", "FAILED(queue_not_found)", "queue_not_found")
	q.waits("waits shared")
}

func entryIsolated(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow)
	q.due("a")
	q.passes("a")
	q.due("b", func(run *schedule.Run) {
		run.Key = schedule.ManualKey(q.s.ScheduleID, "b")
		run.Trigger = schedule.TriggerManual
	})
	q.passes("b")
	paused := r.row(q.s)
	paused.Pause = schedule.Pause{Paused: true, By: "ada"}
	change := schedule.Change{Row: &paused, DropPlannedAfter: r.now, Now: r.now}
	change.EndDue.To, change.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
	r.change(change)
	q.passes("")
	q.waits("a b")
	q.admits(1, "a")
	gone := r.row(q.s)
	gone.DeletedAt = r.now
	change = schedule.Change{Row: &gone, DropPlannedAfter: r.now, EndRest: true, Now: r.now}
	change.EndDue.To, change.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	r.change(change)
	q.passes("")
	q.waits("b")
}

func entryGuarded(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	a := q.due("a")
	q.passes("a")
	q.later(time.Second)
	b := q.due("b")
	free := r.create("free", func(s *schedule.Schedule) { s.QueueID = q.queue.QueueID })
	q.names[r.add(r.slot(free, r.now))[0].Key] = "free"
	q.leader = r.load(a.Key)
	result := q.leader.pass()
	equal(r, "refused", result.Refused, []schedule.Key{b.Key})
	equal(r, "what enters", q.named(result.Entered), "free")
	r.hold(len(result.Verdicts.Entries) == 1, "it does not enter, got %+v", result)
	r.hold(r.ledger(b.Key).Status == schedule.StatusPlanned, "it stays planned")
}

func entryByHand(r *rig) {
	q := r.slotsIn(schedule.OverlapQueue)
	a := q.due("a")
	q.passes("a")
	q.admits(1, "a")
	old := q.end(a, schedule.StatusSuccess)
	q.later(time.Second)
	b := q.due("b")
	q.passes("b")
	var retry schedule.Run
	_, moved := r.changeRun(old.Key, func(in schedule.RunInput) schedule.RunChange {
		retry = ledger.RetryByHand(&in.Run, in.Definition, in.Queue, &schedule.RedriveOrder{RequestID: "hand"}, r.now)
		retry.OverlapPolicy, retry.Exclusive = schedule.OverlapQueue, true
		return schedule.RunChange{Insert: &retry}
	})
	r.hold(moved && !r.ledger(retry.Key).Queue.In(), "it is planned, got %+v", r.ledger(retry.Key))
	q.names[retry.Key] = "a by hand"
	q.passes("")
	r.stand([]schedule.Run{retry}, "waiting")
	q.admits(1, "b")
	q.end(b, schedule.StatusSuccess)
	q.passes("a by hand")
	q.admits(1, "a by hand")
	failed := q.end(retry, schedule.StatusFailed)
	r.hold(failed.IsDead() && failed.Attempt == 2, "it has no automatic retry, got %+v", failed)
}

func entryJobs(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	job := q.slot(q.s, q.now, func(run *schedule.Run) {
		run.Key, run.Trigger = schedule.JobKey(q.now, q.queue.QueueID, q.user, "job", 0), schedule.TriggerJob
		run.OverlapPolicy, run.Exclusive = schedule.OverlapAllow, false
		run.Queue = schedule.QueuePlace{No: q.queue.No, State: schedule.QueueWaiting, EnqueuedAt: q.now}
	})
	q.names[job.Key] = "job"
	q.enqueue(0, job)
	q.later(time.Second)
	q.due("a")
	q.passes("a")
	q.waits("job a")
	q.admits(1, "job")
	q.end(job, schedule.StatusSuccess)
	q.leader = r.load()
	q.later(time.Second)
	next := q.due("b")
	q.passes("")
	r.stand([]schedule.Run{next}, "SKIPPED(overlap)")
}

func entryBlocks(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	a := q.due("a")
	q.passes("a")
	q.later(time.Second)
	b := q.due("b")
	q.passes("")
	read := func() schedule.SlotFacts {
		facts, err := r.ReadSlot(r.ctx, schedule.SlotQuery{ScheduleID: q.s.ScheduleID, At: b.RunAt, Now: r.now})
		r.ok(err, "read slot")
		return facts
	}
	equal(r, "blocked by", q.named(read().Blocking), "a")
	equal(r, "runs of the slot", q.named(read().Runs), "b")
	q.admits(1, "a")
	q.end(a, schedule.StatusSuccess)
	q.later(time.Second)
	equal(r, "was blocked by", q.named(read().Blocking), "a")
}
