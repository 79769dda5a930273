package registrar

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/work"
)

// Limits of a dry run.
const (
	forecastSpan    = 30 * 24 * time.Hour
	comparedOfOne   = 50_000  // slots of one schedule's two timetables
	comparedOfAll   = 250_000 // of all of them
	launchesCounted = 500_000 // before and after together
	firesShown      = 10      // of one schedule, added and removed each
	firesShownOfAll = 20_000
	ruleSteps       = 5 * work.PerMicrosecond // to read the two rules of one schedule
)

// FireChange is which fire times a change takes away and which it brings.
type FireChange struct {
	Added, Removed           int
	FirstAdded, FirstRemoved []Fire
	Until                    time.Time // the counts are exact from now to here
}

// Forecast counts the launches of all schedules of the set, before and after.
type Forecast struct {
	From, Until   time.Time // Until is nearer than 30 days if there are too many launches to count
	Before, After plan.Launches
}

// forecast looks ahead for a dry run: it fills in Fires of the changes, and
// counts launches by the minute.
func (r *Registrar) forecast(ctx context.Context, results []changeResult, changes []ScheduleChange, now time.Time) (*Forecast, error) {
	budget, done := r.budget("dry_run")
	defer done()
	meter := budget.Meter(ctx)
	byID := make(map[string]*ScheduleChange, len(changes))
	for i := range changes {
		byID[changes[i].ScheduleID] = &changes[i]
	}
	f := forecaster{meter: meter, now: now, until: now.Add(forecastSpan), steps: comparedOfAll, shown: firesShownOfAll}
	for i := range results {
		d := &results[i]
		if d.action == "" {
			continue
		}
		if !meter(ruleSteps) {
			break
		}
		before, after := d.timetables()
		f.load(&f.before, before, d.before)
		f.load(&f.after, after, d.after())
		if d.action != ActionUnchanged && d.action != actionLeft {
			fires := f.compare(d, before, after)
			byID[d.subject().ScheduleID].Fires = &fires
		}
	}
	all := append(append([]plan.Load(nil), f.before...), f.after...)
	out := &Forecast{From: now, Until: plan.Horizon(all, now, f.until, launchesCounted, meter)}
	out.Before, out.After = plan.Busiest(f.before, now, out.Until, meter), plan.Busiest(f.after, now, out.Until, meter)
	if errors.Is(budget.Err(), work.ErrSpent) {
		return nil, schedule.Invalid("schedules", len(results), spentProblem, "split them into several sets, or apply without dry_run")
	}
	return out, budget.Err()
}

// after is the schedule after the change; nil: deleted.
func (d *changeResult) after() *schedule.Schedule {
	switch d.action {
	case ActionDelete:
		return nil
	case actionLeft:
		return d.before
	}
	return d.result.Schedule
}

func (d *changeResult) subject() *schedule.Schedule {
	if d.before != nil {
		return d.before
	}
	return d.result.Schedule
}

// timetables are those before and after; nil without a readable schedule.
func (d *changeResult) timetables() (before, after *plan.Timetable) {
	of := func(s *schedule.Schedule) *plan.Timetable {
		if s == nil {
			return nil
		}
		tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
		if err != nil {
			return nil
		}
		return tt
	}
	before = of(d.before)
	if d.action == ActionUnchanged || d.action == actionLeft {
		return before, before
	}
	return before, of(d.after())
}

type forecaster struct {
	meter         plan.Meter
	now, until    time.Time
	steps, shown  int // remaining budget
	before, after []plan.Load
}

// load adds a schedule's launches. A schedule paused without an end has none.
func (f *forecaster) load(to *[]plan.Load, tt *plan.Timetable, s *schedule.Schedule) {
	if tt == nil || s.Pause.Active(f.now) && s.Pause.Until.IsZero() {
		return
	}
	*to = append(*to, plan.Load{Timetable: tt, After: from(s, f.now)})
}

// compare is as if the schedule were not paused, or from the end of its pause.
func (f *forecaster) compare(d *changeResult, before, after *plan.Timetable) FireChange {
	s := d.subject()
	if d.action == ActionChange && plan.SameTimes(&d.before.Definition, &d.result.Schedule.Definition) {
		return FireChange{Until: f.until}
	}
	diff := plan.Compare(before, after, plan.Comparison{
		Now: f.now, After: from(s, f.now), Until: f.until,
		Limit: min(comparedOfOne, f.steps), Shown: min(firesShown, f.shown), Meter: f.meter,
	})
	f.steps -= min(diff.Steps, f.steps)
	f.shown -= min(len(diff.FirstAdded)+len(diff.FirstRemoved), f.shown)
	out := FireChange{Added: diff.Added, Removed: diff.Removed, Until: diff.Until}
	if d.before != nil {
		out.FirstRemoved = localFires(diff.FirstRemoved, d.before.Timezone)
	}
	if row := d.after(); row != nil {
		out.FirstAdded = localFires(diff.FirstAdded, row.Timezone)
	}
	return out
}

func localFires(slots []plan.Slot, zone string) []Fire {
	loc, err := cronexpr.LoadLocation(zone)
	if err != nil {
		loc = time.UTC
	}
	return firesIn(slots, loc)
}
