package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// minutes are the counts of queues that keep only failures.
var minutes = []check{
	{"a success of a queue that keeps failures has no row, and is counted once", minuteSuccess},
	{"a success by a report is answered as it ended, and what it reported goes with it", minuteReport},
	{"a success without a row is not sent again", minuteSentAgain},
	{"every other end of such a queue has its row and no count", minuteOthers},
	{"a success that somebody needs has its row and no count", minuteNeeded},
	{"attempts, snoozes, interruptions and retries by hand have the row of the success that follows", minuteChains},
	{"a success whose message waits has its row, and one without a message has none", minuteTold},
	{"what the queue keeps is what is in force at the end", minuteInForce},
	{"starts and ends are counted in their minutes, with the waits and the run times", minuteSums},
	{"ends at the same time add up", minuteRace},
	{"the pace has rows, runs in flight and counts", minutePace},
	{"the run times of a queue come from its minutes", minuteTimes},
	{"minutes are pruned like history", minutePruned},
	{"a request is answered with its keys after runs without a row", minuteRepeated},
	{"a unique key of scope open is free after a success without a row", minuteUnique},
}

func keepsFailures(q *schedule.Queue) { q.History = schedule.HistoryFailed }

// minutesOf are all minutes of the queue.
func (j *jobs) minutesOf() []schedule.QueueMinute {
	j.Helper()
	found, err := j.QueueMinutes(j.ctx, j.queue.No, time.Time{}, 1000)
	j.ok(err, "read minutes")
	return found
}

// countedEnds are the ends in all minutes of the queue.
func (j *jobs) countedEnds() (starts, ends int64) {
	j.Helper()
	for _, m := range j.minutesOf() {
		if m.Ended {
			ends += m.Runs
		} else {
			starts += m.Runs
		}
	}
	return starts, ends
}

// isCounted fails unless the run has no row, and so many ends are counted.
func (j *jobs) isCounted(run schedule.Run, total int64) {
	j.Helper()
	_, err := j.GetRun(j.ctx, run.Key)
	j.hold(errors.Is(err, schedule.ErrNotFound), "%s has no row, got %v", j.names[run.Key], err)
	starts, ends := j.countedEnds()
	j.hold(starts == total && ends == total, "%d starts and ends are counted, got %d and %d", total, starts, ends)
}

// isKept fails unless the run has ended with a row, and so many ends are counted.
func (j *jobs) isKept(run schedule.Run, status schedule.Status, total int64) {
	j.Helper()
	got := j.ledger(run.Key)
	j.hold(got.Status == status, "%s has ended %s, got %s", j.names[run.Key], status, got.Status)
	_, ends := j.countedEnds()
	j.hold(ends == total, "%d ends are counted after %s, got %d", total, j.names[run.Key], ends)
}

var success = schedule.Outcome{Status: schedule.StatusSuccess}

func minuteSuccess(r *rig) {
	j := r.jobs("q", maxInFlight(10), keepsFailures)
	j.put("a", "b", "c")
	runs := j.admits(10, "a b c")
	done := []schedule.FinishRequest{{Key: runs[0].Key, Outcome: success}, {Key: runs[1].Key, Outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused}}}
	finished, err := r.Finish(r.ctx, done, r.now)
	r.ok(err, "finish")
	j.hold(finished[0].Settled && finished[0].Outcome.Status == schedule.StatusSuccess, "the answer settles it, got %+v", finished[0])
	j.isCounted(runs[0], 1)
	j.isKept(runs[1], schedule.StatusFailed, 1)
	// The answer comes again, and another one late.
	j.finish(runs[0].Key, success)
	j.finish(runs[0].Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})
	j.settleLaunched(schedule.Settlement{Key: runs[0].Key, To: schedule.StatusSuccess, CompletedAt: j.now})
	j.isCounted(runs[0], 1)
	_, _, err = r.ChangeRun(r.ctx, runs[0].Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) { return schedule.RunChange{Now: r.now}, nil })
	j.hold(errors.Is(err, schedule.ErrNotFound), "a later change finds nothing, got %v", err)
	j.accept(runs[2])
	j.settleLaunched(schedule.Settlement{Key: runs[2].Key, To: schedule.StatusSuccess, CompletedAt: j.now})
	j.isCounted(runs[2], 2)
	c, err := j.CountQueue(j.ctx, j.queue.No, 10)
	r.ok(err, "count")
	j.hold(c.InFlight == 0, "none is in flight, got %+v", c)
}

func minuteReport(r *rig) {
	j := r.jobs("q", maxInFlight(10), keepsFailures)
	j.put("a", "b")
	for i, run := range j.admits(10, "a b") {
		j.accept(run)
		status := []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed}[i]
		code := int32(i)
		after, moved := j.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
			settle := schedule.Settlement{To: status, CompletedAt: j.now, RunID: "given"}
			if i == 1 {
				settle.Reason = schedule.ReasonWorkflowFailed
			}
			return schedule.RunChange{Settle: &settle, Report: &schedule.RunReport{ExitCode: &code, Output: "done"}}
		})
		j.hold(moved && after.Status == status && after.RunID == "given" && after.CompletedAt.Equal(j.now), "it is answered as it ended, got %+v", after)
		j.hold(after.ScheduleID == j.of.ScheduleID && after.UserID == j.user && after.WorkflowID == j.of.WorkflowID && after.Queue.No == j.queue.No && after.Queue.State == "", "with its schedule and owner, got %+v", after)
		if i == 0 {
			j.isCounted(run, 1)
			j.hold(len(r.log(schedule.RunLogQuery{Key: run.Key})) == 0, "no output is kept")
		} else {
			j.isKept(run, status, 1)
		}
	}
}

func minuteOthers(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	once := func(run *schedule.Run) { run.MaxAttempts = 1 }
	a, b, c := j.job("a", 0, once), j.job("b", 0, once), j.job("c", 0, startBy(r.at(time.Minute)))
	j.enqueue(0, a, b, c)
	j.cancel(a)
	j.isKept(a, schedule.StatusCancelled, 0)
	admitted := j.admits(1, "b")
	j.end(admitted[0], schedule.StatusFailed)
	j.isKept(b, schedule.StatusFailed, 0)
	r.now = r.at(2 * time.Minute)
	j.sweepQueues()
	j.isKept(c, schedule.StatusSkipped, 0)
	d := j.put("d")[0]
	j.admits(1, "d")
	j.accept(d)
	r.now = j.ledger(d.Key).TimeoutAt
	j.sweepQueues()
	j.isKept(d, schedule.StatusFailed, 0)
}

func minuteNeeded(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	waited := j.job("waited", 0, func(run *schedule.Run) { run.Queue.KeepHistory = true })
	j.enqueue(0, waited)
	j.hold(j.ledger(waited.Key).Queue.KeepHistory, "it comes back")
	j.admits(1, "waited")
	j.end(waited, schedule.StatusSuccess)

	j.group("g", schedule.GroupParallel, "member", completes(j))
	member := j.admits(1, "member")[0]
	j.end(member, schedule.StatusSuccess)
	j.hold(j.groupNow("g").State == schedule.GroupCompleted, "the group has ended")
	complete := j.admission(1).Dispatches[0].Run
	j.names[complete.Key] = "on_complete"
	j.end(complete, schedule.StatusSuccess)

	period := j.enters(asks("k", forPeriod(time.Hour)), "period")
	j.admits(1, "period")
	j.end(period, schedule.StatusSuccess)
	j.finds(asks("k", forPeriod(time.Hour)), period)

	asked := j.put("asked")[0]
	j.admits(1, "asked")
	j.accept(asked)
	j.cancel(asked)
	j.end(asked, schedule.StatusSuccess)

	answered, reported := j.put("answered")[0], j.put("reported")[0]
	j.admission(2)
	j.finish(answered.Key, schedule.Outcome{Status: schedule.StatusSuccess, Result: r.brought("answer")})
	j.accept(reported)
	moved := r.settleLaunched(schedule.Settlement{Key: reported.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Result: r.brought("report")})
	j.hold(moved[0] && j.ledger(reported.Key).Status == schedule.StatusSuccess, "it ends by its report")
	r.hasResult(answered.Key, r.brought("answer"))
	r.hasResult(reported.Key, r.brought("report"))
	equal(r, "status of the answered run", j.ledger(answered.Key).Status, schedule.StatusSuccess)

	slot := r.jobs("slots", maxInFlight(20), keepsFailures)
	run := slot.job("slot", 0, func(run *schedule.Run) { run.Epoch, run.Trigger = 1, schedule.TriggerSchedule })
	slot.enqueue(0, run)
	slot.admits(1, "slot")
	slot.end(run, schedule.StatusSuccess)
	slot.isKept(run, schedule.StatusSuccess, 0)
	for _, run := range []schedule.Run{waited, member, complete, period, asked} {
		j.isKept(run, schedule.StatusSuccess, 0)
	}
}

func minuteChains(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	for name, before := range map[string]schedule.Outcome{
		"failed":      {Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed},
		"snoozed":     aSnooze(0),
		"interrupted": {Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted},
	} {
		first := j.put(name)[0]
		j.admits(1, name)
		j.finish(first.Key, before)
		second := r.next(j.ledger(first.Key))
		j.names[second.Key] = name + "2"
		r.now = schedule.Later(r.now, second.FireAt)
		j.sweepQueues()
		j.admits(1, name+"2")
		j.end(second, schedule.StatusSuccess)
		j.isKept(second, schedule.StatusSuccess, 0)
		j.hold(j.ledger(second.Key).RetryOf == first.Key && j.ledger(first.Key).Status.Terminal(), "the chain is whole")
	}
	once := j.job("once", 0, func(run *schedule.Run) { run.MaxAttempts = 1 })
	j.enqueue(0, once)
	j.admits(1, "once")
	dead := j.end(once, schedule.StatusFailed)
	retry := j.byHand(dead)
	j.admits(1, "once+")
	j.end(retry, schedule.StatusSuccess)
	j.isKept(retry, schedule.StatusSuccess, 0)
}

func minuteTold(r *rig) {
	for _, c := range []struct {
		name string
		edit func(*schedule.Queue)
		own  string
		kept bool
	}{
		{name: "told", edit: tells("billing"), kept: true},
		{name: "failures", edit: tells("billing", schedule.WebhookFailed)},
		{name: "own", edit: func(*schedule.Queue) {}, own: "mine", kept: true},
	} {
		j := r.jobs(c.name, maxInFlight(20), keepsFailures, c.edit)
		run := j.job("a"+c.name, 0, func(run *schedule.Run) { run.Webhook = c.own })
		j.enqueue(0, run)
		j.admits(1, "a"+c.name)
		j.finish(run.Key, success)
		if c.kept {
			j.isKept(run, schedule.StatusSuccess, 0)
			j.isTold(run, schedule.WebhookSucceeded)
		} else {
			j.isCounted(run, 1)
			j.isTold(run, "")
		}
	}
}

func minuteInForce(r *rig) {
	j := r.jobs("q", maxInFlight(20))
	j.put("a", "b", "c")
	runs := j.admits(20, "a b c")
	j.end(runs[0], schedule.StatusSuccess)
	keep := func(h schedule.History) {
		q := j.queue
		q.History = h
		j.queue = r.putQueue(q)
	}
	keep(schedule.HistoryFailed)
	j.finish(runs[1].Key, success)
	j.isCounted(runs[1], 1)
	keep(schedule.HistoryAll)
	j.end(runs[2], schedule.StatusSuccess)
	j.isKept(runs[2], schedule.StatusSuccess, 1)
}

func minuteSums(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	r.now = r.at(0).Truncate(time.Minute).Add(50 * time.Second)
	j.put("a", "b")
	r.now = r.at(time.Second)
	run := j.admits(1, "a")[0]
	r.now = r.at(2 * time.Second)
	j.finish(run.Key, success)
	r.now = r.at(4 * time.Second)
	run = j.admits(1, "b")[0]
	r.now = r.at(10 * time.Second)
	j.finish(run.Key, success)
	first := j.minutesOf()[len(j.minutesOf())-1].Minute
	equal(r, "minutes", j.minutesOf(), []schedule.QueueMinute{
		{QueueNo: j.queue.No, Minute: first.Add(time.Minute), WorkflowID: j.of.WorkflowID, Ended: true, Runs: 1, Run: 10 * time.Second},
		{QueueNo: j.queue.No, Minute: first, WorkflowID: j.of.WorkflowID, Runs: 2, Wait: 8 * time.Second},
		{QueueNo: j.queue.No, Minute: first, WorkflowID: j.of.WorkflowID, Ended: true, Runs: 1, Run: 2 * time.Second},
	})
}

func minuteRace(r *rig) {
	j := r.jobs("q", maxInFlight(1000), keepsFailures)
	const runs = 120
	var names []string
	for i := range runs {
		names = append(names, fmt.Sprint("r", i))
	}
	j.put(names...)
	admitted := j.admits(1000, strings.Join(names, " "))
	var mu sync.Mutex
	r.crowd(6, func(int) {
		for {
			mu.Lock()
			n := min(3, len(admitted))
			batch := admitted[:n]
			admitted = admitted[n:]
			mu.Unlock()
			if n == 0 {
				return
			}
			var done []schedule.FinishRequest
			for i := range batch {
				done = append(done, schedule.FinishRequest{Key: batch[i].Key, Outcome: success})
			}
			for range 2 { // the second answers change nothing
				if _, err := j.Finish(r.ctx, done, r.now); err != nil {
					r.Errorf("finish: %v", err)
				}
			}
		}
	})
	starts, ends := j.countedEnds()
	j.hold(starts == runs && ends == runs, "%d are counted, got %d and %d", runs, starts, ends)
}

func minutePace(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	pace := func(starts, ends int) {
		j.Helper()
		p, err := j.QueuePace(r.ctx, j.queue.No, r.now, 100)
		r.ok(err, "pace")
		j.hold(p.Starts == starts && p.Ends == ends && !p.Since.After(r.now.Add(-4*time.Minute)) && p.Since.After(r.now.Add(-5*time.Minute)), "%d starts and %d ends, got %+v", starts, ends, p)
	}
	pace(0, 0)
	j.put("a", "b", "c", "d")
	runs := j.admits(3, "a b c")
	pace(3, 0)
	j.finish(runs[0].Key, success)
	j.end(runs[1], schedule.StatusFailed)
	pace(3, 2)
	r.now = r.at(6 * time.Minute)
	pace(0, 0)
	all := r.jobs("all", maxInFlight(20))
	all.put("e", "f", "g", "h")
	r.now = r.at(time.Minute)
	for _, run := range all.admits(4, "e f g h") {
		all.end(run, schedule.StatusSuccess)
	}
	r.now = r.at(time.Minute)
	p, err := all.QueuePace(r.ctx, all.queue.No, r.now, 4)
	r.ok(err, "pace")
	window := int(r.now.Sub(p.Since) / time.Minute)
	r.hold(p.Ends == 4 || p.Ends >= 4*window, "as many as fit the time of the newest, got %+v", p)
	j.finish(runs[2].Key, success)
	pace(0, 1)
}

func minuteTimes(r *rig) {
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	j.put("a", "b")
	runs := j.admits(2, "a b")
	r.now = r.at(3 * time.Second)
	j.finish(runs[0].Key, success)
	r.now = r.at(2 * time.Second)
	j.finish(runs[1].Key, success)
	c := j.copied(10)
	total, n := time.Duration(0), 0
	for _, e := range c.Ended {
		j.hold(e.QueueNo == j.queue.No && e.Workflow == j.of.WorkflowID, "the queue and the workflow, got %+v", e)
		total, n = total+e.Took, n+1
	}
	j.hold(n == 1 && total == 4*time.Second || n == 2 && total == 8*time.Second, "the mean of each minute, got %+v", c.Ended)
}

func minutePruned(r *rig) {
	r.lead()
	j := r.jobs("q", maxInFlight(20), keepsFailures)
	j.put("a", "b")
	runs := j.admits(2, "a b")
	j.finish(runs[0].Key, success)
	r.now = r.at(48 * time.Hour)
	j.finish(runs[1].Key, success)
	before := len(j.minutesOf())
	r.pruneAll(r.now.Add(-24 * time.Hour))
	left := j.minutesOf()
	j.hold(before == 3 && len(left) == 1 && left[0].Ended && left[0].Runs == 1, "what is young stays, got %+v of %d", left, before)
}
