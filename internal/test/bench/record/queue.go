package record

import (
	"cmp"
	"slices"
	"time"
)

// Since are the calls of jobs that waited until an instant: it is their due time.
func Since(calls []Call, released time.Time) []Call {
	out := slices.Clone(calls)
	for i := range out {
		out[i].Due = released.UnixNano()
	}
	return out
}

// OutOfOrder counts jobs that were called too early in the order of entry: place is that of
// each job, and at most limit are in flight. When a job is admitted, all that entered before
// it were admitted, and fewer than limit of them wait for their call. So the job at place p is
// never called before p-limit+1 others.
func OutOfOrder(calls []Call, place func(Call) int, limit int) (n int) {
	byTime := slices.Clone(calls)
	slices.SortStableFunc(byTime, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	called := make(map[uint64]bool, len(calls))
	for _, c := range byTime {
		if called[c.Slot] {
			continue
		}
		if place(c) >= len(called)+limit {
			n++
		}
		called[c.Slot] = true
	}
	return n
}

// Used returns the share of the slots' time that calls filled from an instant on, where each
// call takes as long as busy, and the most calls that were open at the same time.
func Used(calls []Call, slots int, busy time.Duration, from time.Time, long time.Duration) (share float64, most int) {
	type edge struct {
		at     int64
		change int
	}
	var edges []edge
	var filled int64
	first, last := from.UnixNano(), from.Add(long).UnixNano()
	for _, c := range calls {
		end := c.At + busy.Nanoseconds()
		filled += max(0, min(end, last)-max(c.At, first))
		edges = append(edges, edge{c.At, 1}, edge{end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.change-b.change) })
	open := 0
	for _, e := range edges {
		open += e.change
		most = max(most, open)
	}
	return float64(filled) / float64(int64(slots)*long.Nanoseconds()), most
}

// Doubled counts calls of jobs that were called before.
func Doubled(calls []Call) int {
	jobs := make(map[uint64]bool, len(calls))
	for _, c := range calls {
		jobs[c.Slot] = true
	}
	return len(calls) - len(jobs)
}
