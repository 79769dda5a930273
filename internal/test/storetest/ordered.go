package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// orderedLimits are admissions of runs that go one after the other, each with all its attempts.
var orderedLimits = []check{
	{"until a failed run is retried no other run of its key starts, in any queue", orderedBackoff},
	{"the retry passes runs of its key that come first, and waits for its other limits", orderedPasses},
	{"aged runs of the key do not pass the retry, and the retry may pass others", orderedAged},
	{"a retry that waits again keeps the key, and gives its other limits back", orderedPutBack},
	{"a snoozed run and an interrupted one keep the key", orderedSameAttempt},
	{"the end of a retry that waits frees the key, whatever ends it", orderedFreed},
	{"the last attempt frees the key, and a retry by hand does not have it", orderedByHand},
	{"a limit that is ordered no more is kept by the retry that waits, until it has run", orderedSwitched},
	{"a key of 0 stops also the retry that keeps it", orderedStopped},
	{"a run keeps only the ordered limits that it used", orderedOthers},
	{"the limits of a retry that keeps one are read with it", orderedViews},
	{"an explanation names the retry, and nothing blocks the retry itself", orderedExplained},
	{"an estimate knows that a retry keeps the key", orderedEstimated},
	{"a change of a limit reads the most used key, and keys over 1", orderedFacts},
	{"of eight that admit, nobody starts a run between two attempts of another", orderedRace},
}

// ordered makes a keyed limit ordered.
func ordered(l *schedule.Limit) { l.Keyed, l.Ordered, l.MaxInFlight = true, true, 1 }

// retried ends an admitted run that is retried, and returns its retry under the name.
func (j *jobs) retried(run schedule.Run, name string) schedule.Run {
	j.Helper()
	next := j.next(j.end(run, schedule.StatusFailed))
	j.names[next.Key] = name
	return next
}

// comes lets the delay of a run be over.
func (j *jobs) comes(run schedule.Run) {
	j.Helper()
	j.rig.now = run.FireAt
	j.sweepQueues()
}

// keeps fails unless the uses of a limit are just those of these runs.
func (r *rig) keeps(l *schedule.Limit, want ...schedule.Key) {
	r.Helper()
	uses, err := r.ListLimitUses(r.ctx, l.No, 1000)
	r.ok(err, "list uses")
	got := make(map[schedule.Key]bool)
	for _, u := range uses {
		got[u.UsedBy] = true
	}
	for _, key := range want {
		r.hold(got[key], "run %s uses %s, got %v", key, l.LimitID, uses)
	}
	r.hold(len(uses) == len(want), "%d runs use %s, got %v", len(want), l.LimitID, uses)
}

func orderedBackoff(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	j, other := r.jobs("q", maxInFlight(100)), r.jobs("other", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.putUsing([]string{"b1"}, "customer=b")
	j.admits(10, "a1 b1")
	next := j.retried(runs[0], "a1+")
	j.isIn(next, schedule.QueueDelayed)
	equal(r, "what it keeps", j.ledger(next.Key).Queue.Kept, j.limits("customer=a"))
	r.putLimit("gpu", 5)
	j.putUsing([]string{"a3"}, "customer=a", "gpu")
	other.putUsing([]string{"a4"}, "customer=a")
	j.admits(10, "")
	other.admits(10, "")
	j.comes(next)
	other.admits(10, "")
	j.admits(10, "a1+")
	j.end(next, schedule.StatusSuccess)
	other.admits(10, "a4")
	r.used(customer, 2)
}

func orderedPasses(r *rig) {
	customer, gpu := r.putLimit("customer", 1, ordered), r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a1"}, "customer=a", "gpu")
	j.admits(10, "a1")
	next := j.retried(runs[0], "a1+")
	for i := range 30 {
		j.enqueue(0, j.job(fmt.Sprint("first", i), 9, j.uses("customer=a")), j.job(fmt.Sprint("same", i), 9, j.uses("customer=a", "gpu")))
	}
	j.putUsing([]string{"g"}, "gpu")
	g := j.admits(1, "g")[0]
	j.comes(next)
	j.admits(10, "")
	j.end(g, schedule.StatusSuccess)
	r.keeps(customer, next.Key)
	r.used(gpu, 0)
	j.admits(1, "a1+")
	r.keeps(customer, next.Key)
	r.keeps(gpu, next.Key)
	j.end(next, schedule.StatusSuccess)
	j.admits(10, "first0")
}

func orderedAged(r *rig) {
	r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100), func(q *schedule.Queue) { q.PromoteAfterMS = 60_000 })
	runs := j.putUsing([]string{"a1", "old"}, "customer=a")
	j.admits(1, "a1")
	next := j.retried(runs[0], "a1+")
	r.now = r.at(time.Hour)
	j.comes(next)
	r.now = r.at(time.Hour)
	for i := range 3 {
		j.enqueue(0, j.job(fmt.Sprint("new", i), 9))
	}
	j.admits(2, "a1+ new0")
	j.admits(10, "new1 new2")
}

func orderedPutBack(r *rig) {
	customer, gpu := r.putLimit("customer", 1, ordered), r.putLimit("gpu", 2)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a", "gpu")
	j.admits(10, "a1")
	j.unsent(runs[0])
	j.hold(j.putsBack(runs[0]), "it waits again")
	r.used(customer, 0) // a first attempt keeps nothing
	j.admits(10, "a1")
	next := j.retried(runs[0], "a1+")
	j.comes(next)
	j.admits(10, "a1+")
	j.unsent(next)
	j.hold(j.putsBack(next, func(b *schedule.PutBack) { b.FireAt = r.at(time.Minute) }), "it waits again")
	r.keeps(customer, next.Key)
	r.used(gpu, 0)
	j.admits(10, "")
	r.now = r.at(time.Minute)
	j.sweepQueues()
	j.admits(10, "a1+")
	r.keeps(customer, next.Key)
	r.keeps(gpu, next.Key)
	again := j.retried(next, "a1++")
	r.keeps(customer, again.Key)
	r.used(gpu, 0)
}

func orderedSameAttempt(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100))
	run := j.putUsing([]string{"a1", "a2"}, "customer=a")[0]
	j.admits(10, "a1")
	for _, outcome := range []schedule.Outcome{
		aSnooze(time.Hour), {Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, ErrorCode: "interrupted"},
	} {
		j.finish(run.Key, outcome)
		next := j.next(j.ledger(run.Key))
		r.keeps(customer, next.Key)
		if j.names[next.Key] = "a1"; next.FireAt.After(r.now) {
			j.admits(10, "")
			j.comes(next)
		}
		j.admits(10, "a1")
		run = next
	}
}

func orderedFreed(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	for name, end := range map[string]func(j *jobs, retry schedule.Run){
		"cancel":   func(j *jobs, retry schedule.Run) { j.cancel(retry) },
		"deletion": func(j *jobs, retry schedule.Run) { j.deleteQueue() },
	} {
		j := r.jobs(name, maxInFlight(100))
		runs := j.putUsing([]string{"1", "2"}, "customer="+name)
		j.admits(10, "1")
		next := j.retried(runs[0], "1+")
		r.keeps(customer, next.Key)
		end(j, next)
		j.hold(j.ledger(next.Key).Status == schedule.StatusCancelled, "%s: it has ended, got %+v", name, j.ledger(next.Key))
		r.keeps(customer)
	}
	j := r.jobs("expiry", maxInFlight(100))
	runs := j.putUsing([]string{"1", "2"}, "customer=e")
	j.admits(10, "1")
	next := j.retried(runs[0], "1+")
	j.ok(j.changes(next.Key, func(run *schedule.Run) { run.StartBy = r.at(time.Second) }), "give it a bound")
	r.now = r.at(time.Second)
	j.sweepQueues()
	j.hold(j.ledger(next.Key).Reason == schedule.ReasonExpired, "it has expired")
	r.keeps(customer)
	j.admits(10, "2")
	g := r.jobs("group", maxInFlight(100))
	g.group("g", schedule.GroupSequential, "m1", func(*schedule.JobGroup) {})
	in := g.putUsing([]string{"x"}, "customer=g")
	g.admits(1, "m1")
	g.admits(1, "x")
	g.cancel(g.retried(in[0], "x+"))
	r.used(customer, 1)
}

// deleteQueue deletes the queue, and ends what waits in it.
func (j *jobs) deleteQueue() {
	j.Helper()
	q := j.queue
	q.DeletedAt = j.now
	j.putQueue(q)
	j.sweepQueues(func(req *schedule.QueueSweep) { req.DeletedSince = j.at(-time.Hour) })
}

func orderedByHand(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100))
	j.putUsing([]string{"a1"}, "customer=a")
	dead := j.fails("a1")
	r.keeps(customer)
	hand := j.byHand(dead)
	r.keeps(customer)
	j.hold(j.ledger(hand.Key).Queue.Kept == "", "it keeps nothing")
	j.enqueue(0, j.job("first", 9, j.uses("customer=a")))
	j.admits(10, "first")
}

func orderedSwitched(r *rig) {
	customer := r.putLimit("customer", 1, func(l *schedule.Limit) { l.Keyed = true })
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2", "a3"}, "customer=a")
	j.admits(10, "a1")
	r.keeps(customer, runs[0].Key)
	customer = r.putLimit("customer", 1, ordered) // in use
	next := j.retried(runs[0], "a1+")
	r.keeps(customer, next.Key)
	customer = r.putLimit("customer", 2, func(l *schedule.Limit) { l.Keyed = true })
	r.keeps(customer, next.Key)
	j.admits(10, "a2")
	j.comes(next)
	j.admits(10, "a1+")
	r.keeps(customer, next.Key, runs[1].Key)
	again := j.retried(next, "a1++")
	j.hold(again.Queue.Kept == "", "it keeps nothing")
	r.keeps(customer, runs[1].Key)
	j.admits(10, "a3")
}

func orderedStopped(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.admits(10, "a1")
	next := j.retried(runs[0], "a1+")
	r.changeLimit("customer", schedule.LimitChange{Key: &schedule.LimitKey{Key: "a", MaxInFlight: new(uint32(0))}})
	j.comes(next)
	j.admits(10, "")
	r.keeps(customer, next.Key)
	r.changeLimit("customer", schedule.LimitChange{DropKey: "a"})
	j.admits(10, "a1+")
}

func orderedOthers(r *rig) {
	customer, gpu := r.putLimit("customer", 1, ordered), r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	run := j.putUsing([]string{"a1"}, "customer=a", "file=f", "gpu")[0]
	j.admits(10, "a1")
	file := r.putLimit("file", 1, ordered)
	next := j.retried(run, "a1+")
	r.keeps(customer, next.Key)
	r.used(file, 0)
	r.used(gpu, 0)
	j.comes(next)
	j.admits(10, "a1+")
	r.keeps(file, next.Key)
	again := j.retried(next, "a1++")
	equal(r, "what it keeps", j.ledger(again.Key).Queue.Kept, j.limits("customer=a", "file=f"))
	r.keeps(customer, again.Key)
	r.keeps(file, again.Key)
	r.used(gpu, 0)
	j.comes(again)
	j.admits(10, "a1++")
	j.end(again, schedule.StatusSuccess)
	r.used(customer, 0)
	r.used(file, 0)
}

func orderedViews(r *rig) {
	r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100))
	run := j.putUsing([]string{"a1"}, "customer=a")[0]
	j.admits(10, "a1")
	next := j.retried(run, "a1+")
	r.everyView(next.Key, func(view string, got schedule.Run) {
		r.hold(got.Queue.Kept == j.limits("customer=a"), "%s: it keeps the key, got %q", view, got.Queue.Kept)
	})
	j.comes(next)
	listed := j.listed()
	j.hold(len(listed) == 1 && listed[0].Queue.Kept != "", "it is listed with what it keeps, got %+v", listed)
	j.admits(10, "a1+")
	j.hold(j.end(next, schedule.StatusSuccess).Queue.Kept == "", "history does not have it")
}

func orderedExplained(r *rig) {
	r.putLimit("customer", 1, ordered)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.admits(10, "a1")
	next := j.retried(runs[0], "a1+")
	j.comes(next)
	ref := j.limits("customer=a").Refs()[0]
	for key, blocked := range map[schedule.Key]bool{next.Key: false, runs[1].Key: true} {
		run := j.ledger(key)
		p, err := j.ReadWaitingPlace(r.ctx, &run, 100, 5, r.now)
		r.ok(err, "read")
		j.hold(len(p.Blocks(r.now)) == map[bool]int{true: 1, false: 0}[blocked], "%s: blocked %v, got %+v", j.names[key], blocked, p.Blocks(r.now))
		equal(r, "who uses it", p.Uses[ref], []schedule.Key{next.Key})
	}
}

func orderedEstimated(r *rig) {
	r.putLimit("customer", 1, ordered)
	j, other := r.jobs("q", maxInFlight(100)), r.jobs("other", maxInFlight(100))
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a")
	far := other.putUsing([]string{"a3"}, "customer=a")[0]
	j.admits(10, "a1")
	next := j.retried(runs[0], "a1+")
	c := j.copied(100)
	p := c.Play(r.now, func(*ledger.CopiedRun) (time.Duration, bool) { return time.Minute, true })
	p.Until = r.at(24 * time.Hour)
	p.Play()
	started := make(map[schedule.Key]time.Time)
	for i := range p.Runs {
		started[p.Runs[i].Key] = p.Runs[i].Started
	}
	j.hold(started[next.Key].Equal(next.FireAt) && started[runs[1].Key].Equal(next.FireAt.Add(time.Minute)), "the retry goes first, and the other after it, got %v", started)
	c = other.copied(100)
	got := ledger.EstimateStart(&c, far.Key, r.now, nil)
	j.hold(!got.Known() && len(got.Assumes) == 1, "the start of a run of another queue is unknown, got %+v", got)
}
