package sqlite

import (
	"context"
	"fmt"
	"math"
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
		if n == 1 {
			t.changed.runAnywhere(runChanged, e.Key) // the leader reads again when to send it next
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
	if n == 1 && e.To.Terminal() {
		t.changed.runAnywhere(runEnded, e.Key)
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

// Sweep ends the runs that are past a bound; see ledger.Sweep.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		ended = nil
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		ended, err = ledger.Sweep(&req, func(b ledger.Bound, after *ledger.Candidate) ([]ledger.Candidate, error) {
			return sweepCandidates(ctx, t, &req, b, after)
		})
		if err != nil {
			return err
		}
		var ends endings
		for i := range ended {
			run := &ended[i].Run
			if err := endSwept(ctx, t, run); err != nil {
				return err
			}
			ends.add(run.Key, run.Status)
		}
		return ends.note(ctx, t)
	})
	if err != nil {
		return nil, fmt.Errorf("sweep runs: %w", err)
	}
	return ended, nil
}

var sweepStatements = map[ledger.Bound]string{
	ledger.CancelBound: sqlSweepCancelled, ledger.LaunchBound: sqlSweepLaunching, ledger.TimeoutBound: sqlSweepTimedOut,
}

// sweepCandidates reads runs that may be past a bound, with the records of their keys.
func sweepCandidates(ctx context.Context, t tx, req *schedule.SweepRequest, b ledger.Bound, after *ledger.Candidate) ([]ledger.Candidate, error) {
	since, behind := int64(math.MinInt64), []byte{}
	if after != nil {
		since, behind = b.Since(&after.Run).UnixMicro(), after.Run.Key[:]
	}
	first, last := req.Term.Buckets()
	runs, err := readRuns(ctx, t, sweepStatements[b], b.Until(req).UnixMicro(), req.Limit, first, last, since, behind)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	keys := make([]schedule.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].Key
	}
	records, err := readRequests(ctx, t, keys)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	found := make([]ledger.Candidate, len(runs))
	for i := range runs {
		found[i].Run = runs[i]
		if record, known := records[runs[i].Key]; known {
			found[i].Record = &record
		}
	}
	return found, nil
}

func endSwept(ctx context.Context, t tx, r *schedule.Run) error {
	_, err := t.exec(ctx, sqlSweep, string(r.Status), word(r.Reason), r.CompletedAt.UnixMicro(), keyArg(r.Key), word(r.ErrorCode), int64(r.Deliveries))
	if err != nil {
		return fmt.Errorf("end run %s: %w", r.Key, err)
	}
	t.changed.run(runEnded, r.Key, schedule.Bucket(r.OverlapKey))
	if r.Status != schedule.StatusCancelled {
		return nil
	}
	return t.insertEvents(ctx, r.ScheduleID, []schedule.Event{ledger.CancelTimedOut(r)}, r.CompletedAt)
}
