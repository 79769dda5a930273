package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// dropFailures forgets the failures of schedules that are deleted or begin.
func dropFailures(ctx context.Context, tx pgx.Tx, changes []schedule.Change) error {
	var forgotten []string
	for i := range changes {
		if ledger.ForgetsFailures(&changes[i]) {
			forgotten = append(forgotten, changes[i].ScheduleID)
		}
	}
	if len(forgotten) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlDropFailures, forgotten); err != nil {
		return fmt.Errorf("forget failures: %w", err)
	}
	return nil
}

// failureRow is a row as failureOwn lists it.
type failureRow struct {
	schedule.Failure
	lastKey []byte
}

func (w *failureRow) targets() []any {
	f := &w.Failure
	return []any{&f.ScheduleID, &f.Failures, &f.FirstRunAt, &f.FirstEndedAt, &f.LastRunAt, &f.LastEndedAt, &w.lastKey, &f.Reason, &f.ErrorCode}
}

func (w *failureRow) failure() *schedule.Failure {
	f := w.Failure
	f.LastKey = schedule.Key(w.lastKey)
	for _, at := range []*time.Time{&f.FirstRunAt, &f.FirstEndedAt, &f.LastRunAt, &f.LastEndedAt} {
		*at = at.UTC()
	}
	return &f
}

// FailureGroups returns the failing schedules grouped by how they fail, the largest group
// first.
func (s *Store) FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error) {
	var (
		g      schedule.FailureGroup
		groups []schedule.FailureGroup
	)
	err := each(ctx, s.pool, []any{&g.Reason, &g.ErrorCode, &g.Schedules, &g.Failures, &g.FirstAt, &g.LastAt, &g.Examples}, func() error {
		one := g
		one.FirstAt, one.LastAt = g.FirstAt.UTC(), g.LastAt.UTC()
		groups = append(groups, one)
		return nil
	}, sqlFailureGroups, userID, schedule.FailureExamples)
	if err != nil {
		return nil, fmt.Errorf("group failing schedules: %w", err)
	}
	return groups, nil
}

// WakeFailures makes schedules with changed failures due for evaluation; see
// alert.ExpectationStore. Before that it drops the failures of schedules that have recovered.
func (s *Store) WakeFailures(ctx context.Context, now time.Time, limit int) error {
	if err := s.dropRecovered(ctx, now.Add(-30*time.Second)); err != nil {
		return fmt.Errorf("drop failures of recovered schedules: %w", err)
	}
	for _, statement := range []string{sqlExpectFailures, sqlWakeFailures} {
		if _, err := s.pool.Exec(ctx, statement, now, limit); err != nil {
			return fmt.Errorf("wake judgements of failures: %w", err)
		}
	}
	return nil
}

// readCaseFailures adds how the schedules fail; see schedule.ReadCaseFailures.
func readCaseFailures(ctx context.Context, tx pgx.Tx, _ schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	return schedule.ReadCaseFailures(cases, func(ids []string) (map[string]*schedule.Failure, error) {
		return dialect.FailuresOf(ctx, queries{tx}, ids)
	})
}
