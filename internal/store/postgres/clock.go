package postgres

import (
	"context"
	"fmt"
	"time"
)

// reading is the database's time at a local instant.
type reading struct {
	database time.Time
	received time.Time // local, with its monotonic part
}

// at estimates the database's time at a local instant; it may be slightly too early.
func (r reading) at(local time.Time) time.Time { return r.database.Add(local.Sub(r.received)) }

// Now estimates the database's time without a query: its last known time plus the
// monotonic time since that answer. The database read its clock before it answered, so
// Now is late by less than one round trip, and never early.
func (s *Store) Now() time.Time {
	return s.clock.Load().at(time.Now()).UTC().Truncate(time.Microsecond)
}

// clockSamples is the number of queries of a measurement; the one with the latest time
// travelled fastest and is the most exact.
const clockSamples = 3

// MeasureClock reads the database's time for Now. skew is how far this machine's own
// clock is ahead of the database's (negative: behind), short of half a round trip.
func (s *Store) MeasureClock(ctx context.Context) (skew time.Duration, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure clock: %w", err)
	}
	defer conn.Release()
	var best reading
	for range clockSamples {
		var r reading
		sent := time.Now()
		if err := conn.QueryRow(ctx, sqlNow).Scan(&r.database); err != nil {
			return 0, fmt.Errorf("measure clock: %w", err)
		}
		r.received = time.Now()
		if best.received.IsZero() || r.at(r.received).After(best.at(r.received)) {
			best = r
			half := r.received.Sub(sent) / 2
			skew = r.received.Round(0).Sub(r.database.Add(half))
		}
	}
	s.clock.Store(&best)
	return skew, nil
}
