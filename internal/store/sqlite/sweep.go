package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	sqlPostpone = `UPDATE open_runs SET due_at = ?2 WHERE idempotency_key = ?1 AND state = 3`
)

// ?1 = now, ?2 and ?3 = the term's buckets.
var sqlDue = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofOpen + `
 WHERE o.state = 3 AND o.due_at <= ?1 AND o.bucket BETWEEN ?2 AND ?3 ORDER BY o.due_at LIMIT ?4`

// Sweep ends the runs that are past a bound; see worker.FireStore. A run that may not
// end yet gets the next instant at which to look.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) (ledger.Swept, error) {
	var swept ledger.Swept
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		swept, err = sweep(ctx, t, &req)
		return err
	})
	if err != nil {
		return ledger.Swept{}, fmt.Errorf("sweep runs: %w", err)
	}
	return swept, nil
}

func sweep(ctx context.Context, t tx, req *schedule.SweepRequest) (swept ledger.Swept, err error) {
	first, last := req.Term.Buckets()
	rows, err := readOpenRows(ctx, t, sqlDue, req.Now.UnixMicro(), first, last, req.Limit)
	if err != nil {
		return swept, err
	}
	swept.More = len(rows) == req.Limit
	var over []*openRow
	for _, r := range rows {
		before := r.Status
		after, past := ledger.SweepRun(req, r.Run, r.Lease)
		if !past {
			next := microsOrNever(ledger.NextDue(req, &r.Run))
			if _, err := t.exec(ctx, sqlPostpone, keyArg(r.Key), next); err != nil {
				return swept, fmt.Errorf("move due_at of run %s: %w", r.Key, err)
			}
			swept.Open = append(swept.Open, r.Key)
			continue
		}
		r.Run = after
		over = append(over, r)
		swept.Ended = append(swept.Ended, schedule.Ended{Run: r.Run, Before: before})
	}
	if err := endSwept(ctx, t, over); err != nil {
		return swept, err
	}
	for i, r := range over {
		swept.Ended[i].Run = r.Run
	}
	return swept, nil
}

func endSwept(ctx context.Context, t tx, rows []*openRow) error {
	if len(rows) == 0 {
		return nil
	}
	if err := endRuns(ctx, t, rows, rows[0].CompletedAt); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Status != schedule.StatusCancelled {
			continue
		}
		if err := t.insertEvents(ctx, r.ScheduleID, []schedule.Event{ledger.CancelTimedOut(&r.Run)}, r.CompletedAt); err != nil {
			return err
		}
	}
	return nil
}

// never is the due_at of a run that no instant moves.
const never = math.MaxInt64

// dueAt is ledger.DueAt as the column has it.
func dueAt(r *schedule.Run) int64 {
	return microsOrNever(ledger.DueAt(r))
}

func microsOrNever(at time.Time) int64 {
	if at.IsZero() {
		return never
	}
	return at.UnixMicro()
}
