package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// fairs are the orders of fair queues. Names of jobs begin with their keys.
var fairs = []check{
	{"keys take turns, however many runs one of them has", fairTurns},
	{"keys start in proportion to their weights", fairWeights},
	{"a key that did not wait has nothing saved, and one alone gets everything", fairJoins},
	{"runs that are cancelled while they wait cost no turns", fairCancelled},
	{"a key is the owner of the run unless it is given", fairOwner},
	{"priorities go before turns, and each has turns of its own", fairPriorities},
	{"a run of another priority draws again", fairReprioritized},
	{"a delayed run draws once it begins to wait", fairDelayed},
	{"a chained run draws once its predecessor has ended", fairChained},
	{"a run that is put back keeps its turn, and so do retries and snoozed runs", fairKept},
	{"a place among the others is kept, and so is a move", fairPlaces},
	{"a move to the end is behind all others", fairMovedLast},
	{"a slot enters as delayed and due at once", fairSlot},
	{"a retry by hand draws again, with the key of the run before it", fairByHand},
	{"turns are kept where runs have limits", fairLimits},
	{"a queue that becomes fair leaves first what waits, and one that is not any more forgets turns", fairChanged},
	{"shares are counted by key", fairShares},
	{"entries at the same time draw different turns", fairRace},
	{"old shares are pruned", fairPruned},
}

func fairQueue(q *schedule.Queue) { q.Fair, q.MaxInFlight = schedule.FairKey, 100 }

func weighted(weights map[string]uint32) func(*schedule.Queue) {
	return func(q *schedule.Queue) { q.Weights = weights }
}

// keyed has the part of a name before the digits as the fair key.
func keyed(run *schedule.Run, name string) { run.Queue.FairKey = strings.TrimRight(name, "0123456789") }

func (j *jobs) fairJob(name string, edits ...func(*schedule.Run)) schedule.Run {
	return j.job(name, 0, append([]func(*schedule.Run){func(run *schedule.Run) { keyed(run, name) }}, edits...)...)
}

// putFair puts jobs in, each by its own.
func (j *jobs) putFair(names string, edits ...func(*schedule.Run)) (runs []schedule.Run) {
	j.Helper()
	for _, name := range strings.Fields(names) {
		run := j.fairJob(name, edits...)
		j.enqueue(0, run)
		runs = append(runs, run)
	}
	return runs
}

func fairTurns(r *rig) {
	j := r.jobs("q", fairQueue)
	var batch []schedule.Run
	for i := range 6 {
		batch = append(batch, j.fairJob(fmt.Sprintf("a%d", i+1)))
	}
	j.enqueue(0, batch...)
	j.putFair("b1 c1 b2")
	j.waits("a1 b1 c1 a2 b2 a3 a4 a5 a6")
	j.admits(3, "a1 b1 c1")
	j.putFair("c2 d1")
	j.waits("a2 b2 c2 d1 a3 a4 a5 a6")
	j.admits(9, "a2 b2 c2 d1 a3 a4 a5 a6")
}

func fairWeights(r *rig) {
	j := r.jobs("q", fairQueue, weighted(map[string]uint32{"b": 3, "c": 2}))
	j.putFair("a1 a2 b1 b2 b3 b4 b5 b6 c1 c2 c3 c4")
	j.admits(6, "b1 c1 b2 a1 c2 b3")
	j.admits(6, "b4 c3 b5 a2 c4 b6")
}

func fairJoins(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3")
	j.admits(3, "a1 a2 a3")
	j.putFair("a4 a5 a6 b1 b2 b3")
	j.waits("a4 b1 a5 b2 a6 b3")
	j.admits(6, "a4 b1 a5 b2 a6 b3")
	j.putFair("c1 a7")
	j.waits("c1 a7")
}

func fairCancelled(r *rig) {
	j := r.jobs("q", fairQueue)
	for _, run := range j.putFair("a1 a2 a3 a4 a5 a6 a7 a8") {
		j.cancel(run)
	}
	j.putFair("b1 b2 b3 a9")
	j.waits("b1 a9 b2 b3")
}

func fairOwner(r *rig) {
	j := r.jobs("q", fairQueue)
	a := j.putFair("x1")[0]
	b := j.job("y1", 0)
	j.enqueue(0, b)
	j.hold(j.ledger(a.Key).Queue.FairKey == "x", "it has its key")
	equal(r, "the key of the other", j.ledger(b.Key).Queue.FairKey, j.user)
	plain := r.jobs("plain")
	c := plain.fairJob("z1")
	plain.enqueue(0, c)
	got := plain.ledger(c.Key).Queue
	j.hold(got.FairKey == "z" && got.FairOrder == 0, "a queue that is not fair keeps the key, and draws nothing, got %+v", got)
}

func prior(priority int32) func(*schedule.Run) {
	return func(run *schedule.Run) { run.Priority, run.Queue.Priority = priority, schedule.QueuePriority(priority) }
}

func fairPriorities(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3 a4")
	j.putFair("a5 a6 b1", prior(9))
	j.waits("a5 b1 a6 a1 a2 a3 a4")
	j.admits(4, "a5 b1 a6 a1")
	j.putFair("b2 b3")
	j.waits("a2 b2 a3 b3 a4")
}

func fairReprioritized(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3")
	j.putFair("b1 b2", prior(5))
	b := j.putFair("b3 b4")
	r.ok(j.changes(b[1].Key, func(run *schedule.Run) { run.Reprioritize(5) }), "change the priority")
	j.waits("b1 b2 b4 a1 b3 a2 a3")
	a := j.keyNamed("a3")
	r.ok(j.changes(a, func(run *schedule.Run) { run.Reprioritize(5) }), "change the priority")
	j.waits("a3 b1 b2 b4 a1 b3 a2")
	before := r.ledger(a).Queue
	r.ok(j.changes(a, func(run *schedule.Run) { run.Reprioritize(5) }), "change nothing")
	equal(r, "its place", r.ledger(a).Queue, before)
}

func fairDelayed(r *rig) {
	j := r.jobs("q", fairQueue)
	late := j.putFair("b1", delayed(r.at(time.Minute)))[0]
	j.putFair("a1 a2 a3")
	j.hold(j.ledger(late.Key).Queue.FairOrder == 0, "it has drawn nothing")
	j.admits(2, "a1 a2")
	r.now = late.FireAt
	j.putFair("a4")
	j.sweepQueues()
	j.waits("b1 a3 a4")
	j.hold(j.ledger(late.Key).Queue.FairOrder > 0, "it has drawn")
}

func fairChained(r *rig) {
	j := r.jobs("q", fairQueue)
	j.group("g", schedule.GroupSequential, "g1 g2")
	first := j.admits(1, "g1")[0]
	j.hold(j.ledger(j.keyNamed("g2")).Queue.FairOrder == 0, "it has drawn nothing")
	j.putFair("a1 a2 b1")
	j.end(first, schedule.StatusSuccess)
	j.waits("g2 a1 b1 a2")
	equal(r, "the key of a member", j.ledger(j.keyNamed("g2")).Queue.FairKey, j.user)
}

func fairKept(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3 b1")
	run := j.admits(1, "a1")[0]
	before := j.ledger(run.Key).Queue
	j.unsent(run)
	j.hold(j.putsBack(run), "it is put back")
	j.waits("a1 b1 a2 a3")
	j.admits(1, "a1")
	failed := j.end(run, schedule.StatusFailed)
	retry := j.next(failed)
	j.names[retry.Key] = "a1 again"
	j.hold(retry.Queue.FairOrder == before.FairOrder && retry.Queue.FairKey == "a", "the retry keeps the turn, got %+v", retry.Queue)
	equal(r, "the key in history", failed.Queue.FairKey, "a")
	j.admits(1, "b1")
	j.putFair("c1")
	r.now = retry.FireAt
	j.sweepQueues()
	j.waits("a1 again a2 c1 a3")
	j.admits(1, "a1 again")
	j.finish(retry.Key, aSnooze(0))
	next := j.ledger(schedule.SnoozeKey(retry.Key))
	j.hold(next.Queue.FairOrder == before.FairOrder && next.Queue.FairKey == "a", "the snoozed run keeps the turn, got %+v", next.Queue)
}

func fairPlaces(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3 b1 b2 c1")
	j.waits("a1 b1 c1 a2 b2 a3")
	j.enqueue(1, j.fairJob("x1"))
	j.enqueue(4, j.fairJob("x2"), j.fairJob("x3"))
	j.enqueue(7, j.fairJob("x4"))
	j.waits("x1 a1 b1 x2 x3 c1 x4 a2 b2 a3")
	for i := range 20 { // the gap is used up
		j.enqueue(5, j.fairJob(fmt.Sprintf("y%d", i)))
	}
	j.waits("x1 a1 b1 x2 y19 y18 y17 y16 y15 y14 y13 y12 y11 y10 y9 y8 y7 y6 y5 y4 y3 y2 y1 y0 x3 c1 x4 a2 b2 a3")
	var moved []schedule.Run
	for _, name := range []string{"a3", "y19"} {
		moved = append(moved, j.ledger(j.keyNamed(name)))
	}
	r.ok(j.MoveQueued(r.ctx, schedule.QueueMove{QueueID: j.queue.QueueID, Runs: moved, Position: 2, Now: r.now}), "move")
	j.hold(strings.HasPrefix(j.named(j.listed()), "x1 a3 y19 a1 b1 x2 y18 "), "they are at their place, got %s", j.named(j.listed()))
	anchor := j.ledger(j.keyNamed("b2"))
	r.ok(j.MoveQueued(r.ctx, schedule.QueueMove{QueueID: j.queue.QueueID, Runs: []schedule.Run{j.ledger(j.keyNamed("x1"))}, Anchor: &anchor, Now: r.now}), "move")
	j.hold(strings.HasSuffix(j.named(j.listed()), " c1 x4 a2 x1 b2"), "it is before the other, got %s", j.named(j.listed()))
}

func fairMovedLast(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3 b1")
	r.ok(j.MoveQueued(r.ctx, schedule.QueueMove{QueueID: j.queue.QueueID, Runs: []schedule.Run{j.ledger(j.keyNamed("b1"))}, Now: r.now}), "move")
	j.waits("a1 a2 a3 b1")
	j.putFair("b2")
	j.waits("a1 a2 b2 a3 b1")
}

func fairSlot(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow, func(s *schedule.Schedule) { s.FairKey = "nightly" })
	q.queue.Fair, q.queue.MaxInFlight = schedule.FairKey, 100
	q.queue.Revision++
	q.queue = r.putQueue(q.queue)
	q.putFair("a1 a2 a3")
	run := q.due("slot")
	q.passes("slot")
	got := q.isIn(run, schedule.QueueDelayed)
	r.hold(got.Queue.FairKey == "nightly" && got.Queue.FairOrder == 0, "it has its key, and has drawn nothing, got %+v", got.Queue)
	q.admits(1, "a1")
	swept := q.sweepQueues()
	r.hold(swept.Ready, "the sweep finds it")
	q.waits("a2 slot a3")
}

func fairByHand(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 b1 b2 b3")
	run := j.admits(1, "a1")[0]
	old := j.end(run, schedule.StatusSuccess)
	retry := j.byHand(old)
	j.names[retry.Key] = "a1 by hand"
	j.waits("b1 a1 by hand b2 b3")
	equal(r, "its key", j.ledger(retry.Key).Queue.FairKey, "a")
}

func fairLimits(r *rig) {
	r.putLimit("gpu", 1)
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3", j.uses("gpu"))
	j.putFair("b1 c1", j.uses("gpu"))
	j.putFair("d1 d2 e1")
	first := j.admits(9, "a1 d1 e1 d2")[0]
	for _, want := range []string{"b1", "c1", "a2", "a3"} {
		j.end(first, schedule.StatusSuccess)
		first = j.admits(9, want)[0]
	}
}

func fairChanged(r *rig) {
	j := r.jobs("q", maxInFlight(100))
	set := func(fair schedule.Fairness) {
		j.queue.Fair = fair
		j.queue.Revision++
		j.queue = r.putQueue(j.queue)
	}
	j.putFair("a1 a2 a3 b1")
	set(schedule.FairKey)
	j.putFair("a4 a5 b2 c1")
	j.waits("a1 a2 a3 b1 a4 b2 c1 a5")
	set(schedule.FairNone)
	j.putFair("d1")
	j.waits("a1 a2 a3 b1 a4 a5 b2 c1 d1")
}

func fairShares(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 a2 a3 b1")
	j.enqueue(0, j.job("own", 0))
	got, err := j.QueueShares(r.ctx, j.queue.No, 100, 10)
	r.ok(err, "read shares")
	want := []schedule.QueueShare{{Key: "a", Waiting: 3, First: 1}, {Key: "b", Waiting: 1, First: 2}, {Key: j.user, Waiting: 1, First: 3}}
	equal(r, "shares", got, want)
	got, err = j.QueueShares(r.ctx, j.queue.No, 4, 1)
	r.ok(err, "read shares")
	equal(r, "bounded shares", got, []schedule.QueueShare{{Key: "a", Waiting: 2, First: 1}})
}

func fairRace(r *rig) {
	const entries, each = 8, 20
	j := r.jobs("q", fairQueue)
	var runs []schedule.Run
	for i := range entries * each {
		runs = append(runs, j.fairJob(fmt.Sprintf("a%d", i)))
	}
	var entering sync.WaitGroup
	for n := range entries {
		entering.Go(func() {
			for i := range each {
				if err := j.tryEnqueue(schedule.EnqueueRequest{}, runs[n*each+i]); err != nil {
					r.Errorf("enqueue: %v", err)
				}
			}
		})
	}
	entering.Wait()
	drawn := make(map[int64]bool)
	for _, run := range j.listed() {
		drawn[run.Queue.FairOrder] = true
	}
	r.hold(len(drawn) == entries*each && !drawn[0], "each draws its own turn, got %d of %d", len(drawn), entries*each)
	j.enqueue(0, j.fairJob("b1"))
	r.hold(j.named(j.listed()[1:2]) == "b1", "another key is the second, got %s", j.named(j.listed()[:3]))
}

func fairPruned(r *rig) {
	j := r.jobs("q", fairQueue)
	j.putFair("a1 b1")
	j.admits(1, "a1")
	r.now = r.at(48 * time.Hour)
	r.lead()
	r.hold(r.pruneAll(r.at(-24*time.Hour)) > 0, "something is pruned")
	j.putFair("a2 b2 c1")
	j.waits("b1 a2 b2 c1")
}
