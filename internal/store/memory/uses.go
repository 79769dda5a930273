package memory

import (
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// writeUses writes what admitted runs use, and the rates of their starts.
func (t *tx) writeUses(queueNo int32, out *ledger.Dispatched) {
	t.takeUses(out.Uses)
	for _, start := range out.Starts {
		putUndone(t, t.starts, limitKey{start.LimitNo, start.Key}, at(start.Next), true)
	}
	if !out.NextStart.IsZero() {
		putUndone(t, t.queueStarts, queueNo, at(out.NextStart), true)
	}
}

func (t *tx) takeUses(taken []ledger.LimitUse) {
	by := make(map[schedule.Key][]ledger.LimitUse)
	for _, u := range taken {
		by[u.UsedBy] = append(by[u.UsedBy], u)
	}
	for key, uses := range by {
		putUndone(t, t.uses, key, uses, true)
	}
}

// passUses gives uses of an ended run to the one that follows it, which is not inserted yet; nil: none does.
func (t *tx) passUses(ended, next *schedule.Run) {
	if !ledger.MayPassUses(ended, next) || t.runs[next.Key] != nil {
		return
	}
	var held []ledger.HeldUse
	for _, u := range t.uses[ended.Key] {
		for id, l := range t.limits {
			if l.No == u.LimitNo {
				held = append(held, ledger.HeldUse{LimitUse: u, LimitID: id, Ordered: l.Ordered})
			}
		}
	}
	var passed []ledger.LimitUse
	for _, p := range ledger.PassUses(held, func(schedule.Key) *schedule.Run { return next }) {
		passed = append(passed, ledger.LimitUse{LimitNo: p.LimitNo, Key: p.Key, UsedBy: p.To})
	}
	if len(passed) > 0 {
		putUndone(t, t.uses, next.Key, passed, true)
	}
}

// freeUses deletes what a run uses that is not in flight.
func (t *tx) freeUses(r *schedule.Run) {
	uses, any := t.uses[r.Key]
	if !any {
		return
	}
	freed, all := ledger.FreedUses(r)
	left := slices.DeleteFunc(slices.Clone(uses), func(u ledger.LimitUse) bool {
		return all || slices.ContainsFunc(freed, func(ref schedule.LimitRef) bool {
			l := t.limits[ref.ID]
			return l != nil && l.No == u.LimitNo && ref.Key == u.Key
		})
	})
	putUndone(t, t.uses, r.Key, left, len(left) > 0)
}

// dropOrphanUses deletes uses by runs that are not in flight and keep none, and by reservations that
// are not granted. A retry that this transaction inserts at its end may keep one.
func (t *tx) dropOrphanUses() (dropped int) {
	for key, uses := range t.uses {
		if slices.ContainsFunc(t.next, func(r schedule.Run) bool { return r.Key == key }) {
			continue
		}
		r, held := t.runs[key], t.reservations[key]
		if held.Granted() || r != nil && !r.Status.Terminal() && (r.Queue.State.Admitted() || r.Queue.Kept != "") {
			continue
		}
		dropped += len(uses)
		putUndone(t, t.uses, key, nil, false)
	}
	return dropped
}
