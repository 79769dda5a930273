package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// ListUpcoming lists active schedules by their next slots.
func (s *Store) ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Upcoming, error) {
	f.Now, f.State = either(f.Now, s.Now()), schedule.StateActive
	return tables.ListUpcoming(ctx, queries{s.readers}, s.log, f, func(f *schedule.ScheduleFilter) tables.Call {
		q := nextSlots(f.Now, f.NextBefore)
		q.addSchedules(f, f.Now)
		q.add(!f.AfterNext.IsZero(), sqlWhereAfterNext, f.AfterNext, f.After)
		return q.list(sqlNextSlots+sqlListUpcoming, sqlListUpcomingOrder, f.Limit)
	})
}

// nextSlots has the arguments of sqlNextSlots.
func nextSlots(now, before time.Time) conditions {
	from, to := now.UnixMicro(), ceilMicros(either(before, schedule.MaxTime))
	return conditions{args: []any{from, to, from, to, to}}
}

// CountFleet counts schedules and runs.
func (s *Store) CountFleet(ctx context.Context, query schedule.FleetQuery) (n schedule.FleetCounts, err error) {
	active := schedule.ScheduleFilter{UserID: query.UserID, State: schedule.StateActive, Now: either(query.Now, s.Now())}
	var all conditions
	all.addSchedules(&active, active.Now)
	err = s.readers.query(ctx, sqlCountSchedules+all.where.String(), func(scan scan) error { return scan(&n.Active) }, all.args...)
	if err != nil {
		return n, fmt.Errorf("count active schedules: %w", err)
	}
	if err := s.countUpcoming(ctx, &active, query.NextBefore, &n); err != nil {
		return n, fmt.Errorf("count upcoming schedules: %w", err)
	}
	for _, c := range []struct {
		to        *int
		statement string
		args      []any
	}{
		{&n.InFlight, sqlCountFlying, nil},
		{&n.Waiting, sqlCountWaiting, nil},
		{&n.Late, sqlCountDue, []any{ceilMicros(query.DueBefore)}},
		{&n.Late, sqlCountLaunching, []any{ceilMicros(query.DueBefore)}},
		{&n.Failed, sqlCountFailed, []any{ceilMicros(query.FailedSince)}},
	} {
		if query.UserID != "" {
			c.statement, c.args = c.statement+runsUser, append(c.args, query.UserID)
		}
		more := 0
		if err := s.readers.query(ctx, c.statement, func(scan scan) error { return scan(&more) }, c.args...); err != nil {
			return n, fmt.Errorf("count runs: %w", err)
		}
		*c.to += more
	}
	return n, nil
}

func (s *Store) countUpcoming(ctx context.Context, f *schedule.ScheduleFilter, before time.Time, n *schedule.FleetCounts) error {
	from, to := f.Now.UnixMicro(), ceilMicros(either(before, schedule.MaxTime))
	cursors := conditions{args: []any{from, to, to}}
	cursors.addSchedules(f, f.Now)
	err := s.readers.query(ctx, sqlCountCursors+cursors.where.String(), func(scan scan) error { return scan(&n.Upcoming, &n.Behind) }, cursors.args...)
	if err != nil {
		return err
	}
	planned, more := conditions{args: []any{from, to, to}}, 0
	planned.addSchedules(f, f.Now)
	err = s.readers.query(ctx, sqlCountPlanned+planned.where.String(), func(scan scan) error { return scan(&more) }, planned.args...)
	n.Upcoming += more - n.Behind
	return err
}
