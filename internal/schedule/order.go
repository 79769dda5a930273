package schedule

import (
	"bytes"
	"cmp"
)

// ByFireAt is the order in which rows wait, and in which a plan puts them down:
// what is due together stands together.
func ByFireAt(a, b Run) int {
	return cmp.Or(a.FireAt.Compare(b.FireAt), a.RunAt.Compare(b.RunAt), bytes.Compare(a.Key[:], b.Key[:]))
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
