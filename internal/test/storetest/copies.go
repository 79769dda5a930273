package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// queueCopies are copies of queues, for estimates.
var queueCopies = []check{
	{"a copy has the runs that wait in order, then delayed and chained ones, and those in flight", copyRuns},
	{"a copy has the keys of runs in a fair queue: their own, or the owner", copyFairKeys},
	{"a copy of more runs than it may have says so", copyBounded},
	{"a copy has how long the last runs were in flight, newest first, without cancelled ones", copyTimes},
	{"a copy has the limits of its runs and those that were asked for", copyLimits},
	{"a copy names who uses its limits from other queues, with their run times", copyElsewhere},
	{"a copy of a queue that does not exist is none", copyNowhere},
	{"the start of a run is estimated from the copy", copyEstimated},
}

func (j *jobs) copied(runs int, limits ...schedule.Limits) ledger.QueueCopy {
	j.Helper()
	c, err := j.ReadQueueCopy(j.ctx, schedule.QueueCopyRequest{QueueNo: j.queue.No, Runs: runs, Limits: limits, Now: j.now})
	j.ok(err, "copy")
	return c
}

func (j *jobs) namedCopies(runs []ledger.CopiedRun) (text string) {
	for i := range runs {
		text += " " + j.names[runs[i].Key]
	}
	return text
}

func copyRuns(r *rig) {
	j, other := r.jobs("q", maxInFlight(2)), r.jobs("other")
	other.put("elsewhere")
	j.put("a", "b")
	running := j.admits(2, "a b")
	j.accept(running[0])
	j.enqueue(0, j.job("late", 0, delayed(r.at(time.Hour))))
	j.enqueue(0, j.job("soon", 0, delayed(r.at(time.Minute))))
	j.put("c", "d")
	j.enqueue(0, j.job("high", 5, j.uses("gpu")))
	j.group("g", schedule.GroupSequential, "one two")
	c := j.copied(100)
	equal(r, "runs", j.namedCopies(c.Runs), " high c d one soon late two")
	equal(r, "runs in flight", len(c.Flights), 2)
	j.hold(!c.More && c.Queue.QueueID == j.queue.QueueID && c.InFlight == 2 && len(c.Heads) == 0, "these are all, got %+v", c.QueueFacts)
	for i, want := range []schedule.QueueState{"waiting", "waiting", "waiting", "waiting", "delayed", "delayed", "chained"} {
		equal(r, "state", c.Runs[i].State, want)
	}
	high, soon, two := c.Runs[0], c.Runs[4], c.Runs[6]
	limits := j.limits("gpu")
	equal(r, "the run of the highest priority", high.WaitingRun, ledger.WaitingRun{
		Key: high.Key, Owner: j.user, Set: string(limits), Limits: limits.Refs(), Since: j.now, Order: ledger.QueueOrder{Priority: -5, Position: high.Order.Position},
	})
	j.hold(high.Workflow == j.of.WorkflowID && high.QueueNo == j.queue.No, "its workflow and queue, got %+v", high)
	j.hold(soon.Ready.Equal(r.at(time.Minute)), "when it is ready, got %s", soon.Ready)
	j.hold(two.GroupNo != 0 && two.Seq == 2 && c.Runs[3].GroupNo == two.GroupNo && c.Runs[3].Seq == 1, "its place in its group, got %+v", two)
	for i := range c.Flights {
		f := &c.Flights[i]
		want := r.ledger(f.Key)
		j.hold(f.State.Admitted() && f.Began.Equal(ledger.InFlightSince(want.ClaimedAt, want.LaunchedAt)) && !f.Began.IsZero(), "since when it is in flight, got %+v", f)
	}
}

func copyFairKeys(r *rig) {
	j := r.jobs("q", fairQueue)
	gold, late := j.job("gold", 0), j.job("late", 0, delayed(r.at(time.Hour)))
	gold.Queue.FairKey = "gold"
	j.enqueue(0, gold, j.job("own", 0), late)
	for i, want := range []string{"gold", j.user, j.user} {
		run := j.copied(100).Runs[i]
		equal(r, "key", run.FairKey, want)
		equal(r, "has a turn", run.Order.FairOrder > 0, run.State == schedule.QueueWaiting)
	}
}

func copyBounded(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c")
	j.enqueue(0, j.job("late", 0, delayed(r.at(time.Hour))))
	for runs, want := range map[int]string{1: " a", 3: " a b c", 4: " a b c late", 5: " a b c late"} {
		c := j.copied(runs)
		equal(r, "runs", j.namedCopies(c.Runs), want)
		equal(r, fmt.Sprint("more than ", runs), c.More, runs < 4)
	}
}

func copyTimes(r *rig) {
	j, other := r.jobs("q", maxInFlight(10)), r.jobs("other", maxInFlight(10))
	for _, of := range []*jobs{j, other} {
		of.put("a", "b", "c", "d")
		running := of.admits(10, "a b c d")
		began := r.now
		for i, run := range running[:3] {
			r.now = began.Add(time.Duration(i+1) * time.Second)
			of.end(run, []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSuccess}[i])
		}
		r.now = began.Add(time.Hour)
		of.end(running[3], schedule.StatusCancelled)
	}
	times := j.copied(100).Ended
	j.hold(len(times) == 3, "three run times, got %v", times)
	for i, want := range []time.Duration{3 * time.Second, 2 * time.Second, time.Second} {
		equal(r, "run time", times[i], ledger.RunTime{QueueNo: j.queue.No, Workflow: j.of.WorkflowID, Took: want})
	}
}

func copyLimits(r *rig) {
	r.putLimit("gpu", 2)
	r.putLimit("api", 7)
	r.putLimit("asked", 3, func(l *schedule.Limit) { l.Keyed = true })
	until := r.at(time.Minute)
	r.changeLimit("asked", schedule.LimitChange{Key: &schedule.LimitKey{Key: "k", MaxInFlight: new(uint32), Until: until}, Now: r.now})
	j := r.jobs("q")
	j.putUsing([]string{"a", "b"}, "gpu")
	j.putUsing([]string{"c"}, "gone")
	c := j.copied(100, j.limits("asked=k"), j.limits("asked=other"))
	gpu, key, other := j.limits("gpu").Refs()[0], j.limits("asked=k").Refs()[0], j.limits("asked=other").Refs()[0]
	j.hold(len(c.Limits) == 3 && c.Limits[gpu].Max == 2 && c.Limits[other].Max == 3 && c.Limits[other].After == nil, "the limits, got %+v", c.Limits)
	k := c.Limits[key]
	j.hold(k.Max == 0 && !k.Unlimited && k.Until.Equal(until) && k.After != nil && k.After.Max == 3, "the numbers of the key end, got %+v", k)
}

func copyElsewhere(r *rig) {
	r.putLimit("gpu", 4)
	j, other := r.jobs("q", maxInFlight(10)), r.jobs("other", maxInFlight(10))
	other.put("old")
	old := other.admits(1, "old")[0]
	began := r.now
	r.now = r.at(5 * time.Second)
	other.end(old, schedule.StatusSuccess)
	foreign := other.putUsing([]string{"foreign"}, "gpu")[0]
	other.admits(10, "foreign")
	own := j.putUsing([]string{"own"}, "gpu")[0]
	j.admits(10, "own")
	held, granted := other.reserves("held", "gpu")
	mine, grantedToo := j.reserves("mine", "gpu")
	j.hold(granted && grantedToo, "both reservations are granted")
	j.putUsing([]string{"waits"}, "gpu")
	c := j.copied(100)
	gpu := j.limits("gpu").Refs()[0]
	equal(r, "uses", c.Limits[gpu].Used, 4)
	byKey := make(map[schedule.Key]ledger.HeldLimit)
	for _, h := range c.Elsewhere {
		byKey[h.Run.Key] = h
	}
	j.hold(len(c.Elsewhere) == 2 && len(byKey) == 2, "two uses from elsewhere, neither %s nor %s, got %+v", own.Key, mine.ID, c.Elsewhere)
	run := byKey[foreign.Key]
	j.hold(run.Ref == gpu && run.Run.QueueNo == other.queue.No && run.Run.Workflow == other.of.WorkflowID && run.Run.State.Admitted() && run.Until.IsZero() && run.Run.Began.Equal(r.now),
		"the run, got %+v", run)
	j.hold(byKey[held.ID].Until.Equal(held.EndsAt), "the reservation ends at %s, got %+v", held.EndsAt, byKey[held.ID])
	want := ledger.RunTime{QueueNo: other.queue.No, Workflow: other.of.WorkflowID, Took: r.now.Sub(began)}
	j.hold(len(c.Ended) == 1 && c.Ended[0] == want, "the run times of the other queue, got %+v", c.Ended)
	j.hold(!c.UsesCut[gpu], "all uses are known")
}

func copyNowhere(r *rig) {
	c, err := r.ReadQueueCopy(r.ctx, schedule.QueueCopyRequest{QueueNo: 987654, Runs: 10, Now: r.now})
	r.ok(err, "copy")
	r.hold(c.Queue == nil, "no queue, got %+v", c)
}

func copyEstimated(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	j.put("first")
	first := j.admits(1, "first")[0]
	r.now = r.at(10 * time.Second)
	j.end(first, schedule.StatusSuccess)
	j.put("a", "b", "c")
	j.admits(1, "a")
	r.now = r.at(4 * time.Second)
	c := j.copied(100)
	e := ledger.EstimateStart(&c, c.Runs[1].Key, r.now, nil)
	j.hold(e.P50.Equal(r.at(16*time.Second)) && e.P90.Equal(e.P50), "c starts 16 seconds from now at %s, got %+v", r.at(16*time.Second), e)
}
