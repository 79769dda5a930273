package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var (
	// copyRuns fails on a key that is open, and so saves a look for each key.
	copyRuns = `
COPY open_runs (` + columnsAdded.names() + `) FROM STDIN (FORMAT binary)`

	// sqlInsertRuns skips open keys.
	sqlInsertRuns = `
INSERT INTO open_runs (` + columnsAdded.names() + `)
SELECT * FROM ` + columnsAdded.unnest(0) + `
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING idempotency_key`
)

// sqlDropInserted removes runs that were inserted although history has them.
const sqlDropInserted = `
WITH gone AS (
DELETE FROM open_runs o
WHERE o.idempotency_key = ANY($1::bytea[]) AND (SELECT true FROM ended_runs e
	WHERE e.run_at = o.run_at AND e.sid = o.sid AND e.idempotency_key = o.idempotency_key LIMIT 1)
RETURNING 1)
SELECT count(*) FROM gone`

const sqlSidsOf = `
SELECT s.schedule_id, s.sid FROM schedules s WHERE s.schedule_id = ANY($1::text[])`

const sqlRaisePlannedUntil = `
UPDATE schedules s SET planned_until = greatest(s.planned_until, u.run_at)
FROM (SELECT schedule_id, max(run_at) AS run_at FROM unnest($1::text[], $2::timestamptz[]) AS u(schedule_id, run_at) GROUP BY schedule_id) u
WHERE s.schedule_id = u.schedule_id AND (s.planned_until IS NULL OR s.planned_until < u.run_at)`

// insertRuns inserts planned runs and returns how many are new. It drops those that
// history has. A run under its slot's own key raises planned_until, so that the planner
// looks it up.
func insertRuns(ctx context.Context, tx pgx.Tx, runs []schedule.Run, now time.Time) (inserted int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	type run = schedule.Run
	var own []run
	if slices.ContainsFunc(runs, func(r run) bool { return r.Queue.In() }) {
		runs = slices.Clone(runs)
		if err := dialect.DrawFair(ctx, queries{tx}, schedule.Pointers(runs), nil, now); err != nil {
			return 0, err
		}
		wakeQueues(tx, schedule.Pointers(runs)...)
	}
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
	if inserted, err = insertRows(ctx, tx, openRowsOf(runs, sidOf, now), now); err != nil {
		return 0, err
	}
	gone, err := dropEnded(ctx, tx, runs)
	return inserted - gone, err
}

// insertQueued inserts new runs of a queue. Their keys are drawn for this entry, so neither
// open runs nor history have them.
func insertQueued(ctx context.Context, tx pgx.Tx, runs []schedule.Run, now time.Time) error {
	sids, err := sidsOf(ctx, tx, runs)
	if err != nil {
		return err
	}
	wakeQueues(tx, schedule.Pointers(runs)...)
	retries := slices.DeleteFunc(slices.Clone(runs), func(r schedule.Run) bool { return r.RetryOf.IsZero() }) // of a group
	if err := noteRedriven(ctx, tx, retries); err != nil {
		return err
	}
	_, err = insertNewRows(ctx, tx, openRowsOf(runs, func(r *schedule.Run) int32 { return sids[r.ScheduleID] }, now), now)
	return err
}

// insertRows inserts planned runs whose keys are not open, and notes them for the leader.
func insertRows(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) (inserted int, err error) {
	keys, err := keysOf(ctx, tx, sqlInsertRuns, columnsAdded.arrays(nil, rows)...)
	if err != nil {
		return 0, fmt.Errorf("insert runs: %w", err)
	}
	return len(keys), noteInserted(ctx, tx, slices.DeleteFunc(rows, func(r *openRow) bool { return !keys[r.Key] }), now)
}

// insertNewRows is insertRows where nearly all runs are new. Else it fails with errAgain.
func insertNewRows(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) (inserted int, err error) {
	c := newCopied(len(rows), 384)
	for _, r := range rows {
		columnsAdded.copied(c, r)
	}
	if inserted, err = c.into(ctx, tx, copyRuns); err != nil {
		return 0, fmt.Errorf("insert new runs: %w", alreadyThere(err, runsKey))
	}
	return inserted, noteInserted(ctx, tx, rows, now)
}

func noteInserted(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return note(ctx, tx, changeRun, slices.DeleteFunc(rows, func(r *openRow) bool { return !ledger.NamedInChanges(&r.Run, now) }))
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
	for i := range runs {
		if id := runs[i].ScheduleID; sids[id] == 0 {
			return nil, fmt.Errorf("insert a run of schedule %s: %w", id, schedule.ErrNotFound)
		}
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

// openRowsOf are planned runs as rows. sidOf is the sid of a run's schedule.
func openRowsOf(runs []schedule.Run, sidOf func(*schedule.Run) int32, now time.Time) []*openRow {
	all, rows := make([]openRow, len(runs)), make([]*openRow, len(runs))
	for i := range runs {
		r := &all[i]
		*r = openRow{Run: runs[i], SID: sidOf(&runs[i]), Nth: ledger.Nth(&runs[i]), Bucket: int16(schedule.Bucket(runs[i].OverlapKey))}
		r.Enter(schedule.StatusPlanned)
		r.CreatedAt, r.UpdatedAt = cmp.Or(r.CreatedAt, now), now
		rows[i] = r
	}
	return rows
}
