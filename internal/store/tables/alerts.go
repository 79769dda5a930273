package tables

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

func alertFields(a *schedule.Alert) []any {
	return []any{
		&a.AlertID, &a.ScheduleID, &a.WorkflowID, &a.UserID, &a.Kind, &a.Revision, &a.LimitMS, &a.Cause, &a.Late,
		&a.FirstSlot, &a.LastSlot, &a.Deadline, &a.OpenedAt, &a.ClosedAt, &a.Resolution, &a.NotifiedAt,
		&a.AckedAt, &a.AckedBy, &a.AckNote, &a.Targets, &a.RunKey, &a.Detail,
	}
}

// AlertsWith returns those of the alerts that exist.
func (d *Dialect) AlertsWith(ctx context.Context, q Queries, ids []string) ([]schedule.Alert, error) {
	alerts, err := collect(ctx, q, alertFields, d.AlertsByID, ids)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return alerts, nil
}

// ListAlerts returns alerts, the newest opened first.
func (t *Tables) ListAlerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error) {
	f.Limit = schedule.PageSize(f.Limit)
	list := t.dialect.ListAlerts(&f)
	alerts, err := collect(ctx, t.read, alertFields, list.Statement, list.Args...)
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	return alerts, nil
}

// GetAlert returns one alert, or schedule.ErrNotFound.
func (t *Tables) GetAlert(ctx context.Context, alertID string) (*schedule.Alert, error) {
	alerts, err := t.dialect.AlertsWith(ctx, t.read, []string{alertID})
	if err == nil && len(alerts) == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("alert %s: %w", schedule.Quote(alertID), err)
	}
	return &alerts[0], nil
}

// AckAlert acknowledges an alert; the first acknowledgement stays.
func (t *Tables) AckAlert(ctx context.Context, ack schedule.AlertAck) error {
	err := t.write(ctx, func(ctx context.Context, q Queries) error {
		n, err := q.Exec(ctx, sqlAckAlert, ack.AlertID, ack.Now, ack.By, ack.Note)
		if err == nil && n == 0 {
			err = schedule.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge alert %s: %w", schedule.Quote(ack.AlertID), err)
	}
	return nil
}

func expectationFields(e *schedule.ExpectationState) []any {
	return []any{
		&e.ScheduleID, &e.Kind, &e.Status, &e.LimitMS, &e.Late, &e.LateSince, &e.WatchedSince, &e.JudgedUntil, &e.MetAt,
		&e.AlertID, &e.JudgeAt, &e.JudgedAt,
	}
}

// Expectations reads the rows of a statement as cases to evaluate.
func Expectations(ctx context.Context, q Queries, statement string, args ...any) ([]schedule.ExpectationCase, error) {
	cases, err := collect(ctx, q, func(c *schedule.ExpectationCase) []any { return expectationFields(&c.State) }, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read expectations: %w", err)
	}
	return cases, nil
}

// ListExpectations returns the states of one schedule, in order of kind.
func (t *Tables) ListExpectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error) {
	states, err := collect(ctx, t.read, expectationFields, t.dialect.ExpectationsOf, scheduleID)
	if err != nil {
		return nil, fmt.Errorf("list expectations: %w", err)
	}
	return states, nil
}

// UnmetExpectations counts the late and alerting expectations by kind.
func (t *Tables) UnmetExpectations(ctx context.Context) (map[schedule.ExpectationKind]int, error) {
	var (
		kind  schedule.ExpectationKind
		count int
		unmet = make(map[schedule.ExpectationKind]int)
	)
	err := t.read.Each(ctx, sqlUnmetExpectations, []any{&kind, &count}, func(bad error) error {
		unmet[kind] = count
		return bad
	})
	if err != nil {
		return nil, fmt.Errorf("count unmet expectations: %w", err)
	}
	return unmet, nil
}

// WriteVerdicts writes what an evaluation says, with its messages.
func (d *Dialect) WriteVerdicts(ctx context.Context, q Queries, verdicts []schedule.ExpectationVerdict) error {
	calls := append([]Call{}, d.NoticesLock...)
	for i := range verdicts {
		v := &verdicts[i]
		e := &v.State
		if v.Drop {
			calls = append(calls, Call{sqlDropExpectation, []any{e.ScheduleID, e.Kind}})
		} else {
			calls = append(calls, Call{sqlSaveExpectation, []any{
				e.ScheduleID, e.Kind, e.Status, int64(e.LimitMS), e.Late, e.LateSince, e.WatchedSince, e.JudgedUntil, e.MetAt,
				orNull(e.AlertID), e.JudgeAt, e.JudgedAt,
			}})
		}
		for _, a := range v.Alerts {
			calls = append(calls, Call{sqlSaveAlert, []any{
				a.AlertID, a.ScheduleID, a.WorkflowID, a.UserID, a.Kind, a.Revision, int64(a.LimitMS), a.Cause, a.Late,
				a.FirstSlot, a.LastSlot, a.Deadline, a.OpenedAt, a.ClosedAt, orNull(a.Resolution), a.NotifiedAt, a.Targets, a.RunKey, orNull(a.Detail),
			}})
		}
		for i := range v.Deliveries {
			calls = append(calls, d.insertDelivery(&v.Deliveries[i]))
		}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}
