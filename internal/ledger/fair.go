package ledger

import (
	"cmp"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// fairTurn is the distance between two runs of a key with the weight 1.
const fairTurn = 1 << 20

// FairTurns are the runs of one key and priority of a fair queue.
type FairTurns struct {
	QueueNo  int32
	Priority int32
	Key      string
}

func (t FairTurns) compare(o FairTurns) int {
	return cmp.Or(cmp.Compare(t.QueueNo, o.QueueNo), cmp.Compare(t.Priority, o.Priority), cmp.Compare(t.Key, o.Key))
}

// FairFacts is what the next draw of a key is decided by.
type FairFacts struct {
	Share int64 // the last fair_order that it drew
	Last  int64 // the greatest of its runs that wait
	Clock int64 // of the queue and priority
}

// FairBefore counts the runs that wait before one with its priority in a fair queue.
type FairBefore struct {
	All   int
	Own   int // of its key
	Later int // that entered after it
}

// FairClock is the greatest fair_order of a run that a queue has admitted, by priority.
type FairClock struct {
	Priority int32
	Order    int64
}

// FairDraw is what runs draw in fair queues when they begin to wait. A run keeps what it has
// drawn: a retry, a snoozed run and one that was put back have waited already.
type FairDraw struct {
	runs   []*schedule.Run
	turns  []FairTurns // of each run
	queues map[int32]*schedule.Queue
}

// MayDraw reports whether a run draws a fair order if its queue is fair, or loses the one that it
// has if its queue is not fair any more.
func MayDraw(r *schedule.Run) bool { return NeedsDraw(r) || r.Queue.In() && r.Queue.FairOrder > 0 }

// NeedsDraw reports whether a run draws a fair order if its queue is fair.
func NeedsDraw(r *schedule.Run) bool {
	return r.Queue.In() && r.Queue.State == schedule.QueueWaiting && r.Queue.FairOrder == 0
}

// DrawsAgain reports whether a change of a waiting run lets it draw: it has begun to wait, or has
// another priority.
func DrawsAgain(before, after *schedule.Run) bool {
	return NeedsDraw(after) && (before.Queue.State != schedule.QueueWaiting || before.Queue.Priority != after.Queue.Priority)
}

// NewFairDraw returns the draw of those of the runs that begin to wait in fair queues, nil for
// none. It sets their fair keys, and takes their fair orders from runs of other queues.
func NewFairDraw(runs []*schedule.Run, queues map[int32]*schedule.Queue) *FairDraw {
	d := FairDraw{queues: queues}
	for _, r := range runs {
		q := queues[r.Queue.No]
		switch {
		case q == nil || q.Unreadable:
			continue
		case !q.IsFair():
			r.Queue.FairOrder = 0
			continue
		case !NeedsDraw(r):
			continue
		}
		if r.Queue.FairKey == "" {
			r.Queue.FairKey = schedule.Owner(r.OverlapKey)
		}
		d.runs = append(d.runs, r)
		d.turns = append(d.turns, FairTurns{r.Queue.No, r.Queue.Priority, r.Queue.FairKey})
	}
	if len(d.runs) == 0 {
		return nil
	}
	return &d
}

// Turns are what the draw needs facts about, in the order in which they are locked.
func (d *FairDraw) Turns() []FairTurns {
	sorted := slices.SortedFunc(slices.Values(d.turns), FairTurns.compare)
	return slices.Compact(sorted)
}

// Draw gives the runs their fair orders, in their order, and returns the shares of the keys after
// it, in the order of Turns.
//
// A run comes one turn after the run of its key before it, and after what was admitted last. A
// turn is the shorter the greater the weight. So keys that wait start in proportion to their
// weights, and a key that did not wait has nothing saved. What a key has drawn for runs that do
// not wait any more, as they were cancelled, does not count.
func (d *FairDraw) Draw(facts map[FairTurns]FairFacts) (shares []int64) {
	next := make(map[FairTurns]int64)
	for t, f := range facts {
		next[t] = max(f.Clock, min(f.Share, f.Last))
	}
	for i, r := range d.runs {
		t := d.turns[i]
		next[t] += turnOf(d.queues[t.QueueNo].Weight(t.Key))
		r.Queue.FairOrder = next[t]
	}
	for _, t := range d.Turns() {
		shares = append(shares, next[t])
	}
	return shares
}

// turnOf rounds up: rounded down, a key with the weight 3 had four turns in one of a key with the
// weight 1.
func turnOf(weight uint32) int64 { return (fairTurn + int64(weight) - 1) / int64(weight) }

// noteClocks notes how far the admitted runs move the clocks of their queue.
func (d *Dispatched) noteClocks() {
	clocks := make(map[int32]int64)
	for i := range d.Dispatches {
		q := &d.Dispatches[i].Run.Queue
		clocks[q.Priority] = max(clocks[q.Priority], q.FairOrder)
	}
	for priority, order := range clocks {
		if order > 0 {
			d.Clocks = append(d.Clocks, FairClock{priority, order})
		}
	}
	slices.SortFunc(d.Clocks, func(a, b FairClock) int { return cmp.Compare(a.Priority, b.Priority) })
}

// ForgetsTurns reports whether a change of a queue puts the runs that wait in the order of their
// entries. A queue that becomes fair leaves them first: they have drawn nothing.
func ForgetsTurns(before, after *schedule.Queue) bool {
	return before != nil && before.IsFair() && !after.IsFair()
}
