package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// ListUpcoming lists active schedules by their next slots.
func (s *Store) ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Upcoming, error) {
	f.State = schedule.StateActive
	return tables.ListUpcoming(ctx, queries{s.pool}, s.log, f, func(f *schedule.ScheduleFilter) tables.Call {
		args := append(scheduleFilterArgs(f), nextBefore(f.NextBefore), noneOrTime(f.AfterNext), f.After, f.Limit)
		return tables.Call{Statement: sqlListUpcoming, Args: args}
	})
}

// nextBefore returns at, or an instant after all slots if at is zero.
func nextBefore(at time.Time) time.Time {
	if at.IsZero() {
		return schedule.MaxTime
	}
	return at
}

// CountFleet counts schedules and runs.
func (s *Store) CountFleet(ctx context.Context, q schedule.FleetQuery) (n schedule.FleetCounts, err error) {
	active := schedule.ScheduleFilter{UserID: q.UserID, State: schedule.StateActive, Now: q.Now}
	err = s.pool.QueryRow(ctx, sqlCountSchedules, append(scheduleFilterArgs(&active), nextBefore(q.NextBefore))...).Scan(&n.Active, &n.Upcoming, &n.Behind)
	if err != nil {
		return n, fmt.Errorf("count schedules: %w", err)
	}
	err = s.pool.QueryRow(ctx, sqlCountRuns, q.UserID, q.DueBefore, q.FailedSince).Scan(&n.InFlight, &n.Waiting, &n.Late, &n.Failed)
	if err != nil {
		return n, fmt.Errorf("count runs: %w", err)
	}
	return n, nil
}
