package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ChangeSchedules hands the named schedules, tombstones included, to decide
// and writes what it says. An error of decide comes back as it is.
func (s *Store) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	var refused error
	err := s.write(ctx, func(t *tx) error {
		if err := t.beginDeploy(req); err != nil {
			return err
		}
		ids := s.askedFor(req)
		changes, touched, err := schedule.Decide(s.changeInputs(ids, &req), decide)
		if err != nil {
			refused = err
			return err
		}
		for i := range changes {
			if !slices.Contains(ids, changes[i].ScheduleID) {
				return fmt.Errorf("a change of schedule %q, which was not asked for", changes[i].ScheduleID)
			}
			if err := t.writeChange(&changes[i]); err != nil {
				return fmt.Errorf("schedule %s: %w", changes[i].ScheduleID, err)
			}
			t.wake = t.wake || len(changes[i].Runs) > 0
		}
		if len(touched) > 0 {
			t.wakeExpectations(touched, changes[0].Now)
		}
		refused = s.checkQuotas(changes, req.OwnerLimit)
		return refused
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("change schedules: %w", err)
	}
	return nil
}

func (s *Store) checkQuotas(changes []schedule.Change, limit int) error {
	living := make(map[string]int)
	for _, row := range s.schedules {
		if row.Alive() && !row.OfQueue() {
			living[row.UserID]++
		}
	}
	for _, owner := range schedule.Creators(changes) {
		if err := schedule.CheckQuota(owner, living[owner], limit); err != nil {
			return err
		}
	}
	return nil
}

// ReadSchedules is what ChangeSchedules would hand to decide.
func (s *Store) ReadSchedules(ctx context.Context, req schedule.ChangeRequest) (inputs []schedule.ChangeInput, err error) {
	err = s.read(ctx, func() error {
		inputs = s.changeInputs(s.askedFor(req), &req)
		return nil
	})
	return inputs, err
}

// askedFor returns the ids that a change names, then those of its managed schedules.
func (s *Store) askedFor(req schedule.ChangeRequest) []string {
	if req.Managed.By == "" {
		return req.ScheduleIDs
	}
	var more []string
	for id, row := range s.schedules {
		m := req.Managed
		if row.Alive() && row.ManagedBy == m.By && (m.UserID == "" || row.UserID == m.UserID) && !slices.Contains(req.ScheduleIDs, id) {
			more = append(more, id)
		}
	}
	slices.Sort(more)
	return append(slices.Clone(req.ScheduleIDs), more...)
}

func (s *Store) changeInputs(ids []string, req *schedule.ChangeRequest) []schedule.ChangeInput {
	inputs := make([]schedule.ChangeInput, len(ids))
	for i, id := range ids {
		row := s.schedules[id]
		if row == nil {
			continue
		}
		inputs[i].Schedule = copyOf(row)
		s.attachPlanned(inputs[i].Schedule)
		if req.CountInFlight {
			inputs[i].InFlight = s.inFlight(row.QualifiedOverlapKey())
		}
	}
	req.AttachGrants(inputs, s.grants)
	if req.Open.OverlapKey != "" {
		open := s.openOfOverlap(&req.Open)
		for i := range inputs {
			inputs[i].Open = open
		}
	}
	return inputs
}

func (t *tx) writeChange(c *schedule.Change) error {
	if c.Row != nil {
		if err := t.writeSchedule(c); err != nil {
			return err
		}
		t.giveWorkflow(c)
	}
	if ledger.ForgetsFailures(c) {
		t.putFailure(c.ScheduleID, nil)
	}
	for _, r := range slices.Collect(t.live.all()) {
		if r.ScheduleID != c.ScheduleID {
			continue
		}
		drop, end := ledger.ChangePlanned(c, r)
		if drop {
			t.noteDropped(r)
			t.remove(r)
		}
		if end != nil {
			t.settle(end, c.Now)
		}
	}
	for i := range c.Runs {
		if !slices.Contains(schedule.Triggers, c.Runs[i].Trigger) {
			return fmt.Errorf("insert run %s: %q is no trigger", c.Runs[i].Key, c.Runs[i].Trigger)
		}
		t.insert(c.Runs[i], c.Now)
	}
	t.note(c.ScheduleID, c.Events, c.Now)
	t.audit(c.Audit, c.Now)
	return nil
}

func (t *tx) writeSchedule(c *schedule.Change) error {
	row := stored(c.Row, c.Now)
	before := t.schedules[row.ScheduleID]
	if before != nil {
		t.noteSchedule(before, row)
	}
	t.put(row)
	if c.NewRevision || !row.Alive() {
		t.subscribe(before, row, c.Now)
	}
	delete(t.unreadable, row.ScheduleID)
	if !c.NewRevision {
		return nil
	}
	id := revisionID{row.ScheduleID, row.Revision}
	if t.revisions[id] != nil {
		return fmt.Errorf("write revision %d: it is there", row.Revision)
	}
	t.revisions[id] = &schedule.Revision{
		ScheduleID: row.ScheduleID, Revision: row.Revision, Definition: copyOf(row).Definition, ChangedBy: c.ChangedBy, CreatedAt: row.RevisedAt,
	}
	t.undo = append(t.undo, func() { delete(t.revisions, id) })
	return nil
}

// stored is a schedule as the stores keep it.
func stored(s *schedule.Schedule, now time.Time) *schedule.Schedule {
	row := copyOf(s)
	for _, t := range []*time.Time{
		&row.OnceAt, &row.StartAt, &row.EndAt, &row.NextRunAt, &row.PlanAt, &row.Backlog.From, &row.Backlog.Until, &row.Backlog.At,
		&row.Pause.Until, &row.LastRunAt, &row.DeletedAt,
	} {
		*t = at(*t)
	}
	row.RevisedAt, row.CreatedAt, row.UpdatedAt = either(row.RevisedAt, now), either(row.CreatedAt, now), either(row.UpdatedAt, now)
	return row
}

// copyOf shares nothing with the row.
func copyOf(s *schedule.Schedule) *schedule.Schedule {
	row := *s
	row.Input, row.Labels = clone(s.Input), nil
	if len(s.Labels) > 0 {
		row.Labels = maps.Clone(s.Labels)
	}
	return &row
}

// GetSchedule is the row, tombstones included.
func (s *Store) GetSchedule(ctx context.Context, scheduleID string) (row *schedule.Schedule, err error) {
	err = s.read(ctx, func() error {
		found := s.schedules[scheduleID]
		if found == nil {
			return schedule.ErrNotFound
		}
		row = copyOf(found)
		return s.unreadable[scheduleID]
	})
	if err != nil {
		return nil, fmt.Errorf("get schedule %s: %w", scheduleID, err)
	}
	return row, nil
}

// PeekSchedule is GetSchedule: memory has last_run_at at hand.
func (s *Store) PeekSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return s.GetSchedule(ctx, scheduleID)
}

// ListSchedules returns schedules in order of schedule_id, without tombstones.
func (s *Store) ListSchedules(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error) {
	list := []schedule.Schedule{}
	err := s.read(ctx, func() error {
		now := either(f.Now, s.Now())
		for id, row := range s.schedules {
			if row.Alive() && id > f.After && s.unreadable[id] == nil && matches(row, &f, now) && (!f.Failing || s.failureOf(id) != nil) {
				list = append(list, *copyOf(row))
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b schedule.Schedule) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
	return list[:min(len(list), schedule.PageSize(f.Limit))], err
}

func matches(s *schedule.Schedule, f *schedule.ScheduleFilter, now time.Time) bool {
	label, labelled := s.Labels[f.LabelKey]
	switch {
	case f.UserID != "" && s.UserID != f.UserID,
		f.WorkflowID != "" && s.WorkflowID != f.WorkflowID,
		f.ManagedBy != "" && s.ManagedBy != f.ManagedBy,
		f.ManagedBy == "" && s.OfQueue(),
		f.GrantID != "" && s.ExecutionGrantID != f.GrantID,
		f.Text != "" && !s.HasText(f.Text),
		f.LabelKey != "" && !labelled,
		f.LabelKey != "" && f.LabelValue != "" && label != f.LabelValue,
		f.State != "" && f.State != s.StateAt(now):
		return false
	}
	return true
}

// ListEvents is newest first; beforeID = 0 begins at the end.
func (s *Store) ListEvents(ctx context.Context, scheduleID string, beforeID int64, limit int) (events []schedule.Event, err error) {
	err = s.read(ctx, func() error {
		for i := len(s.events) - 1; i >= 0 && len(events) < schedule.PageSize(limit); i-- {
			if e := s.events[i]; e.ScheduleID == scheduleID && (beforeID <= 0 || e.ID < beforeID) {
				events = append(events, e)
			}
		}
		return nil
	})
	return events, err
}

// ListRevisions is newest first; before = 0 begins at the end.
func (s *Store) ListRevisions(ctx context.Context, scheduleID string, before int64, limit int) (revisions []schedule.Revision, err error) {
	err = s.read(ctx, func() error {
		for id, v := range s.revisions {
			if id.scheduleID == scheduleID && (before <= 0 || id.revision < before) {
				revisions = append(revisions, *v)
			}
		}
		return nil
	})
	slices.SortFunc(revisions, func(a, b schedule.Revision) int { return cmp.Compare(b.Revision, a.Revision) })
	return revisions[:min(len(revisions), schedule.PageSize(limit))], err
}
