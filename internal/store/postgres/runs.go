package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeRun locks one run (its schedule first), hands it to decide and writes
// the change in one transaction; see registrar.RunStore.
func (s *Store) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	var (
		after   schedule.Run
		moved   bool
		refusal error
	)
	err := s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		input, err := s.readRunForChange(ctx, tx, key, existing)
		if err != nil {
			return err
		}
		change, err := decide(input)
		if err != nil {
			refusal = err
			return err
		}
		var counted *schedule.Run
		if moved, counted, err = writeRunChange(ctx, tx, &input.Run, &change); err != nil {
			return err
		}
		if counted != nil {
			after = *counted
			return nil
		}
		subject := key
		if change.Insert != nil {
			subject = change.Insert.Key
		}
		after, err = getRun(ctx, tx, subject)
		return err
	})
	if refusal != nil {
		return schedule.Run{}, false, refusal // as it is
	}
	if err != nil {
		return schedule.Run{}, false, fmt.Errorf("change run %s: %w", key, err)
	}
	return after, moved, nil
}

func (s *Store) readRunForChange(ctx context.Context, tx pgx.Tx, key, existing schedule.Key) (schedule.RunInput, error) {
	var input schedule.RunInput
	schedules, err := collectSchedules(ctx, tx, sqlChangeRunSchedule, key[:])
	if err != nil {
		return input, fmt.Errorf("lock schedule: %w", err)
	}
	if len(schedules) > 0 {
		input.Schedule = &schedules[0]
	}
	input.Run, err = oneRun(ctx, tx, sqlLockOpenRun, key[:])
	if errors.Is(err, schedule.ErrNotFound) {
		input.Run, err = oneRun(ctx, tx, sqlGetEndedRun, key[:])
	}
	if err != nil {
		return input, fmt.Errorf("lock run: %w", err)
	}
	ref := revision.Of(&input.Run)
	definitions, err := s.definitionsOf(ctx, tx, map[revision.ID]struct{}{ref: {}})
	if err != nil {
		return input, err
	}
	input.Definition = definitions[ref]
	if input.Run.Queue.In() {
		if input.Queue, err = tables.QueueByNo(ctx, queries{tx}, input.Run.Queue.No); err != nil {
			return input, err
		}
	}
	err = each(ctx, tx, []any{new(string), &input.InFlight}, func() error { return nil },
		sqlCountInFlight, []string{input.Run.OverlapKey})
	if err != nil {
		return input, fmt.Errorf("count runs in flight: %w", err)
	}
	if existing.IsZero() {
		return input, nil
	}
	found, err := getRun(ctx, tx, existing)
	switch {
	case err == nil:
		input.Existing = &found
	case !errors.Is(err, schedule.ErrNotFound):
		return input, fmt.Errorf("look up run %s: %w", existing, err)
	}
	return input, nil
}

// writeRunChange returns whether anything moved. counted is a run that has ended without a row of
// history: nobody can read it, and what it has reported goes with it.
func writeRunChange(ctx context.Context, tx pgx.Tx, run *schedule.Run, change *schedule.RunChange) (moved bool, counted *schedule.Run, err error) {
	key := run.Key
	if change.Settle != nil {
		if moved, counted, err = settleOne(ctx, tx, run, *change.Settle, change.Now); err != nil {
			return false, nil, err
		}
	}
	if change.AskCancel != "" {
		n, err := affect(ctx, tx, sqlAskCancel, key[:], change.Now, string(change.AskCancel))
		if err != nil {
			return false, nil, fmt.Errorf("ask for the cancel: %w", err)
		}
		moved = moved || n > 0
		if run.Queue.In() {
			wakeQueues(tx)
		}
	}
	if change.Insert != nil {
		n, err := insertRuns(ctx, tx, []schedule.Run{*change.Insert}, change.Now)
		if err != nil {
			return false, nil, err
		}
		moved = moved || n > 0
		if change.Redriven && run.IsDead() {
			if err := noteRedriven(ctx, tx, []schedule.Run{*change.Insert}); err != nil {
				return false, nil, err
			}
		}
	}
	first, err := noteLateReport(ctx, tx, key, change.LateReport)
	if err != nil {
		return false, nil, err
	}
	if first {
		if err := insertEvents(ctx, tx, change.Events); err != nil {
			return false, nil, err
		}
	}
	if counted == nil && !change.Report.Empty() && (moved || change.LateReport != "" && first) {
		if err := dialect.WriteReport(ctx, queries{tx}, key, change.Report, change.Now); err != nil {
			return false, nil, err
		}
	}
	if change.Audit != nil {
		if err := insertAudit(ctx, tx, []schedule.AuditEntry{*change.Audit}); err != nil {
			return false, nil, err
		}
	}
	if !moved || !change.CausesWork() {
		return moved, counted, nil
	}
	concerned := []string{run.OverlapKey}
	if change.Insert != nil {
		concerned = append(concerned, change.Insert.OverlapKey)
	}
	wakeListeners(tx, concerned...)
	return true, counted, nil
}

// settleOne settles a run; see writeRunChange.
func settleOne(ctx context.Context, tx pgx.Tx, run *schedule.Run, s schedule.Settlement, now time.Time) (moved bool, counted *schedule.Run, err error) {
	s.Key = run.Key
	settled, ended, err := settleAll(ctx, tx, now, []schedule.Settlement{s})
	if err != nil {
		return false, nil, err
	}
	for _, r := range ended {
		if r.counted {
			r.ScheduleID, r.UserID, r.WorkflowID, r.Version = run.ScheduleID, run.UserID, run.WorkflowID, run.Version
			r.Queue = ledger.PlaceInHistory(&r.Queue)
			counted = &r.Run
		}
	}
	return settled[0].To != "", counted, nil
}

// noteLateReport reports whether this is the first late report of its status for
// the run; empty is none, which is always the first.
func noteLateReport(ctx context.Context, tx pgx.Tx, key schedule.Key, reported schedule.Status) (first bool, err error) {
	if reported == "" {
		return true, nil
	}
	noted := 0
	for _, statement := range []string{sqlNoteEarlyReport, sqlNoteLateReport} {
		n, err := affect(ctx, tx, statement, key[:], schedule.LateReportBit(reported))
		if err != nil {
			return false, fmt.Errorf("note late report: %w", err)
		}
		noted += n
	}
	return noted == 1, nil
}

// GetRun returns one run, or schedule.ErrNotFound.
func (s *Store) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	run, err := getRun(ctx, s.pool, key)
	if err != nil {
		return nil, fmt.Errorf("get run %s: %w", key, err)
	}
	return &run, nil
}

func getRun(ctx context.Context, q querier, key schedule.Key) (schedule.Run, error) {
	run, err := oneRun(ctx, q, sqlGetOpenRun, key[:])
	if errors.Is(err, schedule.ErrNotFound) {
		run, err = oneRun(ctx, q, sqlGetEndedRun, key[:])
	}
	return run, err
}

// LaunchAttempts returns the last failed attempts to launch a run, oldest first; none if
// the run does not exist.
func (s *Store) LaunchAttempts(ctx context.Context, key schedule.Key) (attempts []schedule.LaunchAttempt, err error) {
	var text pgtype.Text
	err = each(ctx, s.pool, []any{&text}, func() error {
		attempts, err = schedule.ReadAttempts(text.String)
		return err
	}, sqlLaunchAttempts, key[:])
	if err != nil {
		return nil, fmt.Errorf("launch attempts of run %s: %w", key, err)
	}
	return attempts, nil
}
