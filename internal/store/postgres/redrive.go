package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

const (
	// sqlRedriveLock is the lock of sqlChangeRunSchedule: who retries a run by hand holds it.
	sqlRedriveLock = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = ANY($1::text[])
ORDER BY s.schedule_id FOR NO KEY UPDATE`

	// sqlStillDead comes after the lock. run_at leads to the partition of each run.
	sqlStillDead = `
SELECT e.idempotency_key FROM unnest($1::bytea[], $2::timestamptz[]) AS u(key, run_at)
JOIN ended_runs e ON e.run_at = u.run_at AND e.idempotency_key = u.key WHERE e.dead`

	// sqlRedriven: runs that were retried by hand are no longer dead.
	sqlRedriven = `
UPDATE ended_runs e SET dead = false FROM unnest($1::bytea[], $2::timestamptz[]) AS u(key, run_at)
WHERE e.run_at = u.run_at AND e.idempotency_key = u.key AND e.dead`
)

// RedriveRuns hands dead runs to decide and inserts the new runs that it makes of them, in
// one transaction; see registrar.RunStore.
func (s *Store) RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (page schedule.RunPage, err error) {
	f.Dead, f.Ascending = true, true
	var refusal error
	err = s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		found, err := listRuns(ctx, tx, &f)
		if err != nil {
			return fmt.Errorf("list dead runs: %w", err)
		}
		page = schedule.PageOf(found)
		inputs, err := s.readForRedrive(ctx, tx, found)
		if err != nil {
			return err
		}
		change, err := decide(inputs)
		if err != nil {
			refusal = err
			return err
		}
		return writeRedrive(ctx, tx, &change)
	})
	if refusal != nil {
		return schedule.RunPage{}, refusal // as it is
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("redrive runs: %w", err)
	}
	return page, nil
}

// readForRedrive locks the schedules of runs, and leaves out those that are not dead any more.
func (s *Store) readForRedrive(ctx context.Context, tx pgx.Tx, found []schedule.Run) ([]schedule.RunInput, error) {
	if len(found) == 0 {
		return nil, nil
	}
	type run = schedule.Run
	rows, err := collectSchedules(ctx, tx, sqlRedriveLock, column(found, func(r *run) string { return r.ScheduleID }))
	if err != nil {
		return nil, fmt.Errorf("lock schedules: %w", err)
	}
	schedules := byID(rows)
	dead, err := keysOf(ctx, tx, sqlStillDead, column(found, func(r *run) []byte { return r.Key[:] }), column(found, func(r *run) time.Time { return r.RunAt }))
	if err != nil {
		return nil, fmt.Errorf("read dead runs again: %w", err)
	}
	revisions := make(map[revision.ID]struct{})
	for i := range found {
		revisions[revision.Of(&found[i])] = struct{}{}
	}
	definitions, err := s.definitionsOf(ctx, tx, revisions)
	if err != nil {
		return nil, err
	}
	inputs := make([]schedule.RunInput, 0, len(dead))
	for i := range found {
		if r := &found[i]; dead[r.Key] {
			inputs = append(inputs, schedule.RunInput{Run: *r, Schedule: schedules[r.ScheduleID], Definition: definitions[revision.Of(r)]})
		}
	}
	return inputs, tables.AddQueues(ctx, queries{tx}, inputs)
}

func writeRedrive(ctx context.Context, tx pgx.Tx, change *schedule.RedriveChange) error {
	if _, err := insertRuns(ctx, tx, change.Runs, change.Now); err != nil {
		return err
	}
	if err := noteRedriven(ctx, tx, change.Runs); err != nil {
		return err
	}
	if err := insertEvents(ctx, tx, change.Events); err != nil {
		return err
	}
	if err := insertAudit(ctx, tx, change.Audit); err != nil {
		return err
	}
	if len(change.Runs) > 0 {
		wakeListeners(tx, column(change.Runs, func(r *schedule.Run) string { return r.OverlapKey })...)
	}
	return nil
}

// noteRedriven takes the mark of dead runs off those that new runs retry.
func noteRedriven(ctx context.Context, tx pgx.Tx, runs []schedule.Run) error {
	if len(runs) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlRedriven, column(runs, func(r *schedule.Run) []byte { return r.RetryOf[:] }), column(runs, func(r *schedule.Run) time.Time { return r.RunAt }))
	if err != nil {
		return fmt.Errorf("note that runs were retried by hand: %w", err)
	}
	return nil
}
