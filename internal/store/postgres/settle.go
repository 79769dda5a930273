package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Settle moves runs forward if their status allows; moved[i] reports whether the i-th
// moved. Settlements of one run apply in their order.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]bool, error) {
	var moved []bool
	err := s.fenced(ctx, term, func(tx pgx.Tx) (err error) {
		moved, _, err = settleAll(ctx, tx, now, settlements)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which has no term: only the status of each run
// decides.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) ([]bool, error) {
	var moved []bool
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var ended []*openRow
		var err error
		if moved, ended, err = settleAll(ctx, tx, now, settlements); err != nil {
			return err
		}
		wakeLeaders(tx, ended)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	return moved, nil
}

// wakeLeaders wakes the leaders of runs that were ended without a term.
func wakeLeaders(tx pgx.Tx, ended []*openRow) {
	if len(ended) == 0 {
		return
	}
	overlapKeys := make([]string, len(ended))
	for i, r := range ended {
		overlapKeys[i] = r.OverlapKey
	}
	wakeListeners(tx, overlapKeys...)
}

// settleAll locks runs and writes their settlements, in order.
func settleAll(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) (moved []bool, ended []*openRow, err error) {
	if len(settlements) == 0 {
		return nil, nil, nil
	}
	keys := make([]schedule.Key, len(settlements))
	failed := false
	for i := range settlements {
		keys[i] = settlements[i].Key
		failed = failed || settlements[i].To == schedule.StatusFailed
	}
	open, err := lockSettled(ctx, tx, keys, failed)
	if err != nil {
		return nil, nil, err
	}
	moved = make([]bool, len(settlements))
	rows := make([]*openRow, 0, len(open))
	for i := range settlements {
		r := open[settlements[i].Key]
		if r == nil {
			continue
		}
		first := !r.moved
		if moved[i] = r.settle(&settlements[i], now); moved[i] && first {
			rows = append(rows, r)
		}
	}
	ended, err = writeMoved(ctx, tx, rows, now)
	return moved, ended, err
}

// lockSettled locks runs that are to be settled. failed: one of them may end FAILED, for
// which noteFailed needs its schedule.
func lockSettled(ctx context.Context, tx pgx.Tx, keys []schedule.Key, failed bool) (map[schedule.Key]*openRow, error) {
	if failed {
		return lockKeys(ctx, tx, keys)
	}
	return lockAnswered(ctx, tx, keys)
}

// Sweep ends runs that are past their bound; see worker.FireStore.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) (ledger.Swept, error) {
	var swept ledger.Swept
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		var err error
		if swept, err = s.sweep(ctx, tx, &req); err != nil {
			return err
		}
		var events []schedule.Event
		for i := range swept.Ended {
			if run := &swept.Ended[i].Run; run.Status == schedule.StatusCancelled {
				events = append(events, ledger.CancelTimedOut(run))
			}
		}
		return insertEvents(ctx, tx, events)
	})
	if err != nil {
		return ledger.Swept{}, fmt.Errorf("sweep runs: %w", err)
	}
	return swept, nil
}

// sweep ends due runs that are past their bound, and writes the next due_at of the
// others.
func (s *Store) sweep(ctx context.Context, tx pgx.Tx, req *schedule.SweepRequest) (swept ledger.Swept, err error) {
	first, last := req.Term.Buckets()
	due, err := lockOpen(ctx, tx, sqlLockDue, req.Now, req.Limit, first, last)
	if err != nil {
		return swept, err
	}
	swept.More = len(due) == req.Limit
	var over, later []*openRow
	for _, r := range due {
		if r.Unreadable != nil {
			s.log.ErrorContext(ctx, "run unreadable", "key", r.Key, "schedule_id", r.ScheduleID, "err", r.Unreadable)
		}
		after, past := ledger.SweepRun(req, r.Run, r.Lease)
		if !past {
			later = append(later, r)
			swept.Open = append(swept.Open, r.Key)
			continue
		}
		swept.Ended = append(swept.Ended, schedule.Ended{Run: after, Before: r.Status})
		r.Run = after
		over = append(over, r)
	}
	if len(later) > 0 {
		_, err := tx.Exec(ctx, sqlPostpone, column(later, rowKey),
			column(later, func(r **openRow) pgtype.Timestamptz { return noneOrTime(ledger.NextDue(req, &(*r).Run)) }))
		if err != nil {
			return swept, fmt.Errorf("write the next due_at: %w", err)
		}
	}
	if err := endRuns(ctx, tx, over, req.Now); err != nil || len(over) == 0 {
		return swept, err
	}
	return swept, s.identifyEnded(ctx, tx, swept.Ended)
}

// identifyEnded adds what runs have from their revision.
func (s *Store) identifyEnded(ctx context.Context, tx pgx.Tx, ended []schedule.Ended) error {
	runs := make([]schedule.Run, len(ended))
	for i := range ended {
		runs[i] = ended[i].Run
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return err
	}
	for i := range ended {
		identify(&ended[i].Run, definitions[revision.Of(&ended[i].Run)])
	}
	return nil
}
