package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// insertRuns inserts planned runs and returns how many are new. It drops those that
// history has. A run under its slot's own key raises planned_until, so that the planner
// looks it up.
func insertRuns(ctx context.Context, tx pgx.Tx, runs []schedule.Run, now time.Time) (inserted int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	type run = schedule.Run
	var own []run
	for i := range runs {
		if ledger.Nth(&runs[i]) == 0 {
			own = append(own, runs[i])
		}
	}
	if len(own) > 0 {
		_, err := tx.Exec(ctx, sqlRaisePlannedUntil,
			column(own, func(r *run) string { return r.ScheduleID }), column(own, func(r *run) time.Time { return r.RunAt }))
		if err != nil {
			return 0, fmt.Errorf("raise planned_until: %w", err)
		}
	}
	sids, err := sidsOf(ctx, tx, runs)
	if err != nil {
		return 0, err
	}
	sidOf := func(r *run) int32 { return sids[r.ScheduleID] }
	if inserted, err = affect(ctx, tx, sqlInsertRuns, runArgs(runs, sidOf, now)...); err != nil {
		return 0, fmt.Errorf("insert runs: %w", err)
	}
	gone, err := dropEnded(ctx, tx, runs)
	return inserted - gone, err
}

// sidsOf returns the sids of the schedules of runs.
func sidsOf(ctx context.Context, tx pgx.Tx, runs []schedule.Run) (map[string]int32, error) {
	var (
		id   string
		sid  int32
		sids = make(map[string]int32)
	)
	err := each(ctx, tx, []any{&id, &sid}, func() error {
		sids[id] = sid
		return nil
	}, sqlSidsOf, column(runs, func(r *schedule.Run) string { return r.ScheduleID }))
	if err != nil {
		return nil, fmt.Errorf("read the sids of schedules: %w", err)
	}
	return sids, nil
}

// dropEnded removes the inserted runs that history has. It comes in a later statement
// than the insert, because a run can end in between.
func dropEnded(ctx context.Context, tx pgx.Tx, runs []schedule.Run) (gone int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	err = tx.QueryRow(ctx, sqlDropInserted, column(runs, func(r *schedule.Run) []byte { return r.Key[:] })).Scan(&gone)
	if err != nil {
		return 0, fmt.Errorf("drop runs that have ended: %w", err)
	}
	return gone, nil
}
