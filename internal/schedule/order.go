package schedule

import (
	"bytes"
	"cmp"
	"slices"
)

// ByFireAt is the order in which rows wait, and in which a plan puts them down:
// what is due together stands together.
func ByFireAt(a, b *Run) int {
	return cmp.Or(a.FireAt.Compare(b.FireAt), a.RunAt.Compare(b.RunAt), bytes.Compare(a.Key[:], b.Key[:]))
}

// SortRuns sorts runs by compare. It moves each of them once: a run is half a
// kilobyte, and sorted where they stand a thousand are copied twenty times over.
func SortRuns(runs []Run, compare func(a, b *Run) int) {
	order := make([]*Run, len(runs))
	for i := range runs {
		order[i] = &runs[i]
	}
	if slices.IsSortedFunc(order, compare) {
		return
	}
	slices.SortFunc(order, compare)
	sorted := make([]Run, len(runs))
	for i, r := range order {
		sorted[i] = *r
	}
	copy(runs, sorted)
}

// Last has what is so come after what is not.
func Last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
