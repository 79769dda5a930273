package schedule

import (
	"bytes"
	"cmp"
	"slices"
)

// ByFireAt is the order of waiting rows and of inserts: rows due together are stored together.
func ByFireAt(a, b *Run) int {
	return cmp.Or(a.FireAt.Compare(b.FireAt), a.RunAt.Compare(b.RunAt), bytes.Compare(a.Key[:], b.Key[:]))
}

// SortRuns sorts runs by compare, moving each run once. A run is half a kilobyte; sorting in place
// would copy each about twenty times.
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

// FalseFirst orders false before true.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
