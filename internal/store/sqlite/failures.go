package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// FailureGroups returns the failing schedules grouped by how they fail, the largest group
// first.
func (s *Store) FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error) {
	var (
		groups              []schedule.FailureGroup
		reason, code, id    text
		schedules, failures number
		first, last         instant
	)
	err := s.readers.query(ctx, sqlFailureGroups, func(scan scan) error {
		err := scan(&reason, &code, &schedules, &failures, &first, &last)
		groups = append(groups, schedule.FailureGroup{
			Reason: schedule.Reason(reason), ErrorCode: string(code), Schedules: int64(schedules), Failures: int64(failures),
			FirstAt: first.Time, LastAt: last.Time,
		})
		return err
	}, userID)
	for i := 0; err == nil && i < len(groups); i++ {
		g := &groups[i]
		err = s.readers.query(ctx, sqlFailureExamples, func(scan scan) error {
			err := scan(&id)
			g.Examples = append(g.Examples, string(id))
			return err
		}, userID, string(g.Reason), g.ErrorCode, schedule.FailureExamples)
	}
	if err != nil {
		return nil, fmt.Errorf("group failing schedules: %w", err)
	}
	return groups, nil
}

// WakeFailures makes schedules with changed failures due for evaluation; see
// alert.ExpectationStore.
func (s *Store) WakeFailures(ctx context.Context, now time.Time, limit int) error {
	var changed flag // mostly nothing has: then no writer has to wait
	err := s.readers.query(ctx, sqlAnyFailureChanged, func(scan scan) error { return scan(&changed) }, now.UnixMicro())
	if err == nil && bool(changed) {
		err = s.write(ctx, func(ctx context.Context, t tx) error {
			for _, statement := range []string{sqlExpectFailures, sqlWakeFailures} {
				if _, err := t.exec(ctx, statement, now.UnixMicro(), limit); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("wake judgements of failures: %w", err)
	}
	return nil
}

// readCaseFailures adds how the schedules fail; see schedule.ReadCaseFailures.
func readCaseFailures(ctx context.Context, t tx, _ *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	return schedule.ReadCaseFailures(cases, func(ids []string) (map[string]*schedule.Failure, error) {
		return dialect.FailuresOf(ctx, queries{t}, ids)
	})
}
