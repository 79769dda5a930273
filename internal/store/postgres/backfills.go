package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeBackfill locks one backfill, or that there is none, behind its schedule, gives
// them to decide and writes its decision, in one transaction.
func (s *Store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	var (
		refusal error
		after   *schedule.Backfill
	)
	err := s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		in, err := backfillInput(ctx, tx, ref)
		if err != nil {
			return err
		}
		change, err := decide(in)
		if err != nil {
			refusal = err
			return err
		}
		if err := writeBackfillChange(ctx, tx, ref, &change); err != nil {
			return err
		}
		after, err = dialect.CurrentBackfill(ctx, queries{tx}, ref.BackfillID)
		return err
	})
	switch {
	case refusal != nil:
		return nil, refusal // as it is
	case err != nil:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, err)
	}
	return after, nil
}

func backfillInput(ctx context.Context, tx pgx.Tx, ref schedule.BackfillRef) (in schedule.BackfillInput, err error) {
	locked, err := collectSchedules(ctx, tx, sqlChangeLock, []string{ref.ScheduleID})
	if err != nil {
		return in, fmt.Errorf("lock schedule: %w", err)
	}
	owner := ""
	if len(locked) == 1 {
		in.Schedule, owner = &locked[0], locked[0].UserID
		counts, err := countInFlight(ctx, tx, locked)
		if err != nil {
			return in, err
		}
		in.InFlight = counts[locked[0].QualifiedOverlapKey()]
	}
	rows, err := tables.Backfills(ctx, queries{tx}, sqlLockBackfills, []string{ref.BackfillID})
	if err != nil {
		return in, fmt.Errorf("lock: %w", err)
	}
	if len(rows) == 1 {
		in.Backfill = &rows[0] // unmodified, because it is written again
	}
	if err := tx.QueryRow(ctx, sqlCountBackfills, ref.ScheduleID, owner, ref.BackfillID).Scan(&in.OfSchedule, &in.OfOwner); err != nil {
		return in, fmt.Errorf("count others: %w", err)
	}
	return in, nil
}

func writeBackfillChange(ctx context.Context, tx pgx.Tx, ref schedule.BackfillRef, c *schedule.BackfillChange) error {
	if c.Row == nil {
		return nil
	}
	if err := dialect.PutBackfill(ctx, queries{tx}, c.Row, c.Now); err != nil {
		return err
	}
	if c.DropPlanned {
		if _, err := tx.Exec(ctx, sqlBackfillDrop, ref.BackfillID); err != nil {
			return fmt.Errorf("take planned runs back: %w", err)
		}
	}
	if c.EndPlanned != "" {
		if err := endPlannedOfBackfill(ctx, tx, ref.BackfillID, c); err != nil {
			return fmt.Errorf("end planned runs: %w", err)
		}
	}
	if c.AskCancel != "" {
		if _, err := tx.Exec(ctx, sqlBackfillAskCancel, ref.BackfillID, string(c.AskCancel), c.Now); err != nil {
			return fmt.Errorf("ask for the cancel of runs: %w", err)
		}
	}
	if err := insertEvents(ctx, tx, eventsOf(ref.ScheduleID, c.Events, c.Now)); err != nil {
		return err
	}
	if c.Audit != nil {
		if err := insertAudit(ctx, tx, []schedule.AuditEntry{*c.Audit}); err != nil {
			return err
		}
	}
	wakeListeners(tx)
	return nil
}

func endPlannedOfBackfill(ctx context.Context, tx pgx.Tx, backfillID string, c *schedule.BackfillChange) error {
	rows, err := lockOpen(ctx, tx, sqlLockPlannedOfBackfill, backfillID)
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.settle(&schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: c.EndPlanned, CompletedAt: c.Now}, c.Now)
	}
	_, err = writeMoved(ctx, tx, rows, c.Now)
	return err
}
