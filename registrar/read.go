package registrar

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/work"
)

// Get answers a living schedule with its next n fire times.
func (r *Registrar) Get(ctx context.Context, scheduleID string, n int) (GetResult, error) {
	s, err := r.living(ctx, scheduleID)
	if err != nil {
		return GetResult{}, err
	}
	now := r.now()
	fires, err := r.fires(ctx, s, from(s, now), time.Time{}, n)
	if err != nil {
		return GetResult{}, err
	}
	views := []View{view(s, now)}
	if err := r.addRecent(ctx, views, schedule.RecentOutcomes); err != nil {
		return GetResult{}, err
	}
	return GetResult{View: views[0], Preview: fires}, nil
}

func view(s *schedule.Schedule, now time.Time) View {
	return View{Schedule: s, NextRunAt: nextRunAt(s, now), Paused: s.Pause.Active(now)}
}

// from is where a schedule's preview begins: the end of its pause, or now, also for a pause
// without an end (as if it were resumed).
func from(s *schedule.Schedule, now time.Time) time.Time {
	if !s.Pause.Active(now) || s.Pause.Until.IsZero() {
		return now
	}
	return schedule.CeilSecond(s.Pause.Until).Add(-time.Second)
}

func (r *Registrar) living(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return living(ctx, r.schedules.GetSchedule, scheduleID)
}

func living(ctx context.Context, get func(context.Context, string) (*schedule.Schedule, error), scheduleID string) (*schedule.Schedule, error) {
	s, err := get(ctx, scheduleID)
	if err != nil {
		return nil, err
	}
	if !s.Alive() {
		return nil, notFound(scheduleID)
	}
	return s, nil
}

// List answers living schedules in the order of their ids.
func (r *Registrar) List(ctx context.Context, f schedule.ScheduleFilter) ([]View, error) {
	now := r.now()
	f.Now = now
	rows, err := r.schedules.ListSchedules(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]View, len(rows))
	for i := range rows {
		out[i] = view(&rows[i], now)
	}
	return out, r.addRecent(ctx, out, schedule.RecentOutcomes)
}

// Events lists a schedule's log, newest first, also after its deletion or if its row cannot be
// read.
func (r *Registrar) Events(ctx context.Context, scheduleID string, beforeID int64, limit int) ([]schedule.Event, error) {
	if _, err := r.schedules.GetSchedule(ctx, scheduleID); errors.Is(err, schedule.ErrNotFound) {
		return nil, err
	}
	return r.schedules.ListEvents(ctx, scheduleID, beforeID, limit)
}

// Revisions answers a schedule's definitions, newest first, also after its
// deletion.
func (r *Registrar) Revisions(ctx context.Context, scheduleID string, before int64, limit int) ([]schedule.Revision, error) {
	if _, err := r.schedules.GetSchedule(ctx, scheduleID); err != nil {
		return nil, err
	}
	return r.schedules.ListRevisions(ctx, scheduleID, before, limit)
}

// MaxPreview bounds one page of a preview.
const MaxPreview = 10_000

// Preview lists slots exactly as the worker will fire them. next is where the
// following page begins; zero = nothing more in the window.
func (r *Registrar) Preview(ctx context.Context, in PreviewInput) (page []Fire, next time.Time, err error) {
	now := r.now()
	after, until := now, time.Time{}
	if !in.From.IsZero() {
		after = schedule.CeilSecond(in.From).Add(-time.Second)
	}
	if !in.To.IsZero() {
		until = in.To.Add(-time.Nanosecond)
	}
	if in.Count < 1 || in.Count > MaxPreview {
		return nil, next, schedule.Invalid("count", in.Count, "is not within 1 to 10000", "use pages")
	}
	s, err := r.previewed(ctx, in, now)
	if err != nil {
		return nil, next, err
	}
	page, err = r.fires(ctx, s, after, until, in.Count)
	if err == nil && len(page) == in.Count {
		next = page[len(page)-1].RunAt.Add(time.Second)
	}
	return page, next, err
}

// previewed is the saved schedule, or an unsaved definition as if it were
// created now.
func (r *Registrar) previewed(ctx context.Context, in PreviewInput, now time.Time) (*schedule.Schedule, error) {
	if in.Spec == nil {
		return r.living(ctx, in.ScheduleID)
	}
	unsaved := *in.Spec
	unsaved.Definition.ScheduleID = orDefault(unsaved.Definition.ScheduleID, "preview")
	unsaved.Definition.WorkflowID = orDefault(unsaved.Definition.WorkflowID, "preview")
	unsaved.Definition.UserID = orDefault(unsaved.Definition.UserID, "preview")
	unsaved.Definition.Version = max(unsaved.Definition.Version, 1)
	// Its jitter is drawn from the id under which it would be stored.
	names, _, err := r.newNames(ctx, []string{unsaved.Definition.ScheduleID})
	if err != nil {
		return nil, err
	}
	unsaved.Definition.ScheduleID = names[0]
	d := r.resolve(unsaved)
	if err := r.validate(&d); err != nil {
		return nil, err
	}
	// Created long ago, so that a window in the past is not clamped; an interval
	// without start_at has no other anchor than now.
	s := &schedule.Schedule{Definition: d, CreatedAt: schedule.MinTime}
	if d.IntervalMS > 0 {
		s.CreatedAt = now
	}
	return s, nil
}

// Cost of a fire in a preview, and how many fires between two checks of the context.
const (
	fireSteps   = 20 * work.PerMicrosecond
	firesAtOnce = 100
)

func (r *Registrar) fires(ctx context.Context, s *schedule.Schedule, after, until time.Time, n int) ([]Fire, error) {
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return nil, schedule.Invalid("cron_expr", s.CronExpr, "is unreadable: "+err.Error(), "")
	}
	loc, err := cronexpr.LoadLocation(s.Timezone)
	if err != nil {
		return nil, schedule.Invalid("timezone", s.Timezone, err.Error(), "")
	}
	clock, err := describe.NewClock(&s.Definition, loc)
	if err != nil {
		return nil, schedule.Invalid("cron_expr", s.CronExpr, "is unreadable: "+err.Error(), "")
	}
	budget, done := r.budget("preview")
	defer done()
	var out []Fire
	for len(out) < n {
		asked := min(n-len(out), firesAtOnce)
		some := firesIn(tt.Preview(after, until, asked), loc)
		for i := range some {
			some[i].Note = clock.Note(after, some[i].RunAt)
			after = some[i].RunAt
		}
		out = append(out, some...)
		if err := budget.Spend(ctx, len(some)*fireSteps); err != nil {
			return nil, err // of the context: MaxPreview costs less than a call may
		}
		if len(some) < asked {
			break
		}
	}
	return out, nil
}

// firesIn shows slots in a zone.
func firesIn(slots []plan.Slot, loc *time.Location) []Fire {
	out := make([]Fire, len(slots))
	for i, slot := range slots {
		local := slot.RunAt.In(loc)
		out[i] = Fire{RunAt: slot.RunAt, FireAt: slot.FireAt, Local: local.Format(describe.LocalFormat)}
	}
	return out
}

// GetRun answers one run.
func (r *Registrar) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	return r.runs.GetRun(ctx, key)
}

// FirstSent is when the executor may have been called first for a run that was
// sent again because no answer was recorded; zero: it was not. A call that failed
// is in LaunchAttempts.
func (r *Registrar) FirstSent(ctx context.Context, run *schedule.Run) (time.Time, error) {
	if r.sends == nil || run.Deliveries <= 1 || run.FailedAttempts > 0 {
		return time.Time{}, nil
	}
	at, err := r.sends.FirstSent(ctx, run.Key)
	if err != nil || at.IsZero() {
		return time.Time{}, err
	}
	if run.FireAt.After(at) { // recorded ahead: the launcher calls at fire_at
		at = run.FireAt
	}
	if !run.LaunchedAt.IsZero() && run.LaunchedAt.Sub(at) < schedule.LeastResend {
		at = time.Time{}
	}
	return at, nil
}

// RunLog returns a part of a run's output, and the run as read just before: if it had ended, no
// output follows the parts.
func (r *Registrar) RunLog(ctx context.Context, q schedule.RunLogQuery) (*schedule.Run, []schedule.LogPart, error) {
	run, err := r.runs.GetRun(ctx, q.Key)
	if err != nil || r.logs == nil {
		return run, nil, err
	}
	parts, err := r.logs.ReadRunLog(ctx, q)
	return run, parts, err
}

// LaunchAttempts are the last attempts to launch a run, oldest first: the failed
// ones, and the one that ended its launch.
func (r *Registrar) LaunchAttempts(ctx context.Context, run *schedule.Run) (attempts []schedule.LaunchAttempt, err error) {
	if run.FailedAttempts > 0 {
		if attempts, err = r.runs.LaunchAttempts(ctx, run.Key); err != nil {
			return nil, err
		}
	}
	if last, ended := run.LastAttempt(); ended {
		attempts = append(attempts, last)
	}
	return attempts[max(0, len(attempts)-schedule.KeptAttempts):], nil
}

// RunResult is what the executor returned with the end of a run; nil: nothing, or its retention is
// over.
func (r *Registrar) RunResult(ctx context.Context, run *schedule.Run) (*schedule.RunResult, error) {
	if !run.Status.Terminal() {
		return nil, nil
	}
	return r.runs.RunResult(ctx, run.Key)
}

// ListRuns answers runs, newest run_at first.
func (r *Registrar) ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error) {
	f.Now = r.now()
	var err error
	if f.ScheduleID, err = r.named(ctx, f.ScheduleID); err != nil {
		return nil, err
	}
	return r.runs.ListRuns(ctx, f)
}

// named is the stored id of the schedule that a filter names. It refuses one that
// never existed: that is a mistake, not an empty list. One that was deleted still
// has its past.
func (r *Registrar) named(ctx context.Context, scheduleID string) (string, error) {
	if scheduleID == "" {
		return "", nil
	}
	found, err := r.schedules.GetSchedule(ctx, scheduleID)
	if err != nil {
		return "", err
	}
	return found.ScheduleID, nil
}
