package sqlite

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// settled are rows that settlements have moved.
type settled []*openRow

func (s *settled) settle(r *openRow, e *schedule.Settlement, now time.Time) (moved bool) {
	first := !r.moved
	if !r.settle(e, now) {
		return false
	}
	if first {
		*s = append(*s, r)
	}
	return true
}
