package ledger

import "github.com/carillon/carillon/internal/schedule"

// playedTurns are what the keys of a fair queue have drawn in a play.
type playedTurns struct {
	queue  *schedule.Queue
	clocks map[int32]int64 // by priority: the greatest fair_order that was admitted
	shares map[FairTurns]int64
}

// beginTurns returns the turns of a play at its beginning; nil: the queue is not fair. What was
// admitted last is one turn before the first run that waits, if no run in flight says it.
func (p *Play) beginTurns() *playedTurns {
	q := p.Facts.Queue
	if q == nil || !q.IsFair() {
		return nil
	}
	t := playedTurns{q, make(map[int32]int64), make(map[FairTurns]int64)}
	first := make(map[int32]int64)
	for i := range p.Runs {
		r := &p.Runs[i]
		order, priority := r.Order.FairOrder, r.Order.Priority
		switch {
		case r.State.Admitted():
			t.admitted(r)
		case r.State == schedule.QueueWaiting && order > 0:
			of := r.turns()
			t.shares[of] = max(t.shares[of], order)
			if known, there := first[priority]; !there || order < known {
				first[priority] = order
			}
		}
	}
	for priority, order := range first {
		t.clocks[priority] = max(t.clocks[priority], order-fairTurn)
	}
	return &t
}

func (r *PlayedRun) turns() FairTurns {
	return FairTurns{Priority: r.Order.Priority, Key: r.FairKey}
}

func (t *playedTurns) admitted(r *PlayedRun) {
	if t != nil {
		t.clocks[r.Order.Priority] = max(t.clocks[r.Order.Priority], r.Order.FairOrder)
	}
}

// draw gives a run that begins to wait its fair order, as FairDraw does.
func (t *playedTurns) draw(r *PlayedRun) {
	if t == nil || r.Order.FairOrder > 0 {
		return
	}
	of := r.turns()
	t.shares[of] = max(t.clocks[of.Priority], t.shares[of]) + turnOf(t.queue.Weight(of.Key))
	r.Order.FairOrder = t.shares[of]
}
