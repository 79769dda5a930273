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

// clocksDiffer is by how much launched_at of a run may lie before completed_at of the run
// that it waited for. It is launched after its claim has read that end (Claim.Clock), also
// where launched_at is not known and claimed_at stands in for it. So only the clocks differ:
// each estimates the database's, late by less than the fastest of three round trips in the
// last second. The end took several round trips to be written meanwhile.
const clocksDiffer = 20 * time.Millisecond

// Violation is a flight that began while another one of its overlap group was not over.
type Violation struct {
	Flight
	With Flight // of those the one that was over last
}

// Overlapped returns the flights that began too early. There should be none. It sorts
// flights.
func Overlapped(flights []Flight) (violations []Violation) {
	slices.SortFunc(flights, func(a, b Flight) int {
		return cmp.Or(cmp.Compare(a.OverlapKey, b.OverlapKey), a.Launched.Compare(b.Launched))
	})
	var last *Flight // of the group so far, the one that was over last
	for i := range flights {
		f := &flights[i]
		if last == nil || f.OverlapKey != last.OverlapKey {
			last = f
			continue
		}
		if f.Launched.Add(clocksDiffer).Before(last.Completed) {
			violations = append(violations, Violation{*f, *last})
		}
		if f.Completed.After(last.Completed) {
			last = f
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
