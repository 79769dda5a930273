package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// The facts of all expectations are read at once: one statement for each would cost three
// times the rest of an evaluation, and the write lock is held meanwhile.

// readCases reads the facts of each expectation. It leaves out missing schedules; of an
// unreadable row it returns the readable fields.
func readCases(ctx context.Context, t tx, req *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	for _, read := range []func(context.Context, tx, *schedule.EvaluateRequest, []schedule.ExpectationCase) error{
		readJudgedSchedules, readRareFacts, readCasePauses, readSlotRuns, readCaseFailures,
	} {
		if err := read(ctx, t, req, cases); err != nil {
			return err
		}
	}
	return nil
}

func readJudgedSchedules(ctx context.Context, t tx, _ *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	at, ids := schedule.CasesBySchedule(cases, func(*schedule.ExpectationCase) bool { return true })
	rows, err := readSchedules(ctx, t, sqlSchedules, list(ids))
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	for i := range rows {
		for _, place := range at[rows[i].ScheduleID] {
			cases[place].Schedule, cases[place].Unreadable = &rows[i].Schedule, rows[i].problem
		}
	}
	return nil
}

// readRareFacts reads facts that few expectations have: an open alert, an edit since the
// last evaluation, a promise of success.
func readRareFacts(ctx context.Context, t tx, req *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	for i := range cases {
		c := &cases[i]
		if c.State.AlertID != "" {
			alerts, err := dialect.AlertsWith(ctx, queries{t}, []string{c.State.AlertID})
			if err != nil {
				return err
			}
			if len(alerts) > 0 {
				c.Alert = &alerts[0]
			}
		}
		if c.Judgeable() && c.Schedule.RevisedAt.After(c.State.JudgedUntil) {
			if err := readCaseRevisions(ctx, t, req.MaxHistory, c); err != nil {
				return fmt.Errorf("read revisions of %s: %w", c.State.ScheduleID, err)
			}
		}
		if c.Judgeable() && c.State.Kind == schedule.ExpectSuccess {
			var ended instant
			err := t.query(ctx, sqlLastSuccess, func(scan scan) error { return scan(&ended) },
				c.State.ScheduleID, c.SuccessFrom().UnixMicro(), req.Now.UnixMicro())
			if err != nil {
				return fmt.Errorf("read the last success of %s: %w", c.State.ScheduleID, err)
			}
			c.LastSuccess = ended.Time
		}
	}
	return nil
}

func readCaseRevisions(ctx context.Context, t tx, limit int, c *schedule.ExpectationCase) error {
	var (
		of  number
		raw text
		at  instant
	)
	return t.query(ctx, sqlNewestRevisions, func(scan scan) error {
		if err := scan(&of, &raw, &at); err != nil {
			return err
		}
		d, problem := revision.Decode(string(raw))
		if problem != nil {
			c.Unreadable = fmt.Errorf("revision %d of %s: %w", of, c.State.ScheduleID, problem)
			return nil
		}
		c.Revisions = append(c.Revisions, schedule.Revision{
			ScheduleID: c.State.ScheduleID, Revision: int64(of), Definition: *d, CreatedAt: at.Time,
		})
		return nil
	}, c.State.ScheduleID, limit)
}

// readCasePauses reads the pauses of schedules that were ever paused.
func readCasePauses(ctx context.Context, t tx, req *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	at, ids := schedule.CasesBySchedule(cases, (*schedule.ExpectationCase).Judgeable)
	var paused []string
	err := t.query(ctx, sqlPausedAtAll, func(scan scan) error {
		var id text
		err := scan(&id)
		paused = append(paused, string(id))
		return err
	}, list(ids))
	for i := 0; err == nil && i < len(paused); i++ {
		var events []schedule.Event
		events, err = tables.Events(ctx, queries{t}, sqlPauses, paused[i], req.MaxHistory)
		slices.Reverse(events)
		for _, place := range at[paused[i]] {
			cases[place].Pauses = events
		}
	}
	if err != nil {
		return fmt.Errorf("read pauses: %w", err)
	}
	return nil
}

// runsOfCase is the average number of runs of a case that are read in one statement: a
// recently evaluated case has one. If there are more, each case is read by itself, up to
// its bound.
const runsOfCase = 8

// slotsAfter asks for the runs of one schedule behind an instant.
type slotsAfter struct {
	ScheduleID string `json:"s"`
	After      int64  `json:"a"`
	Place      int    `json:"p"`
}

func readSlotRuns(ctx context.Context, t tx, req *schedule.EvaluateRequest, cases []schedule.ExpectationCase) error {
	var wanted []slotsAfter
	for i := range cases {
		c := &cases[i]
		if !c.Judgeable() || !c.State.Kind.OfSlots() {
			continue
		}
		wanted = append(wanted, slotsAfter{c.State.ScheduleID, c.State.JudgedUntil.UnixMicro(), i})
		if c.Alert == nil {
			continue
		}
		if _, err := slotRuns(ctx, t, c, sqlRunsOfSlot, c.State.ScheduleID, c.Alert.LastSlot.UnixMicro()); err != nil {
			return err
		}
	}
	whole, err := readSlotRunsAtOnce(ctx, t, req, cases, wanted)
	for i := 0; err == nil && !whole && i < len(wanted); i++ {
		c := &cases[wanted[i].Place]
		n := 0
		n, err = slotRuns(ctx, t, c, sqlRunsOfSlots, c.State.ScheduleID, wanted[i].After, req.Now.UnixMicro(), req.MaxRuns)
		if err == nil && n == req.MaxRuns {
			c.RunsUntil = c.Runs[len(c.Runs)-1].RunAt
		}
	}
	return err
}

// readSlotRunsAtOnce returns false and leaves the cases unchanged if there are too many
// runs for one answer.
func readSlotRunsAtOnce(ctx context.Context, t tx, req *schedule.EvaluateRequest, cases []schedule.ExpectationCase, wanted []slotsAfter) (whole bool, err error) {
	if len(wanted) == 0 {
		return true, nil
	}
	asked, err := json.Marshal(wanted)
	if err != nil {
		return false, err
	}
	limit := min(runsOfCase*len(wanted), req.MaxRuns)
	found := make(map[int][]schedule.SlotRun)
	n := 0
	var row slotRunRow
	var place number
	columns := append([]any{&place}, row.columns()...)
	err = t.query(ctx, sqlRunsOfManySlots, func(scan scan) error {
		err := scan(columns...)
		n++
		found[int(place)] = append(found[int(place)], row.run())
		return err
	}, string(asked), req.Now.UnixMicro(), limit)
	if err != nil {
		return false, fmt.Errorf("read runs of slots: %w", err)
	}
	if n >= limit {
		return false, nil
	}
	for i, runs := range found {
		slices.SortStableFunc(runs, func(a, b schedule.SlotRun) int { return a.RunAt.Compare(b.RunAt) })
		cases[i].Runs = append(cases[i].Runs, runs...)
	}
	return true, nil
}

// slotRuns adds the runs of a statement to a case.
func slotRuns(ctx context.Context, t tx, c *schedule.ExpectationCase, statement string, args ...any) (n int, err error) {
	var row slotRunRow
	columns := row.columns()
	err = t.query(ctx, statement, func(scan scan) error {
		err := scan(columns...)
		n++
		c.Runs = append(c.Runs, row.run())
		return err
	}, args...)
	if err != nil {
		return n, fmt.Errorf("read runs of slots of %s: %w", c.State.ScheduleID, err)
	}
	return n, nil
}

// slotRunRow belongs to openSlotColumns and endedSlotColumns.
type slotRunRow struct {
	status                                       status
	reason                                       text
	runAt, claimed, launched, started, completed instant
}

func (r *slotRunRow) columns() []any {
	return []any{&r.runAt, &r.status, &r.reason, &r.claimed, &r.launched, &r.started, &r.completed}
}

func (r *slotRunRow) run() schedule.SlotRun {
	return schedule.SlotRun{
		RunAt: r.runAt.Time, Status: schedule.Status(r.status), Reason: schedule.Reason(r.reason),
		ClaimedAt: r.claimed.Time, LaunchedAt: r.launched.Time, StartedAt: r.started.Time, CompletedAt: r.completed.Time,
	}
}
