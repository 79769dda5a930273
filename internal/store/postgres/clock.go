package postgres

import (
	"context"
	"fmt"
	"time"
)

// reading is the database's clock as it was at a local instant.
type reading struct {
	database time.Time
	received time.Time // local, with its monotonic part
}

// at is the database's time at a local instant, or a little before it.
func (r reading) at(local time.Time) time.Time { return r.database.Add(local.Sub(r.received)) }

// Now is the database's time, estimated without asking it: the time it last
// told plus what has passed here on the monotonic clock since the answer came.
// The database had read its clock before that, so Now errs late, by less than
// one round trip, and never early.
func (s *Store) Now() time.Time {
	return s.clock.Load().at(time.Now()).UTC().Truncate(time.Microsecond)
}

// clockSamples are asked for at each measurement; the one that says the latest
// time travelled fastest and so errs least.
const clockSamples = 3

// MeasureClock asks the database for its time anew, for Now. skew is how far
// this machine's own clock is ahead of the database's (negative: behind), short
// of half a round trip.
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
