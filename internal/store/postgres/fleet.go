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
	var (
		at   time.Time
		row  tables.ScheduleRow
		list []schedule.Upcoming
	)
	err := queries{s.pool}.Each(ctx, sqlListUpcoming, append([]any{&at}, row.Targets()...), func(bad error) error {
		found, problem := row.Schedule(bad)
		if problem != nil { // it must not hide the others
			s.log.ErrorContext(ctx, "schedule unreadable", "schedule_id", found.ScheduleID, "err", problem)
			return nil
		}
		list = append(list, schedule.Upcoming{Schedule: found, NextAt: at})
		return nil
	}, append(scheduleFilterArgs(&f), nextBefore(f.NextBefore), noneOrTime(f.AfterNext), f.After, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list upcoming schedules: %w", err)
	}
	return list, nil
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
