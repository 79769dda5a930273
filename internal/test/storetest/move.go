package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

var queueMoves = []check{
	{"a priority that no admission has reached is read once its turn comes", admitBehind},
	{"a run goes to a place among those of its priority", moveOne},
	{"several runs move as one block, in the order given", moveBlock},
	{"a delayed run has its new place once it waits", moveDelayed},
	{"runs that moved are admitted in their new order", moveAdmitted},
	{"nothing moves if a run or the anchor is not as it was read", moveStale},
}

// runsNamed are runs of the queue as they are now.
func (j *jobs) runsNamed(names ...string) (runs []schedule.Run) {
	j.Helper()
	for _, name := range names {
		for key, known := range j.names {
			if known == name {
				runs = append(runs, j.ledger(key))
			}
		}
	}
	j.hold(len(runs) == len(names), "runs %v, got %d", names, len(runs))
	return runs
}

func (j *jobs) tryMove(m schedule.QueueMove, names ...string) error {
	j.Helper()
	m.QueueID, m.Runs, m.Now = j.queue.QueueID, j.runsNamed(names...), j.now
	return j.MoveQueued(j.ctx, m)
}

// moves moves runs to a position; 0: behind all others.
func (j *jobs) moves(position int, names ...string) {
	j.Helper()
	j.ok(j.tryMove(schedule.QueueMove{Position: position}, names...), "move")
}

// movesTo moves runs before or after another one.
func (j *jobs) movesTo(anchor string, after bool, names ...string) {
	j.Helper()
	to := j.runsNamed(anchor)[0]
	j.ok(j.tryMove(schedule.QueueMove{Anchor: &to, After: after}, names...), "move")
}

func moveOne(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("high", 5))
	j.put("a", "b", "c", "d")
	j.moves(1, "d")
	j.waits("high d a b c")
	j.moves(3, "d")
	j.waits("high a b d c")
	j.moves(0, "a")
	j.waits("high b d c a")
	j.moves(99, "d")
	j.waits("high b c a d")
	j.movesTo("b", false, "d")
	j.waits("high d b c a")
	j.movesTo("c", true, "d")
	j.waits("high b c d a")
	j.movesTo("a", true, "b")
	j.waits("high c d a b")
	j.moves(1, "high")
	j.put("e")
	j.waits("high c d a b e")
}

func moveBlock(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c", "d", "e", "f")
	j.moves(1, "f", "a", "d")
	j.waits("f a d b c e")
	j.movesTo("e", false, "f", "b")
	j.waits("a d c f b e")
	j.moves(0, "c", "a")
	j.waits("d f b e c a")
	for range 40 { // the gap before the first one is used up
		j.moves(2, "a", "c")
		j.moves(2, "c", "a")
	}
	j.waits("d c a f b e")
	j.moves(1, "e", "b", "f", "a", "c", "d")
	j.waits("e b f a c d")
}

func moveDelayed(r *rig) {
	j := r.jobs("q")
	j.put("a", "b")
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Minute))))
	j.moves(2, "later")
	j.waits("a b later")
	r.now = r.at(time.Minute)
	j.sweepQueues()
	j.waits("a later b")
}

func moveAdmitted(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 10 })
	j.put("a", "b", "c")
	j.moves(1, "c", "b")
	j.admits(2, "c b")
	run := j.runsNamed("b")[0]
	j.unsent(run)
	j.hold(j.putsBack(run), "b waits again")
	j.moves(0, "b")
	j.admits(2, "a b")
}

func moveStale(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	other.put("x")
	j.put("a", "b", "c", "d")
	stale := func(what string, m schedule.QueueMove, runs ...schedule.Run) {
		r.Helper()
		m.QueueID, m.Runs, m.Now = j.queue.QueueID, runs, r.now
		err := r.MoveQueued(r.ctx, m)
		r.hold(errors.Is(err, schedule.ErrMoveStale), "%s: %v", what, err)
	}
	read := j.runsNamed("a", "b", "c", "d")
	j.admits(1, "a")
	stale("the first was admitted", schedule.QueueMove{Position: 1}, read[3], read[0])
	stale("the anchor was admitted", schedule.QueueMove{Anchor: &read[0]}, read[3])
	j.cancel(read[1])
	stale("one was cancelled", schedule.QueueMove{Position: 1}, read[1], read[3])
	stale("one is in another queue", schedule.QueueMove{Position: 1}, other.runsNamed("x")[0])
	raised := read[3]
	raised.Queue.Priority--
	stale("its priority was another one", schedule.QueueMove{Position: 1}, raised)
	j.waits("c d")
	err := r.MoveQueued(r.ctx, schedule.QueueMove{QueueID: "none", Runs: read[3:], Position: 1, Now: r.now})
	r.hold(errors.Is(err, schedule.ErrNotFound), "there is no such queue: %v", err)
}

// moveSome moves runs of one priority to a drawn place.
func (m *queueModel) moveSome() {
	if len(m.waiting) == 0 {
		return
	}
	priority := rapid.SampledFrom(m.waiting).Draw(m.t, "of").priority
	of := slices.DeleteFunc(slices.Clone(m.waiting), func(r *modelRun) bool { return r.priority != priority })
	block := rapid.Permutation(of).Draw(m.t, "order")[:rapid.IntRange(1, min(3, len(of))).Draw(m.t, "moved")]
	m.waiting = slices.DeleteFunc(m.waiting, func(r *modelRun) bool { return slices.Contains(block, r) })
	rest := slices.DeleteFunc(of, func(r *modelRun) bool { return slices.Contains(block, r) })
	move := schedule.QueueMove{Position: rapid.IntRange(0, 6).Draw(m.t, "place")}
	place := move.Position
	if len(rest) > 0 && rapid.Bool().Draw(m.t, "relative") {
		at := rapid.IntRange(0, len(rest)-1).Draw(m.t, "anchor")
		anchor := m.ledger(rest[at].run.Key)
		move.Anchor, move.After = &anchor, rapid.Bool().Draw(m.t, "after")
		if place = at + 1; move.After {
			place++
		}
	}
	var names []string
	for _, r := range block {
		names = append(names, r.name)
	}
	m.ok(m.tryMove(move, names...), fmt.Sprint("move ", strings.Join(names, " ")))
	m.insert(place, block)
}
