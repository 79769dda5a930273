package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// Lag returns the oldest instants that should have been claimed and planned by now.
func (s *Store) Lag(ctx context.Context, now time.Time) (l schedule.Lag, err error) {
	var due, plan pgtype.Timestamptz
	if err := s.pool.QueryRow(ctx, sqlLag, now).Scan(&l.Due, &due, &l.Unplanned, &plan); err != nil {
		return schedule.Lag{}, fmt.Errorf("measure lag: %w", err)
	}
	var d decoding
	l.OldestDue, l.OldestPlan = d.time("fire_at", due), d.time("plan_at", plan)
	return l, d.err
}
