package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// wakeExpectations has expectations judged anew whose schedule has changed.
func wakeExpectations(ctx context.Context, t tx, touched []schedule.ExpectationID, changes []schedule.Change) error {
	for _, e := range touched {
		if _, err := t.exec(ctx, sqlWakeExpectation, e.ScheduleID, string(e.Kind), changes[0].Now.UnixMicro()); err != nil {
			return fmt.Errorf("wake expectation %s of %s: %w", e.Kind, e.ScheduleID, err)
		}
	}
	return nil
}

// JudgeExpectations hands those that are due to decide and writes its verdicts
// with their messages, in one transaction; see alert.JudgeStore.
func (s *Store) JudgeExpectations(ctx context.Context, req schedule.JudgeRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (judged int, err error) {
	due := false // mostly nothing is, and then nobody need wait for this write
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
				if err := readCase(ctx, t, &req, &cases[i]); err != nil {
					return fmt.Errorf("%s of %s: %w", states[i].Kind, states[i].ScheduleID, err)
				}
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

// readCase reads what one expectation is judged on. A schedule that is gone is
// left out; one that cannot be read comes as far as it can be.
func readCase(ctx context.Context, t tx, req *schedule.JudgeRequest, c *schedule.ExpectationCase) error {
	rows, err := readSchedules(ctx, t, sqlGetSchedule, c.State.ScheduleID)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		c.Schedule, c.Unreadable = &rows[0].Schedule, rows[0].problem
	}
	if c.State.AlertID != "" {
		alerts, err := readAlerts(ctx, t, sqlGetAlert, c.State.AlertID)
		if err != nil {
			return err
		}
		if len(alerts) > 0 {
			c.Alert = &alerts[0]
		}
	}
	if c.Schedule == nil || !c.Schedule.Alive() || c.Unreadable != nil {
		return nil
	}
	if c.Schedule.RevisedAt.After(c.State.JudgedUntil) {
		if err := readCaseRevisions(ctx, t, req.MaxHistory, c); err != nil {
			return err
		}
	}
	if err := readCasePauses(ctx, t, req.MaxHistory, c); err != nil {
		return err
	}
	if c.State.Kind == schedule.ExpectSuccess {
		var ended instant
		err := t.query(ctx, sqlLastSuccess, func(scan scan) error { return scan(&ended) },
			c.State.ScheduleID, c.SuccessFrom().UnixMicro(), req.Now.UnixMicro())
		c.LastSuccess = ended.Time
		return err
	}
	return readSlotRuns(ctx, t, req, c)
}

func readCaseRevisions(ctx context.Context, t tx, limit int, c *schedule.ExpectationCase) error {
	var (
		revision number
		raw      text
		at       instant
	)
	return t.query(ctx, sqlNewestRevisions, func(scan scan) error {
		if err := scan(&revision, &raw, &at); err != nil {
			return err
		}
		d, problem := decodeDefinition(string(raw))
		if problem != nil {
			c.Unreadable = fmt.Errorf("revision %d of %s: %w", revision, c.State.ScheduleID, problem)
			return nil
		}
		c.Revisions = append(c.Revisions, schedule.Revision{
			ScheduleID: c.State.ScheduleID, Revision: int64(revision), Definition: *d, CreatedAt: at.Time,
		})
		return nil
	}, c.State.ScheduleID, limit)
}

func readCasePauses(ctx context.Context, t tx, limit int, c *schedule.ExpectationCase) error {
	var row eventRow
	columns := row.columns()
	err := t.query(ctx, sqlPauses, func(scan scan) error {
		err := scan(columns...)
		c.Pauses = append(c.Pauses, row.event())
		return err
	}, c.State.ScheduleID, limit)
	slices.Reverse(c.Pauses)
	return err
}

func readSlotRuns(ctx context.Context, t tx, req *schedule.JudgeRequest, c *schedule.ExpectationCase) error {
	var (
		status, reason                               text
		runAt, claimed, launched, started, completed instant
	)
	add := func(scan scan) error {
		err := scan(&runAt, &status, &reason, &claimed, &launched, &started, &completed)
		c.Runs = append(c.Runs, schedule.SlotRun{
			RunAt: runAt.Time, Status: schedule.Status(status), Reason: schedule.Reason(reason),
			ClaimedAt: claimed.Time, LaunchedAt: launched.Time, StartedAt: started.Time, CompletedAt: completed.Time,
		})
		return err
	}
	if c.Alert != nil {
		if err := t.query(ctx, sqlRunsOfSlot, add, c.State.ScheduleID, c.Alert.LastSlot.UnixMicro()); err != nil {
			return err
		}
	}
	again := len(c.Runs)
	err := t.query(ctx, sqlRunsOfSlots, add, c.State.ScheduleID, c.State.JudgedUntil.UnixMicro(), req.Now.UnixMicro(), req.MaxRuns)
	if n := len(c.Runs); n-again == req.MaxRuns {
		c.RunsUntil = c.Runs[n-1].RunAt
	}
	return err
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
			word(a.Resolution), micros(a.NotifiedAt))
	}
	if err != nil {
		return err
	}
	return insertDeliveries(ctx, t, v.Deliveries)
}

// UnmetExpectations counts by kind what is late or alerting.
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

// ListExpectations are the states of one schedule, ordered by kind.
func (s *Store) ListExpectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error) {
	return readExpectations(ctx, s.readers, sqlExpectationsOf, scheduleID)
}
