package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeRun reads one run and all that a change of it depends on, hands it to
// decide and writes what it says, in one transaction. An error of decide
// writes nothing and comes back as it is.
func (s *Store) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	var after schedule.Run
	var refused error
	moved, wake := false, false
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		refused, moved, wake = nil, false, false
		in, err := s.runInput(ctx, t, key, existing)
		if err != nil {
			return err
		}
		change, err := decide(in)
		if err != nil {
			refused = err
			return err
		}
		after, moved, err = writeRunChange(ctx, t, &in.Run, &change)
		wake = moved && change.CausesWork()
		return err
	})
	if refused != nil {
		return schedule.Run{}, false, refused
	}
	if err != nil {
		return schedule.Run{}, false, fmt.Errorf("change run %s: %w", key, err)
	}
	if wake {
		s.wakes.call()
	}
	return after, moved, nil
}

func (s *Store) runInput(ctx context.Context, t tx, key, existing schedule.Key) (in schedule.RunInput, err error) {
	run, err := getRun(ctx, t, key)
	if err != nil {
		return in, err
	}
	in.Run = *run
	rows, err := readSchedules(ctx, t, sqlGetSchedule, run.ScheduleID)
	if err != nil {
		return in, fmt.Errorf("read schedule %s: %w", run.ScheduleID, err)
	}
	if len(rows) == 1 {
		in.Schedule = &rows[0].Schedule
	}
	id := revision.Of(run)
	definitions, err := s.definitionsOf(ctx, t, []revision.ID{id})
	if err != nil {
		return in, err
	}
	in.Definition = definitions[id]
	if run.Queue.In() {
		if in.Queue, err = tables.QueueByNo(ctx, queries{t}, run.Queue.No); err != nil {
			return in, err
		}
	}
	if in.InFlight, err = countInFlight(ctx, t, run.OverlapKey); err != nil {
		return in, err
	}
	if !existing.IsZero() {
		in.Existing, err = lookUpRun(ctx, t, existing)
	}
	return in, err
}

// writeRunChange returns the run after the change (the inserted one where
// there is one), and whether anything moved. A run that has ended without a row of history cannot be
// read again, and what it has reported goes with it.
func writeRunChange(ctx context.Context, t tx, run *schedule.Run, c *schedule.RunChange) (after schedule.Run, moved bool, err error) {
	counted := false
	if c.Settle != nil {
		if after, moved, counted, err = settleOne(ctx, t, run.Key, *c.Settle, c.Now); err != nil {
			return after, false, err
		}
	}
	if c.AskCancel != "" {
		n, err := t.exec(ctx, sqlAskCancel, c.Now.UnixMicro(), word(c.AskCancel), keyArg(run.Key))
		if err != nil {
			return after, false, fmt.Errorf("ask for cancel: %w", err)
		}
		if n == 1 {
			t.noteRun(cancelRequested, run)
		}
		moved = moved || n == 1
	}
	key := run.Key
	if c.Insert != nil {
		n, err := insertRuns(ctx, t, []schedule.Run{*c.Insert}, c.Now)
		if err != nil {
			return after, false, err
		}
		moved = moved || n == 1
		key = c.Insert.Key
		if c.Redriven && run.IsDead() {
			if err := noteRedriven(ctx, t, []schedule.Run{*c.Insert}); err != nil {
				return after, false, err
			}
		}
	}
	first, err := noteLateReport(ctx, t, run.Key, c.LateReport)
	if err != nil {
		return after, false, err
	}
	if first {
		if err := t.insertEvents(ctx, run.ScheduleID, c.Events, c.Now); err != nil {
			return after, false, err
		}
	}
	if !counted && !c.Report.Empty() && (moved || c.LateReport != "" && first) {
		if err := dialect.WriteReport(ctx, queries{t}, run.Key, c.Report, c.Now); err != nil {
			return after, false, err
		}
	}
	if err := t.insertAudit(ctx, c.Audit, c.Now); err != nil {
		return after, false, err
	}
	if counted {
		return after, moved, nil
	}
	stands, err := getRun(ctx, t, key)
	if err != nil {
		return after, false, err
	}
	return *stands, moved, nil
}

// settleOne settles a run. after is the run as it has ended if it is only counted.
func settleOne(ctx context.Context, t tx, key schedule.Key, e schedule.Settlement, now time.Time) (after schedule.Run, moved, counted bool, err error) {
	e.Key = key
	settled, ended, err := settle(ctx, t, []schedule.Settlement{e}, now)
	if err != nil {
		return after, false, false, err
	}
	if counted = len(ended) == 1 && ended[0].counted; counted {
		after = ended[0].Run
		after.Queue = ledger.PlaceInHistory(&after.Queue)
	}
	return after, settled[0].To != "", counted, nil
}

// noteLateReport reports whether this is the first late report of its status for
// the run; empty is none, which is always the first.
func noteLateReport(ctx context.Context, t tx, key schedule.Key, reported schedule.Status) (first bool, err error) {
	if reported == "" {
		return true, nil
	}
	for _, statement := range []string{sqlNoteLateReport, sqlNoteEarlyReport} {
		n, err := t.exec(ctx, statement, schedule.LateReportBit(reported), keyArg(key))
		if err != nil {
			return false, fmt.Errorf("note late report: %w", err)
		}
		first = first || n == 1
	}
	return first, nil
}

// GetRun is one row of the ledger; schedule.ErrNotFound.
func (s *Store) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	run, err := getRun(ctx, s.readers, key)
	if err != nil {
		return nil, fmt.Errorf("get run %s: %w", key, err)
	}
	return run, nil
}

// LaunchAttempts returns the last failed attempts to launch a run, oldest first; none if
// the run does not exist.
func (s *Store) LaunchAttempts(ctx context.Context, key schedule.Key) (attempts []schedule.LaunchAttempt, err error) {
	var log text
	err = s.readers.query(ctx, sqlLaunchAttempts, func(scan scan) error {
		if err := scan(&log); err != nil {
			return err
		}
		attempts, err = schedule.ReadAttempts(string(log))
		return err
	}, keyArg(key))
	if err != nil {
		return nil, fmt.Errorf("launch attempts of run %s: %w", key, err)
	}
	return attempts, nil
}

func getRun(ctx context.Context, q querier, key schedule.Key) (*schedule.Run, error) {
	run, err := lookUpRun(ctx, q, key)
	if err == nil && run == nil {
		err = schedule.ErrNotFound
	}
	return run, err
}

// lookUpRun is nil where there is no such row.
func lookUpRun(ctx context.Context, q querier, key schedule.Key) (*schedule.Run, error) {
	for _, statement := range []string{sqlGetOpenRun, sqlGetEndedRun} {
		runs, err := readRuns(ctx, q, statement, keyArg(key))
		if err != nil {
			return nil, err
		}
		if len(runs) > 0 {
			return &runs[0], nil
		}
	}
	return nil, nil
}
