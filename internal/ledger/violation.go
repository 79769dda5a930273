package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Flight is the time in flight of an ended run of an exclusive policy.
type Flight struct {
	Key        schedule.Key
	OverlapKey string // with its owner
	Launched   time.Time
	Completed  time.Time
}

// clocksDiffer is by how much the clocks of two processes may differ: each estimates the
// database's clock from a round trip, which a kill or a busy machine makes long.
const clocksDiffer = time.Second

// Overlapped returns the flights that began while another one of their overlap group was
// not over. There should be none. It sorts flights.
func Overlapped(flights []Flight) (violations []Flight) {
	slices.SortFunc(flights, func(a, b Flight) int {
		return cmp.Or(cmp.Compare(a.OverlapKey, b.OverlapKey), a.Launched.Compare(b.Launched))
	})
	var over time.Time // when all flights of the group so far were over
	for i := range flights {
		f := &flights[i]
		switch {
		case i == 0 || f.OverlapKey != flights[i-1].OverlapKey:
			over = f.Completed
			continue
		case f.Launched.Add(clocksDiffer).Before(over):
			violations = append(violations, *f)
		}
		if f.Completed.After(over) {
			over = f.Completed
		}
	}
	return violations
}

// FlightsRequest asks for flights that were recorded from From on and before Until, of
// the buckets First to Last; at most Limit.
type FlightsRequest struct {
	From, Until time.Time
	First, Last int
	Limit       int
}
