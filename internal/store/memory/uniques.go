package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// uniqueID is the primary key of queue_uniques.
type uniqueID struct {
	queueNo int32
	hash    schedule.Key
}

// uniqueFacts are the unique keys of a request with the runs that hold them.
func (s *Store) uniqueFacts(queueNo int32, hashes []schedule.Key) map[schedule.Key]schedule.UniqueFact {
	facts := make(map[schedule.Key]schedule.UniqueFact)
	for _, hash := range hashes {
		h, there := s.uniques[uniqueID{queueNo, hash}]
		if !there {
			continue
		}
		fact := schedule.UniqueFact{UniqueHold: h}
		if r := s.runs[h.RunKey]; r != nil && !r.Status.Terminal() {
			row := *r
			fact.Run = &row
		}
		facts[hash] = fact
	}
	return facts
}

// writeUniques writes the keys of an entry, and the runs that it has replaced.
func (t *tx) writeUniques(decided *schedule.Enqueue) error {
	for i := range decided.Replaced {
		if ledger.NeedsDraw(&decided.Replaced[i]) {
			t.drawFair(decided.Now, &decided.Replaced[i])
		}
		if err := t.writeQueued(&decided.Replaced[i], decided.Now); err != nil {
			return fmt.Errorf("replace run %s: %w", decided.Replaced[i].Key, err)
		}
	}
	for _, h := range decided.Uniques {
		h.FirstAt, h.Until, h.FireBy = at(h.FirstAt), at(h.Until), at(h.FireBy)
		putUndone(t, t.uniques, uniqueID{h.QueueNo, h.Hash}, h, true)
	}
	return nil
}

// settleUniques frees the unique keys of the runs that the transaction has ended, or gives them to
// the runs that follow.
func (t *tx) settleUniques() {
	for _, r := range t.ended {
		if !r.IsJob() {
			continue
		}
		for id, h := range t.uniques {
			if h.RunKey != r.Key {
				continue
			}
			after, keeps := ledger.UniqueAfter(h, r)
			putUndone(t, t.uniques, id, after, keeps)
		}
	}
}

// UniqueOf is the unique key that a run holds; nil: none.
func (s *Store) UniqueOf(ctx context.Context, key schedule.Key) (hold *schedule.UniqueHold, err error) {
	err = s.read(ctx, func() error {
		for _, h := range s.uniques {
			if h.RunKey == key {
				hold = &h
			}
		}
		return nil
	})
	return hold, err
}

// pruneUniques deletes keys of scope period that are free.
func (t *tx) pruneUniques(now time.Time, limit int) (pruned int) {
	for id, h := range t.uniques {
		if !h.Until.IsZero() && h.Until.Before(now.Add(-time.Minute)) && pruned < limit {
			putUndone(t, t.uniques, id, h, false)
			pruned++
		}
	}
	return pruned
}
