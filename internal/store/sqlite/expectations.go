package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
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
			states, err := readExpectations(ctx, t, sqlDueExpectations, req.Now.UnixMicro(), req.Limit)
			judged = len(states)
			if err != nil {
				return err
			}
			cases := make([]schedule.ExpectationCase, len(states))
			for i := range states {
				cases[i].State = states[i]
			}
			if err := readCases(ctx, t, &req, cases); err != nil {
				return err
			}
			for _, v := range decide(cases) {
				if err := writeVerdict(ctx, t, &v); err != nil {
					return fmt.Errorf("%s of %s: %w", v.State.Kind, v.State.ScheduleID, err)
				}
			}
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("judge expectations: %w", err)
	}
	return judged, nil
}

func readExpectations(ctx context.Context, q querier, statement string, args ...any) (states []schedule.ExpectationState, err error) {
	var (
		id, kind, status, alertID                  text
		limit, late                                number
		lateSince, watched, until, met, at, judged instant
	)
	err = q.query(ctx, statement, func(scan scan) error {
		err := scan(&id, &kind, &status, &limit, &late, &lateSince, &watched, &until, &met, &alertID, &at, &judged)
		states = append(states, schedule.ExpectationState{
			ScheduleID: string(id), Kind: schedule.ExpectationKind(kind), Status: schedule.ExpectationStatus(status),
			LimitMS: uint32(limit), Late: int64(late), LateSince: lateSince.Time, WatchedSince: watched.Time,
			JudgedUntil: until.Time, MetAt: met.Time, AlertID: string(alertID), JudgeAt: at.Time, JudgedAt: judged.Time,
		})
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read expectations: %w", err)
	}
	return states, nil
}

func writeVerdict(ctx context.Context, t tx, v *schedule.ExpectationVerdict) (err error) {
	if e := &v.State; v.Drop {
		_, err = t.exec(ctx, sqlDropExpectation, e.ScheduleID, string(e.Kind))
	} else {
		_, err = t.exec(ctx, sqlSaveExpectation, e.ScheduleID, string(e.Kind), string(e.Status), int64(e.LimitMS), e.Late, micros(e.LateSince),
			micros(e.WatchedSince), micros(e.JudgedUntil), micros(e.MetAt), word(e.AlertID), micros(e.JudgeAt), micros(e.JudgedAt))
	}
	for i := 0; err == nil && i < len(v.Alerts); i++ {
		a := &v.Alerts[i]
		_, err = t.exec(ctx, sqlSaveAlert, a.AlertID, a.ScheduleID, a.WorkflowID, a.UserID, string(a.Kind), a.Revision, int64(a.LimitMS),
			string(a.Cause), a.Late, micros(a.FirstSlot), micros(a.LastSlot), micros(a.Deadline), micros(a.OpenedAt), micros(a.ClosedAt),
			word(a.Resolution), micros(a.NotifiedAt), a.Targets, keyArg(a.RunKey), word(a.Detail))
	}
	if err != nil {
		return err
	}
	return insertDeliveries(ctx, t, v.Deliveries)
}

// UnmetExpectations counts the late and alerting expectations by kind.
func (s *Store) UnmetExpectations(ctx context.Context) (map[schedule.ExpectationKind]int, error) {
	var (
		kind  text
		n     number
		unmet = make(map[schedule.ExpectationKind]int)
	)
	err := s.readers.query(ctx, sqlUnmetExpectations, func(scan scan) error {
		err := scan(&kind, &n)
		unmet[schedule.ExpectationKind(kind)] = int(n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count unmet expectations: %w", err)
	}
	return unmet, nil
}

// ListExpectations returns the states of one schedule, in order of kind.
func (s *Store) ListExpectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error) {
	return readExpectations(ctx, s.readers, sqlExpectationsOf, scheduleID)
}
