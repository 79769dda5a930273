package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// noteOutcomes writes which schedules fail because of runs that just ended FAILED, and
// which no longer do because of a success.
func noteOutcomes(ctx context.Context, tx pgx.Tx, ended []*openRow) error {
	var failed, succeeded []*openRow
	for _, r := range ended {
		switch r.Status {
		case schedule.StatusFailed:
			failed = append(failed, r)
		case schedule.StatusSuccess:
			succeeded = append(succeeded, r)
		}
	}
	runAt := func(r **openRow) time.Time { return (*r).RunAt }
	completedAt := func(r **openRow) time.Time { return (*r).CompletedAt }
	if len(succeeded) > 0 {
		_, err := tx.Exec(ctx, sqlRecovered, column(succeeded, func(r **openRow) int32 { return (*r).SID }), column(succeeded, runAt), column(succeeded, completedAt))
		if err != nil {
			return fmt.Errorf("note successful runs: %w", err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if err := nameSchedules(ctx, tx, failed); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqlFailed, column(failed, rowKey),
		column(failed, func(r **openRow) string { return (*r).ScheduleID }), column(failed, runAt), column(failed, completedAt),
		column(failed, func(r **openRow) string { return string((*r).Reason) }),
		column(failed, func(r **openRow) string { return (*r).ErrorCode }))
	if err != nil {
		return fmt.Errorf("note failed runs: %w", err)
	}
	return nil
}

// dropFailures forgets the failures of deleted schedules.
func dropFailures(ctx context.Context, tx pgx.Tx, changes []schedule.Change) error {
	var deleted []string
	for i := range changes {
		if row := changes[i].Row; row != nil && !row.Alive() {
			deleted = append(deleted, row.ScheduleID)
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlDropFailures, deleted); err != nil {
		return fmt.Errorf("forget failures of deleted schedules: %w", err)
	}
	return nil
}

// RecentOutcomes returns the newest n outcomes of each schedule, and whether it fails;
// see registrar.OutcomeStore.
func (s *Store) RecentOutcomes(ctx context.Context, scheduleIDs []string, n int) (map[string]schedule.Recent, error) {
	recent := make(map[string]schedule.Recent, len(scheduleIDs))
	if len(scheduleIDs) == 0 {
		return recent, nil
	}
	var (
		id, status   string
		raw          []byte
		runAt, ended pgtype.Timestamptz
		reason, code pgtype.Text
	)
	err := each(ctx, s.pool, []any{&id, &raw, &runAt, &ended, &status, &reason, &code}, func() error {
		of := recent[id]
		of.Outcomes = append(of.Outcomes, schedule.EndedRun{
			Key: schedule.Key(raw), RunAt: runAt.Time.UTC(), EndedAt: utc(ended), Status: schedule.Status(status),
			Reason: schedule.Reason(reason.String), ErrorCode: code.String,
		})
		recent[id] = of
		return nil
	}, sqlRecentOutcomes, scheduleIDs, n)
	if err != nil {
		return nil, fmt.Errorf("read recent outcomes: %w", err)
	}
	failures, err := readFailures(ctx, s.pool, scheduleIDs)
	if err != nil {
		return nil, err
	}
	for id, f := range failures {
		of := recent[id]
		of.Failure = f
		recent[id] = of
	}
	return recent, nil
}

func readFailures(ctx context.Context, q querier, scheduleIDs []string) (map[string]*schedule.Failure, error) {
	var (
		f       schedule.Failure
		raw     []byte
		message pgtype.Text
	)
	found := make(map[string]*schedule.Failure)
	err := each(ctx, q, []any{
		&f.ScheduleID, &f.Failures, &f.FirstRunAt, &f.FirstEndedAt, &f.LastRunAt, &f.LastEndedAt, &raw, &f.Reason, &f.ErrorCode, &message,
	}, func() error {
		one := f
		one.LastKey, one.ErrorMessage = schedule.Key(raw), message.String
		for _, at := range []*time.Time{&one.FirstRunAt, &one.FirstEndedAt, &one.LastRunAt, &one.LastEndedAt} {
			*at = at.UTC()
		}
		found[one.ScheduleID] = &one
		return nil
	}, sqlFailures, scheduleIDs)
	if err != nil {
		return nil, fmt.Errorf("read failures: %w", err)
	}
	return found, nil
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

// CountEnded counts runs that ended since an instant; see registrar.OutcomeStore.
func (s *Store) CountEnded(ctx context.Context, since time.Time, limit int) (counts []schedule.EndedCount, err error) {
	var c schedule.EndedCount
	err = each(ctx, s.pool, []any{&c.ScheduleID, &c.Status, &c.Reason, &c.ErrorCode, &c.Runs}, func() error {
		counts = append(counts, c)
		return nil
	}, sqlCountEnded, since, limit)
	if err != nil {
		return nil, fmt.Errorf("count runs that ended: %w", err)
	}
	return counts, nil
}

// CountCalls counts executor calls by result; see registrar.OutcomeStore.
func (s *Store) CountCalls(ctx context.Context, since time.Time, limit int) (schedule.CallCounts, error) {
	var (
		c     schedule.CallCount
		found []schedule.CallCount
	)
	err := each(ctx, s.pool, []any{&c.Result, &c.ErrorCode, &c.Calls, &c.Last, &c.ScheduleID, &c.ErrorMessage}, func() error {
		one := c
		one.Last = c.Last.UTC()
		found = append(found, one)
		return nil
	}, sqlCountCalls, since, limit, since.UnixMicro())
	if err != nil {
		return schedule.CallCounts{}, fmt.Errorf("count executor calls: %w", err)
	}
	return schedule.CallCountsOf(found, since, limit), nil
}

// WakeFailures makes schedules with changed failures due for evaluation; see
// alert.ExpectationStore. Before that it drops the failures of schedules that have recovered.
func (s *Store) WakeFailures(ctx context.Context, now time.Time, limit int) error {
	if _, err := s.pool.Exec(ctx, sqlDropRecovered, now); err != nil {
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
	return schedule.ReadCaseFailures(cases, func(ids []string) (map[string]*schedule.Failure, error) { return readFailures(ctx, tx, ids) })
}
