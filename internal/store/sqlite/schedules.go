package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeSchedules reads the named schedules, tombstones included, gives them to decide
// and writes its decision, in one transaction. An error of decide writes nothing and
// comes back as it is.
func (s *Store) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	var refused error
	var wakes bool
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		refused = nil
		if err := dialect.BeginDeploy(ctx, queries{t}, &req); err != nil {
			return err
		}
		ids, err := askedFor(ctx, t, req)
		if err != nil {
			return err
		}
		inputs, err := changeInputs(ctx, t, ids, &req)
		if err != nil {
			return err
		}
		changes, touched, err := schedule.Decide(inputs, decide)
		if err != nil {
			refused = err
			return err
		}
		wakes = false
		exists := make(map[string]bool, len(ids))
		for i, id := range ids {
			exists[id] = inputs[i].Schedule != nil
		}
		for i := range changes {
			c := &changes[i]
			wakes = wakes || len(c.Runs) > 0 // all else is for the planner, which comes at its tick
			existed, asked := exists[c.ScheduleID]
			if !asked {
				return fmt.Errorf("a change of schedule %q, which was not asked for", c.ScheduleID)
			}
			if err := writeChange(ctx, t, c, existed); err != nil {
				return fmt.Errorf("schedule %s: %w", c.ScheduleID, err)
			}
			exists[c.ScheduleID] = true
		}
		if err := wakeExpectations(ctx, t, touched, changes); err != nil {
			return err
		}
		if refused, err = checkQuotas(ctx, t, changes, req.OwnerLimit); err != nil {
			return err
		}
		return refused
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("change schedules: %w", err)
	}
	if wakes {
		s.wakes.call()
	}
	return nil
}

// ReadSchedules is what ChangeSchedules would hand to decide.
func (s *Store) ReadSchedules(ctx context.Context, req schedule.ChangeRequest) ([]schedule.ChangeInput, error) {
	ids, err := askedFor(ctx, s.readers, req)
	if err != nil {
		return nil, err
	}
	return changeInputs(ctx, s.readers, ids, &req)
}

// askedFor returns the ids that a change names, then those of its managed schedules.
func askedFor(ctx context.Context, q querier, req schedule.ChangeRequest) ([]string, error) {
	if req.Managed.By == "" {
		return req.ScheduleIDs, nil
	}
	named := make(map[string]bool, len(req.ScheduleIDs))
	for _, id := range req.ScheduleIDs {
		named[id] = true
	}
	asked := slices.Clone(req.ScheduleIDs)
	var id string
	err := q.query(ctx, sqlManaged, func(scan scan) error {
		if err := scan(&id); err != nil {
			return err
		}
		if !named[id] {
			asked = append(asked, id)
		}
		return nil
	}, req.Managed.By, req.Managed.UserID)
	if err != nil {
		return nil, fmt.Errorf("find what %s manages: %w", req.Managed.By, err)
	}
	return asked, nil
}

// changeInputs are one per id, in the order of the ids. A row that cannot be
// read whole comes as far as it can be: changing or deleting it is the way out.
func changeInputs(ctx context.Context, q querier, ids []string, req *schedule.ChangeRequest) ([]schedule.ChangeInput, error) {
	rows, err := readSchedules(ctx, q, sqlSchedules, list(ids))
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	byID := make(map[string]schedule.Schedule, len(rows))
	for i := range rows {
		byID[rows[i].ScheduleID] = rows[i].Schedule
	}
	inputs := make([]schedule.ChangeInput, len(ids))
	for i, id := range ids {
		row, ok := byID[id]
		if !ok {
			continue
		}
		inputs[i].Schedule = &row
		if err := attachPlanned(ctx, q, &row); err != nil {
			return nil, err
		}
		if !req.CountInFlight {
			continue
		}
		if inputs[i].InFlight, err = countInFlight(ctx, q, row.QualifiedOverlapKey()); err != nil {
			return nil, err
		}
	}
	return inputs, dialect.AttachFacts(ctx, queries{q}, req, inputs)
}

// attachPlanned adds the slots that have a row to an open backlog.
func attachPlanned(ctx context.Context, q querier, s *schedule.Schedule) error {
	if !s.Backlog.Open() {
		return nil
	}
	var runAt int64
	err := q.query(ctx, sqlPlanned, func(scan scan) error {
		if err := scan(&runAt); err != nil {
			return err
		}
		s.Planned = append(s.Planned, time.UnixMicro(runAt).UTC())
		return nil
	}, s.ScheduleID, micros(s.Backlog.From), micros(s.NextRunAt))
	if err != nil {
		return fmt.Errorf("read what is planned since the backlog of %s began: %w", s.ScheduleID, err)
	}
	return nil
}

func countInFlight(ctx context.Context, q querier, overlapKey string) (n int, err error) {
	err = q.query(ctx, sqlCountInFlight, func(scan scan) error { return scan(&n) }, overlapKey)
	if err != nil {
		return 0, fmt.Errorf("count runs in flight of %s: %w", overlapKey, err)
	}
	return n, nil
}

// writeChange writes one change. A schedule that did not exist has no runs and was in no bucket.
func writeChange(ctx context.Context, t tx, c *schedule.Change, existed bool) error {
	if c.Row != nil {
		if existed {
			if err := noteBuckets(ctx, t, c); err != nil {
				return err
			}
		}
		if err := writeSchedule(ctx, t, c); err != nil {
			return err
		}
		if err := giveWorkflow(ctx, t, c); err != nil {
			return err
		}
		if err := dialect.Subscribe(ctx, queries{t}, []schedule.Change{*c}, func(string) bool { return existed }); err != nil {
			return err
		}
	}
	if existed && ledger.ChangesPlanned(c) {
		if err := changePlanned(ctx, t, c); err != nil {
			return err
		}
	}
	if _, err := insertRuns(ctx, t, c.Runs, c.Now); err != nil {
		return err
	}
	if err := t.insertEvents(ctx, c.ScheduleID, c.Events, c.Now); err != nil {
		return err
	}
	return t.insertAudit(ctx, c.Audit, c.Now)
}

// changePlanned drops and ends planned runs of a schedule, as its change says.
func changePlanned(ctx context.Context, t tx, c *schedule.Change) error {
	rows, err := readOpenRows(ctx, t, sqlPlannedOf, c.ScheduleID)
	if err != nil {
		return err
	}
	var dropped []schedule.Key
	var ended []*openRow
	for _, r := range rows {
		drop, end := ledger.ChangePlanned(c, &r.Run)
		if drop {
			dropped = append(dropped, r.Key)
			t.changed.run(runEnded, r.Key, schedule.Bucket(r.OverlapKey))
		}
		if end != nil && r.settle(end, c.Now) {
			ended = append(ended, r)
		}
	}
	if len(dropped) > 0 {
		if _, err := t.exec(ctx, sqlDropPlanned, keyList(dropped)); err != nil {
			return fmt.Errorf("drop planned runs: %w", err)
		}
	}
	return endRuns(ctx, t, ended, c.Now)
}

// noteBuckets notes the change for the leaders of its old and its new bucket.
func noteBuckets(ctx context.Context, t tx, c *schedule.Change) error {
	err := t.query(ctx, sqlScheduleBucket, func(scan scan) error {
		var before int
		err := scan(&before)
		t.changed.schedule(c.ScheduleID, before, schedule.Bucket(c.Row.QualifiedOverlapKey()))
		return err
	}, c.ScheduleID)
	if err != nil {
		return fmt.Errorf("read its bucket: %w", err)
	}
	return nil
}

func writeSchedule(ctx context.Context, t tx, c *schedule.Change) error {
	args, err := scheduleArgs(c.Row, c.Now)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, sqlUpsertSchedule, args...); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	if ledger.ForgetsFailures(c) {
		if _, err := t.exec(ctx, sqlDropFailures, list([]string{c.ScheduleID})); err != nil {
			return fmt.Errorf("forget its failures: %w", err)
		}
	}
	if !c.NewRevision {
		return nil
	}
	definition, err := revision.Encode(&c.Row.Definition)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, sqlInsertRevision, c.Row.ScheduleID, c.Row.Revision, definition, c.Row.WorkflowID,
		int64(c.Row.Version), c.Row.UserID, word(c.ChangedBy), either(c.Row.RevisedAt, c.Now).UnixMicro())
	if err != nil {
		return fmt.Errorf("write revision %d: %w", c.Row.Revision, err)
	}
	return nil
}

// GetSchedule is the row, tombstones included.
func (s *Store) GetSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return s.getSchedule(ctx, sqlGetSchedule, scheduleID)
}

// PeekSchedule is GetSchedule with last_run_at as it was last written.
func (s *Store) PeekSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return s.getSchedule(ctx, sqlPeekSchedule, scheduleID)
}

func (s *Store) getSchedule(ctx context.Context, statement, scheduleID string) (*schedule.Schedule, error) {
	rows, err := readSchedules(ctx, s.readers, statement, scheduleID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("get schedule %s: %w", scheduleID, err)
	case len(rows) == 0:
		return nil, fmt.Errorf("get schedule %s: %w", scheduleID, schedule.ErrNotFound)
	case rows[0].problem != nil:
		return nil, fmt.Errorf("get schedule %s: %w", scheduleID, rows[0].problem)
	}
	return &rows[0].Schedule, nil
}

// ListSchedules returns schedules in order of schedule_id, without tombstones.
func (s *Store) ListSchedules(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error) {
	return tables.ListSchedules(ctx, queries{s.readers}, s.log, f, func(f *schedule.ScheduleFilter) tables.Call {
		q := conditions{args: []any{f.After}}
		q.add(f.Failing, sqlWhereFailing)
		q.addSchedules(f, s.Now())
		list := sqlListSchedules
		if f.OmitDetails {
			list = leanSchedules
		}
		return q.list(list, sqlListSchedulesOrder, f.Limit)
	})
}

// leanSchedules is sqlListSchedules without what ScheduleFilter.OmitDetails leaves out.
var leanSchedules = strings.NewReplacer("s.input,", "NULL,", "s.labels,", "NULL,", lastRun, "NULL").Replace(sqlListSchedules)

func (c *conditions) addSchedules(f *schedule.ScheduleFilter, now time.Time) {
	c.add(f.UserID != "", sqlWhereUser, f.UserID)
	c.add(f.WorkflowID != "", sqlWhereWorkflow, f.WorkflowID)
	c.add(f.ManagedBy != "", sqlWhereManagedBy, f.ManagedBy)
	c.add(f.ManagedBy == "", sqlNotOfQueue)
	c.add(f.GrantID != "", sqlWhereGrant, f.GrantID)
	c.add(f.LabelKey != "" && f.LabelValue == "", sqlWhereLabel, f.LabelKey)
	c.add(f.LabelKey != "" && f.LabelValue != "", sqlWhereLabelValue, f.LabelKey, f.LabelValue)
	text := schedule.FoldText(f.Text)
	c.add(f.Text != "", sqlWhereText, text, text)
	at := either(f.Now, now).UnixMicro()
	c.add(f.State == schedule.StatePaused, sqlWherePaused, at)
	c.add(f.State == schedule.StateExhausted, sqlWhereExhausted, at)
	c.add(f.State == schedule.StateActive, sqlWhereActive, at)
}

// conditions are those of a list's filters, with their arguments.
type conditions struct {
	where strings.Builder
	args  []any
}

// list is a list's statement, with a page's size.
func (c *conditions) list(selected, order string, limit int) tables.Call {
	return tables.Call{Statement: selected + c.where.String() + order, Args: append(c.args, limit)}
}

func (c *conditions) add(set bool, condition string, args ...any) {
	if set {
		c.where.WriteString(condition)
		c.args = append(c.args, args...)
	}
}
