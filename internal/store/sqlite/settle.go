package sqlite

import (
	"context"
	"fmt"
	"time"

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
			if moved[i] && countsAsRun(e) && !places[i].noted {
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
		n, err := t.exec(ctx, settleLaunching, keyArg(e.Key), micros(e.ClaimedUntil), now.UnixMicro(), word(e.ErrorCode), word(e.ErrorMessage))
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
	if n == 1 && e.To == schedule.StatusCancelled && e.Reason == "" {
		if _, err := t.exec(ctx, sqlSettleCancelReason, keyArg(e.Key)); err != nil {
			return false, fmt.Errorf("settle run %s to %s: %w", e.Key, e.To, err)
		}
	}
	return n == 1, nil
}

// countsAsRun reports whether the settlement says that the executor was called
// and had something to say.
func countsAsRun(e *schedule.Settlement) bool {
	switch e.To {
	case schedule.StatusEnqueued, schedule.StatusStarted, schedule.StatusSuccess, schedule.StatusFailed:
		return !e.LaunchedAt.IsZero()
	}
	return false
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
// of which nothing was ever sent, and runs without a sign of life.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		ended = nil
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		first, last := req.Term.Buckets()
		var ends endings
		for _, bound := range []struct {
			statement string
			past      []any
			end       func(schedule.Run) (schedule.Status, schedule.Reason)
		}{
			{sqlSweepCancelled, []any{req.Now.Add(-req.CancelWait).UnixMicro(), req.Now.UnixMicro()}, cancelledUnconfirmed},
			{sqlSweepUnavailable, []any{req.Now.Add(-req.RetryFor).UnixMicro()}, neverSent},
			{sqlSweepTimedOut, []any{req.Now.UnixMicro()}, silent},
		} {
			runs, err := readRuns(ctx, t, bound.statement, append(bound.past, max(req.Limit-len(ended), 0), first, last)...)
			if err != nil {
				return err
			}
			for i := range runs {
				before := runs[i].Status
				r := runs[i]
				r.Status, r.Reason = bound.end(r)
				r.CompletedAt, r.UpdatedAt, r.ClaimedUntil = req.Now, req.Now, time.Time{}
				if err := endSwept(ctx, t, &r, req.Now); err != nil {
					return err
				}
				ended = append(ended, schedule.Ended{Run: r, Before: before})
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

func cancelledUnconfirmed(r schedule.Run) (schedule.Status, schedule.Reason) {
	return schedule.StatusCancelled, r.CancelReason
}

func neverSent(schedule.Run) (schedule.Status, schedule.Reason) {
	return schedule.StatusFailed, schedule.ReasonLaunchUnavailable
}

func silent(r schedule.Run) (schedule.Status, schedule.Reason) {
	if r.Status == schedule.StatusLaunching {
		return schedule.StatusFailed, schedule.ReasonLost
	}
	return schedule.StatusFailed, schedule.ReasonTimeout
}

func endSwept(ctx context.Context, t tx, r *schedule.Run, now time.Time) error {
	if _, err := t.exec(ctx, sqlSweep, string(r.Status), word(r.Reason), now.UnixMicro(), keyArg(r.Key)); err != nil {
		return fmt.Errorf("end run %s: %w", r.Key, err)
	}
	if r.Status != schedule.StatusCancelled {
		return nil
	}
	return t.insertEvents(ctx, r.ScheduleID, []schedule.Event{{
		Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
	}}, now)
}
