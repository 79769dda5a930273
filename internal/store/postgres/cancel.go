package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// CancelRuns hands open runs to decide and cancels those that it names, in one transaction; see
// registrar.RunStore.
func (s *Store) CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (page schedule.RunPage, err error) {
	f.Statuses = schedule.OpenStatuses
	var refusal error
	err = s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		found, err := listRuns(ctx, tx, &f)
		if err != nil {
			return fmt.Errorf("list open runs: %w", err)
		}
		page = schedule.PageOf(found)
		if found, err = lockFound(ctx, tx, found); err != nil {
			return err
		}
		change, err := decide(found)
		if err != nil {
			refusal = err
			return err
		}
		return writeCancel(ctx, tx, &change)
	})
	if refusal != nil {
		return schedule.RunPage{}, refusal // as it is
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("cancel runs: %w", err)
	}
	return page, nil
}

// lockFound locks the listed runs that are still open, and returns them as they are now.
func lockFound(ctx context.Context, tx pgx.Tx, found []schedule.Run) ([]schedule.Run, error) {
	keys := make([]schedule.Key, len(found))
	for i := range found {
		keys[i] = found[i].Key
	}
	rows, err := lockKeys(ctx, tx, keys)
	if err != nil {
		return nil, fmt.Errorf("lock runs: %w", err)
	}
	byKey := rowsByKey(rows)
	open := make([]schedule.Run, 0, len(rows))
	for i := range found {
		if r := byKey[found[i].Key]; r != nil {
			run := r.Run
			run.ScheduleID, run.UserID, run.WorkflowID, run.Version = found[i].ScheduleID, found[i].UserID, found[i].WorkflowID, found[i].Version
			open = append(open, run)
		}
	}
	return open, nil
}

func writeCancel(ctx context.Context, tx pgx.Tx, change *schedule.CancelChange) error {
	_, ended, err := settleAll(ctx, tx, change.Now, change.End)
	if err != nil {
		return err
	}
	wakeLeaders(tx, ended)
	if len(change.Ask) > 0 {
		asks := &pgx.Batch{}
		for _, key := range change.Ask {
			asks.Queue(sqlAskCancel, key[:], change.Now, string(change.Reason))
		}
		if err := tx.SendBatch(ctx, asks).Close(); err != nil {
			return fmt.Errorf("ask for cancels: %w", err)
		}
		wakeQueues(tx)
		wakeListeners(tx)
	}
	if err := insertEvents(ctx, tx, change.Events); err != nil {
		return err
	}
	return insertAudit(ctx, tx, change.Audit)
}
