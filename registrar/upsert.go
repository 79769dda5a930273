package registrar

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// Upsert registers a schedule or replaces its whole definition. A repeat writes nothing; a change
// makes a new revision, fires nothing and plans no slot before now. It keeps the pause and the
// manager unless the call sets them. The owner of an existing schedule cannot be changed.
func (r *Registrar) Upsert(ctx context.Context, in UpsertInput) (UpsertResult, error) {
	done, err := r.upsertAll(ctx, &upserts{inputs: []UpsertInput{in}})
	if err != nil {
		return UpsertResult{}, err
	}
	result := done.results[0].result
	result.Warning = managerWarning(done.results[0].before, result.Schedule)
	return result, nil
}

func (r *Registrar) logUpserts(ctx context.Context, results []changeResult) {
	for i := range results {
		d := &results[i]
		switch d.action {
		case ActionCreate, ActionChange:
			s := d.result.Schedule
			r.log.InfoContext(ctx, "schedule registered", "schedule_id", s.ScheduleID, "revision", s.Revision,
				"created", d.result.Created, "next_run_at", d.result.NextRunAt)
		case ActionDelete:
			r.log.InfoContext(ctx, "schedule deleted", "schedule_id", d.before.ScheduleID, "managed_by", d.before.ManagedBy)
		}
	}
}

// upsert is the pure part: the change that one input makes.
func upsert(current *schedule.Schedule, d schedule.Definition, in UpsertInput, now time.Time) (schedule.Change, UpsertResult, error) {
	if current != nil && current.UserID != d.UserID {
		return schedule.Change{}, UpsertResult{}, schedule.Explain(schedule.ErrExists,
			"schedule_id %q belongs to another owner; choose another id", d.ScheduleID)
	}
	if current == nil || !current.Alive() {
		return create(current, d, in, now)
	}
	return edit(current, d, in, now)
}

func create(tombstone *schedule.Schedule, d schedule.Definition, in UpsertInput, now time.Time) (schedule.Change, UpsertResult, error) {
	if !d.OnceAt.IsZero() && d.OnceAt.Before(now) {
		return schedule.Change{}, UpsertResult{}, schedule.Invalid("once_at", d.OnceAt.Format(time.RFC3339),
			"is in the past", "it is "+now.Format(time.RFC3339)+" now")
	}
	s := &schedule.Schedule{Definition: d, Revision: 1, RevisedAt: now, CreatedAt: now, UpdatedAt: now}
	if tombstone != nil {
		s.Revision = tombstone.Revision + 1
		s.LastRunAt = tombstone.LastRunAt
	}
	if value(in.Paused, false) {
		s.Pause = schedule.Pause{Paused: true, By: in.Actor}
	}
	if err := start(s, now); err != nil {
		return schedule.Change{}, UpsertResult{}, err
	}
	change := schedule.Change{
		ScheduleID: d.ScheduleID, Row: s, Created: true, NewRevision: true, ChangedBy: in.Actor, Now: now,
		DropPlannedAfter: now,
		Events:           []schedule.Event{newEvent(s, schedule.EventCreated, in.Actor, now)},
	}
	if s.Pause.Paused {
		change.Events = append(change.Events, newEvent(s, schedule.EventPaused, in.Actor, now))
	}
	return change, UpsertResult{Schedule: s, NextRunAt: nextRunAt(s, now), Created: true, Changed: true}, nil
}

func edit(current *schedule.Schedule, d schedule.Definition, in UpsertInput, now time.Time) (schedule.Change, UpsertResult, error) {
	paused := value(in.Paused, current.Pause.Active(now))
	if current.Equal(&d) && paused == current.Pause.Active(now) {
		return schedule.Change{}, UpsertResult{Schedule: current, NextRunAt: nextRunAt(current, now)}, nil
	}
	if err := keepsGroup(&current.Definition, &d); err != nil {
		return schedule.Change{}, UpsertResult{}, err
	}
	c := begin(current, in.Actor, now)
	if !current.Equal(&d) {
		c.moveDueToBacklog()
		c.row.Definition = d
		c.row.Revision++
		c.row.RevisedAt = now
		c.change.NewRevision = true
		c.event(schedule.EventChanged, "")
	}
	switch {
	case paused && !c.row.Pause.Paused:
		c.pause(schedule.Pause{Paused: true, By: in.Actor})
	case !paused && c.row.Pause.Paused:
		c.row.Pause = schedule.Pause{}
		c.event(schedule.EventResumed, "")
	}
	if err := c.restart(); err != nil {
		return schedule.Change{}, UpsertResult{}, err
	}
	c.row.UpdatedAt = now
	return c.change, UpsertResult{Schedule: c.row, NextRunAt: nextRunAt(c.row, now), Changed: true}, nil
}

// deriveID names a schedule that came without a name: the same request again
// finds the same schedule.
func deriveID(userID, requestID string) string {
	if requestID == "" {
		requestID = rand.Text()
	}
	sum := sha256.Sum256([]byte(userID + "/" + requestID))
	return "s-" + hex.EncodeToString(sum[:12])
}

// start sets the cursor of a new, edited or resumed schedule to the first slot after now. The
// planner looks at it at once, or when the slot comes within the lookahead.
func start(s *schedule.Schedule, now time.Time) error {
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return schedule.Invalid("cron_expr", s.CronExpr, "is unreadable: "+err.Error(), "")
	}
	s.NextRunAt, _ = tt.Next(now)
	s.PlanAt = now
	s.PlanFailures = 0
	switch near := s.NextRunAt.Add(-s.Jitter() - schedule.MaxLookahead); {
	case s.Pause.Paused:
		s.PlanAt = s.Pause.Until
	case s.Backlog.Open():
	case s.NextRunAt.IsZero():
		s.PlanAt = time.Time{}
	case near.After(now):
		s.PlanAt = near
	}
	return nil
}

// nextRunAt is the next slot after now for answers, zero when paused or exhausted. The stored
// cursor is ahead of it by the lookahead.
func nextRunAt(s *schedule.Schedule, now time.Time) time.Time {
	if !s.Alive() || s.Pause.Active(now) {
		return time.Time{}
	}
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return time.Time{}
	}
	next, _ := tt.Next(now)
	return next
}

func newEvent(s *schedule.Schedule, kind schedule.EventKind, actor string, now time.Time) schedule.Event {
	return schedule.Event{ScheduleID: s.ScheduleID, Time: now, Kind: kind, Actor: actor, Revision: s.Revision}
}
