package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// clockOf names a clock of fair queues.
type clockOf struct {
	queueNo, priority int32
}

// fairShare is what a key of a fair queue has drawn last.
type fairShare struct {
	order   int64
	drawnAt time.Time
}

// drawFair lets runs that begin to wait draw their fair orders, where their queues are fair.
func (t *tx) drawFair(now time.Time, runs ...*schedule.Run) {
	queues := make(map[int32]*schedule.Queue)
	var drawing []*schedule.Run
	for _, r := range runs {
		if ledger.MayDraw(r) {
			drawing = append(drawing, r)
			queues[r.Queue.No] = t.queueOf(r.Queue.No)
		}
	}
	draw := ledger.NewFairDraw(drawing, queues)
	if draw == nil {
		return
	}
	turns := draw.Turns()
	facts := make(map[ledger.FairTurns]ledger.FairFacts, len(turns))
	for _, of := range turns {
		f := ledger.FairFacts{Share: t.fairShares[of].order, Clock: t.clocks[clockOf{of.QueueNo, of.Priority}]}
		for _, r := range t.waiting(of.QueueNo) {
			if r.Queue.Priority == of.Priority && r.Queue.FairKey == of.Key {
				f.Last = max(f.Last, r.Queue.FairOrder)
			}
		}
		facts[of] = f
	}
	for i, order := range draw.Draw(facts) {
		putUndone(t, t.fairShares, turns[i], fairShare{order, at(now)}, true)
	}
}

// draw is drawFair for a row.
func (t *tx) draw(row *schedule.Run, now time.Time) {
	if after := *row; ledger.NeedsDraw(row) {
		t.drawFair(now, &after)
		t.change(row, func(r *schedule.Run) { r.Queue = after.Queue })
	}
}

func (t *tx) moveClocks(queueNo int32, clocks []ledger.FairClock) {
	for _, c := range clocks {
		of := clockOf{queueNo, c.Priority}
		putUndone(t, t.clocks, of, max(t.clocks[of], c.Order), true)
	}
}

// forgetTurns puts the runs of a queue that was fair in the order of their entries.
func (t *tx) forgetTurns(queueNo int32) {
	for _, r := range t.ofQueue(queueNo, schedule.QueueStates...) {
		if r.Queue.FairOrder > 0 {
			t.change(r, func(r *schedule.Run) { r.Queue.FairOrder = 0 })
		}
	}
}

// QueueShares returns up to limit keys with runs among the first counted ones that wait, the one
// with the most runs first.
func (s *Store) QueueShares(ctx context.Context, queueNo int32, counted, limit int) (shares []schedule.QueueShare, err error) {
	err = s.read(ctx, func() error {
		waiting := s.waiting(queueNo)
		at := make(map[string]int)
		for i, r := range waiting[:min(counted, len(waiting))] {
			key := r.Queue.FairKey
			if key == "" {
				continue
			}
			if _, known := at[key]; !known {
				at[key] = len(shares)
				shares = append(shares, schedule.QueueShare{Key: key, First: i + 1})
			}
			shares[at[key]].Waiting++
		}
		return nil
	})
	slices.SortFunc(shares, func(a, b schedule.QueueShare) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	return shares[:min(limit, len(shares))], err
}

// pruneShares deletes shares of keys that a draw would not look at.
func (t *tx) pruneShares(before time.Time, limit int) (pruned int) {
	for of, share := range t.fairShares {
		if share.drawnAt.Before(before) && share.order <= t.clocks[clockOf{of.QueueNo, of.Priority}] && pruned < limit {
			putUndone(t, t.fairShares, of, fairShare{}, false)
			pruned++
		}
	}
	return pruned
}

// turnsBefore counts the runs that wait before one in a fair queue, up to counted; nil: it has
// drawn nothing.
func (s *Store) turnsBefore(q *schedule.Queue, run *schedule.Run, counted int) *ledger.FairBefore {
	if !q.IsFair() || run.Queue.State != schedule.QueueWaiting || run.Queue.FairOrder == 0 {
		return nil
	}
	var before ledger.FairBefore
	for _, r := range s.waiting(q.No) {
		if r.Queue.Priority != run.Queue.Priority || byQueueOrder(r, run) >= 0 || before.All == counted {
			continue
		}
		before.All++
		if r.Queue.FairKey == run.Queue.FairKey {
			before.Own++
		}
		if r.Queue.EnqueuedAt.After(run.Queue.EnqueuedAt) {
			before.Later++
		}
	}
	return &before
}
