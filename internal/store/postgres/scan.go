package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

// each runs a query, scans each row into targets and calls visit; all rows share the
// targets.
func each(ctx context.Context, q querier, targets []any, visit func() error, statement string, args ...any) error {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, targets, visit)
	return err
}

// collectRuns reads rows of runColumns and identityColumns.
func collectRuns(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Run, error) {
	var (
		row  runRow
		runs []schedule.Run
	)
	err := each(ctx, q, row.identityTargets(), func() error {
		run, err := row.run()
		runs = append(runs, run)
		return err
	}, statement, args...)
	return runs, err
}

// oneRun is collectRuns for one run, or schedule.ErrNotFound.
func oneRun(ctx context.Context, q querier, statement string, args ...any) (schedule.Run, error) {
	runs, err := collectRuns(ctx, q, statement, args...)
	if err != nil {
		return schedule.Run{}, err
	}
	if len(runs) == 0 {
		return schedule.Run{}, schedule.ErrNotFound
	}
	return runs[0], nil
}

// collectSchedules reads rows of scheduleColumns.
func collectSchedules(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Schedule, error) {
	var (
		row       scheduleRow
		schedules []schedule.Schedule
	)
	err := each(ctx, q, row.targets(), func() error {
		s, err := row.schedule()
		schedules = append(schedules, s)
		return err
	}, statement, args...)
	return schedules, err
}
