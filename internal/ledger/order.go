package ledger

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// byFireAt orders runs by fire_at, run_at and key. In this order runs wait.
func byFireAt(a, b *run) int {
	switch {
	case a.fireAt != b.fireAt:
		return cmp.Compare(a.fireAt, b.fireAt)
	case a.runAt != b.runAt:
		return cmp.Compare(a.runAt, b.runAt)
	}
	return bytes.Compare(a.key[:], b.key[:])
}

// byClaim is the order in which due runs are claimed: catch-up and backfill after
// all others, then by priority (higher first), fire_at, run_at and key.
func byClaim(a, b *run) int {
	switch {
	case a.afterOthers != b.afterOthers:
		return schedule.FalseFirst(a.afterOthers, b.afterOthers)
	case a.priority != b.priority:
		return cmp.Compare(b.priority, a.priority)
	}
	return byFireAt(a, b)
}

// byClaimAt is byClaim with what fires later than now after everything that is due.
func byClaimAt(now int64) func(a, b *run) int {
	return func(a, b *run) int {
		if early := schedule.FalseFirst(a.fireAt > now, b.fireAt > now); early != 0 {
			return early
		}
		return byClaim(a, b)
	}
}

// lane is a list of runs in one order. A run that changes its place stays in the
// list until that is tidied, so that leaving costs nothing; readers skip it.
type lane struct {
	runs   []*run
	sorted int // this many are in order, the others were added since
	left   int // this many have left
}

// add puts a run into the lane.
func (l *lane) add(r *run) { l.runs = append(l.runs, r) }

// inOrder sorts what was added since and returns the runs, those that have left
// included.
func (l *lane) inOrder(order func(a, b *run) int) []*run {
	added := l.runs[l.sorted:]
	if len(added) == 0 {
		return l.runs
	}
	slices.SortFunc(added, order)
	if l.sorted > 0 && order(l.runs[l.sorted-1], added[0]) > 0 {
		l.runs = merge(l.runs[:l.sorted], added, order)
	}
	l.sorted = len(l.runs)
	return l.runs
}

func merge(a, b []*run, order func(a, b *run) int) []*run {
	out := make([]*run, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if order(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// leave counts a run that has left, and compacts the lane after half have.
func (l *lane) leave(keep func(*run) bool) {
	if l.left++; l.left*2 < len(l.runs) {
		return
	}
	kept, sorted := l.runs[:0], 0
	for i, r := range l.runs {
		if !keep(r) {
			continue
		}
		kept = append(kept, r)
		if i < l.sorted {
			sorted++
		}
	}
	clear(l.runs[len(kept):])
	l.runs, l.sorted, l.left = kept, sorted, 0
}

// list is a short list of runs that is always in order of fire_at.
type list []*run

func (l *list) add(r *run) {
	if n := len(*l); n == 0 || byFireAt((*l)[n-1], r) < 0 {
		*l = append(*l, r)
		return
	}
	at, _ := slices.BinarySearchFunc(*l, r, byFireAt)
	*l = slices.Insert(*l, at, r)
}

func (l *list) remove(r *run) {
	if (*l)[0] == r { // the usual one: the others stay where they are
		(*l)[0] = nil
		*l = (*l)[1:]
		return
	}
	at, _ := slices.BinarySearchFunc(*l, r, byFireAt)
	*l = slices.Delete(*l, at, at+1)
}
