package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Settle moves runs forward, each where its status allows.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []bool, err error) {
	moved, err = s.settleAll(ctx, now, settlements, func(ctx context.Context, t tx) error { return fence(ctx, t, term) })
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which has no term: only the status of each run
// decides.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []bool, err error) {
	moved, err = s.settleAll(ctx, now, settlements, func(context.Context, tx) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	if schedule.AnyEnded(settlements, moved) {
		s.wakes.call()
	}
	return moved, nil
}

func (s *Store) settleAll(ctx context.Context, now time.Time, settlements []schedule.Settlement, allowed func(context.Context, tx) error) (moved []bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) (err error) {
		if err := allowed(ctx, t); err != nil {
			return err
		}
		moved, err = settle(ctx, t, settlements, now)
		return err
	})
	return moved, err
}

// settle moves open runs, each where its status allows. Several settlements of one
// run take effect one after the other.
func settle(ctx context.Context, t tx, settlements []schedule.Settlement, now time.Time) (moved []bool, err error) {
	keys := make([]schedule.Key, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Key
	}
	rows, err := openRowsOf(ctx, t, keys)
	if err != nil {
		return nil, err
	}
	moved = make([]bool, len(settlements))
	var all settled
	for i := range settlements {
		if r := rows[settlements[i].Key]; r != nil {
			moved[i] = all.settle(r, &settlements[i], now)
		}
	}
	return moved, all.write(ctx, t, now)
}

// settled are rows that settlements have moved.
type settled struct{ changed []*openRow }

func (s *settled) settle(r *openRow, e *schedule.Settlement, now time.Time) (moved bool) {
	first := !r.moved
	if !r.settle(e, now) {
		return false
	}
	if first {
		s.changed = append(s.changed, r)
	}
	return true
}

func (s *settled) write(ctx context.Context, t tx, now time.Time) error {
	return writeMoved(ctx, t, s.changed, now)
}

// writeMoved writes runs as a rule has left them: ended, or still open.
func writeMoved(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	var ended []*openRow
	for _, r := range rows {
		if r.Status.Terminal() {
			ended = append(ended, r)
			continue
		}
		if err := r.update(ctx, t); err != nil {
			return err
		}
		if r.Status == schedule.StatusLaunching { // the leader reads again when to send it next
			t.changed.run(runChanged, r.Key, schedule.Bucket(r.OverlapKey))
		}
	}
	return endRuns(ctx, t, ended, now)
}

// endBy settles all runs of a statement that selects openRowColumns in the same way,
// which ends them.
func endBy(ctx context.Context, t tx, e schedule.Settlement, now time.Time, statement string, args ...any) error {
	rows, err := readOpenRows(ctx, t, statement, args...)
	if err != nil {
		return err
	}
	var ended []*openRow
	for _, r := range rows {
		if e.Key = r.Key; r.settle(&e, now) {
			ended = append(ended, r)
		}
	}
	return endRuns(ctx, t, ended, now)
}

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
			next := int64(never)
			if at := ledger.NextDue(req, &r.Run); !at.IsZero() {
				next = at.UnixMicro()
			}
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
	return swept, endSwept(ctx, t, over)
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
