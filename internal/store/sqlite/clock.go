package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// clock is the host's clock without steps back. During a step back within hold, now does
// not advance until the host has caught up, so that nothing is judged twice; a larger
// step is accepted and reported. The last seen time outlives the process in
// instances.seen_at.
type clock struct {
	host    func() time.Time
	hold    time.Duration
	stepped func(from, to time.Time)

	mu   sync.Mutex
	last time.Time
}

func newClock(opts Options, log *slog.Logger) *clock {
	c := &clock{host: opts.HostClock, hold: opts.HoldBack}
	if c.host == nil {
		c.host = time.Now
	}
	if c.hold <= 0 {
		c.hold = time.Minute
	}
	c.stepped = func(from, to time.Time) {
		log.Warn("clock stepped back", "from", from, "to", to, "hold_back", c.hold)
		if opts.OnClockStep != nil {
			opts.OnClockStep(from, to)
		}
	}
	return c
}

// Now is the host's clock in UTC, to the microsecond as the file keeps it.
func (s *Store) Now() time.Time {
	now, from := s.clock.read()
	if !from.IsZero() {
		s.clock.stepped(from, now)
	}
	return now
}

// read returns now, and where a step back that was accepted began.
func (c *clock) read() (now, steppedFrom time.Time) {
	// Truncate drops the monotonic reading as well: with it, a wall clock that
	// was set back would look as if it had gone on.
	now = c.host().UTC().Round(0).Truncate(time.Microsecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if back := c.last.Sub(now); back > 0 {
		if back <= c.hold {
			return c.last, time.Time{}
		}
		steppedFrom = c.last
	}
	c.last = now
	return now, steppedFrom
}

// MeasureClock returns 0: the store's clock is this machine's.
func (s *Store) MeasureClock(context.Context) (skew time.Duration, err error) { return 0, nil }

// recallClock reads when this file's instances were last seen. A file that is not yet
// migrated has seen nothing.
func (s *Store) recallClock(ctx context.Context) error {
	var tables int64
	if err := s.readers.query(ctx, sqlHasInstances, func(scan scan) error { return scan(&tables) }); err != nil {
		return fmt.Errorf("look for tables: %w", err)
	}
	if tables == 0 {
		return nil
	}
	var seen instant
	if err := s.readers.query(ctx, sqlLastSeen, func(scan scan) error { return scan(&seen) }); err != nil {
		return fmt.Errorf("read when an instance was last seen: %w", err)
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	s.clock.last = seen.Time
	return nil
}
