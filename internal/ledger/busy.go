package ledger

import "time"

// GroupNow is an overlap group as the tables have it.
type GroupNow struct {
	Occupied   bool      // a run is in flight, or waits
	NextFireAt time.Time // of its exclusive planned runs that do not wait; zero: there is none
}

// BusyUntil reports whether an exclusive slot of a backfill must wait: a run of its group
// is in flight, waits, or fires at then or before. On-time slots go first.
func (g GroupNow) BusyUntil(then time.Time) bool {
	return g.Occupied || !g.NextFireAt.IsZero() && !g.NextFireAt.After(then)
}
