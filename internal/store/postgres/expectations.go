package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// wakeExpectations makes the expectations of changed schedules due for evaluation.
func wakeExpectations(ctx context.Context, tx pgx.Tx, touched []schedule.ExpectationID, now time.Time) error {
	if len(touched) == 0 {
		return nil
	}
	type id = schedule.ExpectationID
	_, err := tx.Exec(ctx, sqlWakeExpectations,
		column(touched, func(e *id) string { return e.ScheduleID }),
		column(touched, func(e *id) string { return string(e.Kind) }), now)
	if err != nil {
		return fmt.Errorf("wake expectations: %w", err)
	}
	return nil
}

// EvaluateExpectations locks due expectations, gives them to decide and writes its verdicts
// with their messages; see alert.ExpectationStore.
func (s *Store) EvaluateExpectations(ctx context.Context, req schedule.EvaluateRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (judged int, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		cases, err := tables.Expectations(ctx, queries{tx}, sqlDueExpectations, req.Now, req.Limit)
		judged = len(cases)
		if err != nil || judged == 0 {
			return err
		}
		for _, read := range []func(context.Context, pgx.Tx, schedule.EvaluateRequest, []schedule.ExpectationCase) error{
			readJudgedSchedules, readOpenAlerts, readCaseRevisions, readCasePauses, readSlotRuns, readSuccesses, readCaseFailures,
		} {
			if err := read(ctx, tx, req, cases); err != nil {
				return err
			}
		}
		return dialect.WriteVerdicts(ctx, queries{tx}, decide(cases))
	})
	if err != nil {
		return 0, fmt.Errorf("judge expectations: %w", err)
	}
	return judged, nil
}

// readJudgedSchedules leaves out missing schedules. Of an unreadable row it returns the
// readable fields.
func readJudgedSchedules(ctx context.Context, tx pgx.Tx, _ schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	at, ids := schedule.CasesBySchedule(cases, func(*schedule.ExpectationCase) bool { return true })
	err := tables.EachSchedule(ctx, queries{tx}, func(s schedule.Schedule, problem error) error {
		for _, i := range at[s.ScheduleID] {
			cases[i].Schedule, cases[i].Unreadable = &s, problem
		}
		return nil
	}, sqlReadSchedules, ids)
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	return nil
}

func readOpenAlerts(ctx context.Context, tx pgx.Tx, _ schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	open := make(map[string]int)
	var ids []string
	for i := range cases {
		if id := cases[i].State.AlertID; id != "" {
			open[id] = i
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	alerts, err := dialect.AlertsWith(ctx, queries{tx}, ids)
	for i := range alerts {
		cases[open[alerts[i].AlertID]].Alert = &alerts[i]
	}
	return err
}

// readCaseRevisions reads the revisions of schedules that were edited since the last
// evaluation.
func readCaseRevisions(ctx context.Context, tx pgx.Tx, req schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	at, ids := schedule.CasesBySchedule(cases, func(c *schedule.ExpectationCase) bool {
		return c.Judgeable() && c.Schedule.RevisedAt.After(c.State.JudgedUntil)
	})
	if len(ids) == 0 {
		return nil
	}
	var (
		v   schedule.Revision
		raw string
		on  pgtype.Timestamptz
	)
	err := each(ctx, tx, []any{&v.ScheduleID, &v.Revision, &raw, &on}, func() error {
		d, problem := revision.Decode(raw)
		for _, i := range at[v.ScheduleID] {
			if problem != nil {
				cases[i].Unreadable = fmt.Errorf("revision %d of %s: %w", v.Revision, v.ScheduleID, problem)
				continue
			}
			v.Definition, v.CreatedAt = *d, on.Time.UTC()
			cases[i].Revisions = append(cases[i].Revisions, v)
		}
		return nil
	}, sqlNewestRevisions, ids, req.MaxHistory)
	if err != nil {
		return fmt.Errorf("read revisions: %w", err)
	}
	return nil
}

func readCasePauses(ctx context.Context, tx pgx.Tx, req schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	at, ids := schedule.CasesBySchedule(cases, (*schedule.ExpectationCase).Judgeable)
	if len(ids) == 0 {
		return nil
	}
	events, err := tables.Events(ctx, queries{tx}, sqlPauses, ids, req.MaxHistory)
	if err != nil {
		return fmt.Errorf("read pauses: %w", err)
	}
	for _, event := range events {
		for _, i := range at[event.ScheduleID] {
			cases[i].Pauses = append(cases[i].Pauses, event)
		}
	}
	return nil
}

func readSlotRuns(ctx context.Context, tx pgx.Tx, req schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	var (
		wanted       []int32
		ids          []string
		after, again []pgtype.Timestamptz
	)
	for i := range cases {
		c := &cases[i]
		if !c.Judgeable() || !c.State.Kind.OfSlots() {
			continue
		}
		last := pgtype.Timestamptz{}
		if c.Alert != nil {
			last = noneOrTime(c.Alert.LastSlot)
		}
		wanted, ids = append(wanted, int32(i)), append(ids, c.State.ScheduleID)
		after, again = append(after, noneOrTime(c.State.JudgedUntil)), append(again, last)
	}
	if len(wanted) == 0 {
		return nil
	}
	var (
		place                                        int32
		r                                            schedule.SlotRun
		reason                                       pgtype.Text
		runAt, claimed, launched, started, completed pgtype.Timestamptz
		fresh                                        = make([]int, len(cases))
	)
	err := each(ctx, tx, []any{&place, &runAt, &r.Status, &reason, &claimed, &launched, &started, &completed}, func() error {
		var d decoding
		r.RunAt, r.Reason = d.time("run_at", runAt), schedule.Reason(reason.String)
		r.ClaimedAt, r.LaunchedAt = d.time("claimed_at", claimed), d.time("launched_at", launched)
		r.StartedAt, r.CompletedAt = d.time("started_at", started), d.time("completed_at", completed)
		c := &cases[place]
		c.Runs = append(c.Runs, r)
		if r.RunAt.After(c.State.JudgedUntil) {
			if fresh[place]++; fresh[place] == req.MaxRuns {
				c.RunsUntil = r.RunAt
			}
		}
		return d.err
	}, sqlRunsOfSlots, wanted, ids, after, again, req.Now, req.MaxRuns)
	if err != nil {
		return fmt.Errorf("read runs of slots: %w", err)
	}
	return nil
}

func readSuccesses(ctx context.Context, tx pgx.Tx, req schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	var (
		wanted []int32
		ids    []string
		since  []time.Time
	)
	for i := range cases {
		if c := &cases[i]; c.Judgeable() && c.State.Kind == schedule.ExpectSuccess {
			wanted, ids, since = append(wanted, int32(i)), append(ids, c.State.ScheduleID), append(since, c.SuccessFrom())
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var (
		place int32
		ended pgtype.Timestamptz
	)
	err := each(ctx, tx, []any{&place, &ended}, func() error {
		if ended.Valid {
			cases[place].LastSuccess = ended.Time.UTC()
		}
		return nil
	}, sqlLastSuccesses, wanted, ids, since, req.Now)
	if err != nil {
		return fmt.Errorf("read last successes: %w", err)
	}
	return nil
}
