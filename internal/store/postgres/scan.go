package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
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

// eachRun scans each row of a statement into row and calls visit. The targets are fields
// of row, which the next row overwrites.
func eachRun(ctx context.Context, q querier, row *openRow, targets []any, visit func() error, statement string, args ...any) error {
	return each(ctx, q, targets, func() error {
		row.Exclusive = row.OverlapPolicy.Exclusive()
		err := visit()
		row.bad, row.decoding = nil, decoding{}
		return err
	}, statement, args...)
}

// runTargets are those of a statement that selects openColumns or endedColumns.
func runTargets(r *openRow) []any {
	return append([]any{&r.ScheduleID}, columnsOfRun.targets(r)...)
}

// collectRuns reads rows of openColumns, endedColumns or listColumns, with ownerColumns.
func collectRuns(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Run, error) {
	var (
		row  openRow
		runs []schedule.Run
	)
	targets := append(runTargets(&row), textTarget[string]{&row.UserID}, textTarget[string]{&row.WorkflowID}, nonzeroTarget{&row.Version})
	err := eachRun(ctx, q, &row, targets, func() error {
		runs = append(runs, row.Run)
		return row.unreadable()
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

// collectSchedules reads rows of scheduleColumns. Of an unreadable row it returns the
// readable fields: a change or deletion replaces the others.
func collectSchedules(ctx context.Context, c conn, statement string, args ...any) (schedules []schedule.Schedule, err error) {
	err = tables.EachSchedule(ctx, queries{c}, func(s schedule.Schedule, _ error) error {
		schedules = append(schedules, s)
		return nil
	}, statement, args...)
	return schedules, err
}

// oneSchedule reads a schedule that must be readable, or schedule.ErrNotFound.
func oneSchedule(ctx context.Context, c conn, statement, scheduleID string) (*schedule.Schedule, error) {
	found, problem := (*schedule.Schedule)(nil), schedule.ErrNotFound
	err := tables.EachSchedule(ctx, queries{c}, func(s schedule.Schedule, unreadable error) error {
		found, problem = &s, unreadable
		return nil
	}, statement, scheduleID)
	return found, cmp.Or(err, problem)
}
