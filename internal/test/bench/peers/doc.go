// Package peers runs other schedulers on the same work as Carillon, each in a
// process of its own, with the same record of when its executor was called.
package peers

import (
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
)

// slotOf names a slot: schedule and instant.
func slotOf(i int, due time.Time) uint64 { return uint64(i)<<32 | uint64(uint32(due.Unix())) }

// instants is the work as a schedule in memory: whole seconds from First to End.
type instants record.Work

// Next is the first instant after t; far away when there is none left.
func (w instants) Next(t time.Time) time.Time {
	next := t.Truncate(time.Second).Add(time.Second)
	if next.Before(w.First) {
		return w.First
	}
	if next.After(record.Work(w).End()) {
		return next.AddDate(10, 0, 0)
	}
	return next
}
