package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Lag returns the oldest instants that should have been claimed and planned by now.
func (s *Store) Lag(ctx context.Context, now time.Time) (l schedule.Lag, err error) {
	var due, plan instant
	err = s.readers.query(ctx, sqlLag, func(scan scan) error { return scan(&l.Due, &due, &l.Unplanned, &plan) }, now.UnixMicro())
	if err != nil {
		return schedule.Lag{}, fmt.Errorf("measure lag: %w", err)
	}
	l.OldestDue, l.OldestPlan = due.Time, plan.Time
	return l, nil
}
