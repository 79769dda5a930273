package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

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
	if err := nameSchedules(ctx, tx, due); err != nil {
		return swept, err
	}
	swept.More = len(due) == req.Limit
	var over, later []*openRow
	for _, r := range due {
		s.logUnreadable(ctx, r)
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
	for i, r := range over {
		swept.Ended[i].Run.FailureClass, swept.Ended[i].Run.Dead = r.FailureClass, r.Dead
	}
	return swept, s.identifyEnded(ctx, tx, swept.Ended)
}

// sqlPostpone leaves updated_at: nothing that anybody watches has changed.
const sqlPostpone = `
UPDATE open_runs o SET due_at = coalesce(u.due_at, 'infinity')
FROM unnest($1::bytea[], $2::timestamptz[]) AS u(key, due_at)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1`

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
