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

// SettleLaunched is Settle for a launcher, which leads nothing: only the status
// of each run says whether it moves.
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
	places := s.places.of(len(settlements), func(i int) schedule.Key { return settlements[i].Key })
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		moved = make([]bool, len(settlements))
		if err := allowed(ctx, t); err != nil {
			return err
		}
		var launched []schedule.Key
		var ends endings
		for i := range settlements {
			e := &settlements[i]
			if moved[i], err = settle(ctx, t, e, places[i].row, now); err != nil {
				return err
			}
			if moved[i] && ledger.IsLaunch(e) && !places[i].noted {
				launched = append(launched, e.Key)
			}
			if moved[i] {
				ends.add(e.Key, e.To)
			}
		}
		if err := ends.note(ctx, t); err != nil {
			return err
		}
		return noteLastRuns(ctx, t, launched)
	})
	if err == nil {
		s.places.forget(settlements, moved)
	}
	return moved, err
}

// settleStatements are the statuses that a settlement may lead to.
var settleStatements = map[schedule.Status]string{
	schedule.StatusEnqueued:  settleEnqueued,
	schedule.StatusStarted:   settleStarted,
	schedule.StatusSuccess:   settleSuccess,
	schedule.StatusFailed:    settleFailed,
	schedule.StatusSkipped:   settleSkipped,
	schedule.StatusCancelled: settleCancelled,
}

// settle moves one run, if its status is one that To may follow. Its row is 0
// where it is not known.
func settle(ctx context.Context, t tx, e *schedule.Settlement, row int64, now time.Time) (moved bool, err error) {
	if e.To == schedule.StatusLaunching {
		n, err := t.exec(ctx, settleLaunching, keyArg(e.Key), micros(e.ClaimedUntil), now.UnixMicro(), word(e.ErrorCode), word(e.ErrorMessage),
			int64(e.Deliveries), attemptArg(e.Attempt))
		if err != nil {
			return false, fmt.Errorf("renew claim of run %s: %w", e.Key, err)
		}
		return n == 1, nil
	}
	statement, ok := settleStatements[e.To]
	if !ok {
		return false, nil // nothing becomes PLANNED
	}
	completed := time.Time{}
	if e.To.Terminal() {
		completed = either(e.CompletedAt, now)
	}
	args := []any{
		keyArg(e.Key), micros(completed), now.UnixMicro(), word(e.Reason), word(e.RunID), word(e.TraceID),
		word(e.ErrorCode), word(e.ErrorMessage), micros(e.LaunchedAt), micros(e.StartedAt), micros(e.TimeoutAt),
		int64(e.Deliveries),
	}
	n := int64(0)
	if row != 0 {
		n, err = t.exec(ctx, atPlace[e.To], append(args, row)...)
	}
	if n == 0 && err == nil {
		n, err = t.exec(ctx, statement, args...)
	}
	if err != nil {
		return false, fmt.Errorf("settle run %s to %s: %w", e.Key, e.To, err)
	}
	return n == 1, nil
}

// attemptArg is an attempt as attempt_log keeps it; NULL: none.
func attemptArg(a *schedule.LaunchAttempt) any {
	if a == nil {
		return nil
	}
	return a.Text()
}

// noteLastRuns moves last_run_at of the runs' schedules forward.
func noteLastRuns(ctx context.Context, t tx, launched []schedule.Key) error {
	if len(launched) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, sqlLastRunAt, keyList(launched)); err != nil {
		return fmt.Errorf("note last runs: %w", err)
	}
	return nil
}

// Sweep ends what is past its bound: cancels that nobody confirmed, launches
// that are given up, and runs without a sign of life.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		ended = nil
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		first, last := req.Term.Buckets()
		var ends endings
		now, hard := req.Now.UnixMicro(), req.Now.Add(-req.RetryFor).UnixMicro()
		for _, bound := range []struct {
			statement string
			past      int64
			more      []any
			end       func(context.Context, tx, []schedule.Run) error
		}{
			{sqlSweepCancelled, req.Now.Add(-req.CancelWait).UnixMicro(), []any{req.Term.Epoch, hard}, endCancelled},
			{sqlSweepLaunching, now, []any{req.Term.Epoch, hard}, endLaunching},
			{sqlSweepTimedOut, now, nil, endSilent},
		} {
			args := append([]any{bound.past, max(req.Limit-len(ended), 0), first, last}, bound.more...)
			runs, err := readRuns(ctx, t, bound.statement, args...)
			if err != nil {
				return err
			}
			before := make([]schedule.Status, len(runs))
			for i := range runs {
				before[i] = runs[i].Status
			}
			if err := bound.end(ctx, t, runs); err != nil {
				return err
			}
			for i := range runs {
				r := runs[i]
				r.CompletedAt, r.UpdatedAt, r.ClaimedUntil = req.Now, req.Now, time.Time{}
				if err := endSwept(ctx, t, &r, req.Now); err != nil {
					return err
				}
				ended = append(ended, schedule.Ended{Run: r, Before: before[i]})
				ends.add(r.Key, r.Status)
			}
		}
		return ends.note(ctx, t)
	})
	if err != nil {
		return nil, fmt.Errorf("sweep runs: %w", err)
	}
	return ended, nil
}

func endCancelled(_ context.Context, _ tx, runs []schedule.Run) error {
	for i := range runs {
		runs[i].Status, runs[i].Reason = schedule.StatusCancelled, runs[i].CancelReason
	}
	return nil
}

func endLaunching(ctx context.Context, t tx, runs []schedule.Run) error {
	keys := make([]schedule.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].Key
	}
	sent := make(map[schedule.Key]bool, len(runs))
	var k key
	err := t.query(ctx, sqlSweepSent, func(scan scan) error {
		err := scan(&k)
		sent[schedule.Key(k)] = true
		return err
	}, keyList(keys))
	if err != nil {
		return fmt.Errorf("read which launches were sent: %w", err)
	}
	for i := range runs {
		runs[i].GiveUp(sent[runs[i].Key])
	}
	return nil
}

func endSilent(_ context.Context, _ tx, runs []schedule.Run) error {
	for i := range runs {
		runs[i].Status, runs[i].Reason = schedule.StatusFailed, schedule.ReasonTimeout
	}
	return nil
}

func endSwept(ctx context.Context, t tx, r *schedule.Run, now time.Time) error {
	deliveries := number(r.Deliveries)
	err := t.query(ctx, sqlSweep, func(scan scan) error { return scan(&deliveries) },
		string(r.Status), word(r.Reason), now.UnixMicro(), keyArg(r.Key), word(r.ErrorCode))
	if err != nil {
		return fmt.Errorf("end run %s: %w", r.Key, err)
	}
	r.Deliveries = int32(deliveries)
	if r.Status != schedule.StatusCancelled {
		return nil
	}
	return t.insertEvents(ctx, r.ScheduleID, []schedule.Event{{
		Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
	}}, now)
}
