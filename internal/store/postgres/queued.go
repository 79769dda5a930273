package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ChangeQueued changes a run that waits in a queue, as decide says, in one transaction, and
// returns the run after it. The input of one that was admitted before stays.
func (s *Store) ChangeQueued(ctx context.Context, key schedule.Key, decide func(*schedule.Run) (schedule.QueuedChange, error)) (after *schedule.Run, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		run, err := oneRun(ctx, tx, sqlLockOpenRun, key[:])
		if err != nil {
			return err
		}
		before := run
		change, err := decide(&run)
		if after = &run; err != nil || change.Run == nil {
			return err
		}
		after = change.Run
		after.UpdatedAt = change.Now
		if ledger.DrawsAgain(&before, after) {
			if err := dialect.DrawFair(ctx, queries{tx}, []*schedule.Run{after}, nil, change.Now); err != nil {
				return err
			}
		}
		n, err := writeQueued(ctx, tx, after)
		if err == nil && n == 0 {
			err = ledger.ErrAdmitted
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if change.Audit != nil {
			if err := insertAudit(ctx, tx, []schedule.AuditEntry{*change.Audit}); err != nil {
				return err
			}
		}
		wakeQueues(tx, after)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change run %s: %w", key, err)
	}
	return after, nil
}

const sqlChangeQueued = `
UPDATE open_runs SET input = $2, priority = $3, effective_priority = $4, run_at = $5, fire_at = $6, queue_state = $7, due_at = $8, updated_at = $9, limits = $10, start_by = $11, fair_order = $12, fair_key = $13
WHERE idempotency_key = $1 AND queue_state <= 3 AND (claimed_at IS NULL OR input IS NOT DISTINCT FROM $2 AND limits = $10)`

// writeQueued writes what may change of a run that waits, unless it was admitted meanwhile.
func writeQueued(ctx context.Context, tx pgx.Tx, r *schedule.Run) (int, error) {
	return affect(ctx, tx, sqlChangeQueued, r.Key[:], noneOrText(r.Input), r.Priority, r.Queue.Priority, r.RunAt, r.FireAt,
		r.Queue.State.Code(), timeOr(ledger.DueAt(r), pgtype.Infinity), r.UpdatedAt, string(r.Queue.Limits), noneOrTime(r.StartBy), r.Queue.FairOrder, noneOrText(r.Queue.FairKey))
}

// lockNamed locks the open runs among the given ones, with their schedules.
func lockNamed(ctx context.Context, tx pgx.Tx, keys []schedule.Key) (map[schedule.Key]*schedule.Run, error) {
	rows, err := lockKeys(ctx, tx, keys)
	if err == nil {
		err = nameSchedules(ctx, tx, rows)
	}
	if err != nil {
		return nil, err
	}
	runs := make(map[schedule.Key]*schedule.Run, len(rows))
	for _, r := range rows {
		runs[r.Key] = &r.Run
	}
	return runs, nil
}
