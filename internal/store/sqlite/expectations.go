package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// wakeExpectations makes the expectations of changed schedules due for evaluation.
func wakeExpectations(ctx context.Context, t tx, touched []schedule.ExpectationID, changes []schedule.Change) error {
	for _, e := range touched {
		if _, err := t.exec(ctx, sqlWakeExpectation, e.ScheduleID, string(e.Kind), changes[0].Now.UnixMicro()); err != nil {
			return fmt.Errorf("wake expectation %s of %s: %w", e.Kind, e.ScheduleID, err)
		}
	}
	return nil
}

// EvaluateExpectations gives due expectations to decide and writes its verdicts with their
// messages, in one transaction; see alert.ExpectationStore.
func (s *Store) EvaluateExpectations(ctx context.Context, req schedule.EvaluateRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (judged int, err error) {
	due := false // mostly nothing is: then no writer has to wait
	err = s.readers.query(ctx, sqlAnyExpectationDue, func(scan scan) error { return scan(&due) }, req.Now.UnixMicro())
	if err == nil && due {
		err = s.write(ctx, func(ctx context.Context, t tx) error {
			cases, err := tables.Expectations(ctx, queries{t}, sqlDueExpectations, req.Now, req.Limit)
			judged = len(cases)
			if err != nil {
				return err
			}
			if err := readCases(ctx, t, &req, cases); err != nil {
				return err
			}
			return dialect.WriteVerdicts(ctx, queries{t}, decide(cases))
		})
	}
	if err != nil {
		return 0, fmt.Errorf("judge expectations: %w", err)
	}
	return judged, nil
}
