package registrar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// Limits of one simulation.
const (
	MaxSimulatedSchedules = 50
	MaxSimulatedSpans     = 100 // outages, and pauses of one schedule
	MaxSimulatedSlots     = 10_000
	MaxSimulatedWindow    = 366 * 24 * time.Hour
	DefaultAssumedRun     = time.Second
)

// Simulator plays a scenario on a virtual clock; *simulate.Simulator is one.
type Simulator interface {
	Simulate(ctx context.Context, s Scenario, budget *work.Budget) ([]SimulatedSlot, error)
}

// Scenario is the input of a simulation: schedules without history before From, and assumptions
// about their runs.
type Scenario struct {
	From, Until time.Time
	Schedules   []ScenarioSchedule
	Outages     []Span // no worker is alive: it died at From, and another starts at Until
	// ExecutorOutages are when the executor accepts no connection.
	ExecutorOutages []Span
	Seed            uint32
}

// ScenarioSchedule is one schedule of a scenario in its initial state.
type ScenarioSchedule struct {
	Schedule schedule.Schedule
	Run      AssumedRun
	Pauses   []Span // in order, none into another
}

// AssumedRun describes the simulated runs: they are accepted, end after a given time without
// reports in between, and some fail.
type AssumedRun struct {
	Duration       time.Duration // of each run, or, with P95, half of them are shorter
	P95            time.Duration // zero: all take Duration; else 95 % of the runs, lognormal, are shorter
	FailurePercent int           // of runs that end FAILED
}

// Span is a half-open range of time.
type Span struct{ From, Until time.Time }

// SimulatedSlot is the outcome of one slot.
type SimulatedSlot struct {
	ScheduleID    string
	RunAt, FireAt time.Time // FireAt: run_at with its jitter
	Status        schedule.Status
	Reason        schedule.Reason
	Trigger       schedule.Trigger
	WaitingSince  time.Time // it waited for its overlap key from then on; zero: it did not
	LaunchedAt    time.Time // zero: it was not
	CompletedAt   time.Time // zero: it has not ended
	NoRow         bool      // it never had a run: it lies in a range that is recorded as a whole
}

// SimulateInput requests a simulation.
type SimulateInput struct {
	From, Until time.Time
	Schedules   []SimulateSchedule
	Outages     []Span
	Seed        uint32
	// As in Scenario.
	ExecutorOutages []Span
}

// SimulateSchedule names a saved schedule with the changes in Over, or is an unsaved one if Over
// has a rule.
type SimulateSchedule struct {
	Over UpsertInput
	// LaunchTimeoutMS replaces the saved one, 0 included; nil: the saved one, or none.
	LaunchTimeoutMS *uint32
	Run             AssumedRun
	Pauses          []Span
}

// Simulation is the result of a scenario.
type Simulation struct {
	Scenario Scenario
	Slots    []SimulatedSlot // by run_at, then schedule
	All      SimulationSums
	Each     []SimulationSums // in the order of the schedules
}

// Simulate plays a scenario with the planner and the worker that fire schedules.
func (r *Registrar) Simulate(ctx context.Context, in SimulateInput) (*Simulation, error) {
	if r.simulator == nil {
		return nil, schedule.Explain(schedule.ErrUnsupported, "this process cannot simulate")
	}
	if err := checkScenario(&in); err != nil {
		return nil, err
	}
	s, err := r.scenario(ctx, &in)
	if err != nil {
		return nil, err
	}
	budget, done := r.budget("simulate")
	defer done()
	slots, err := r.simulator.Simulate(ctx, *s, budget)
	if errors.Is(err, work.ErrSpent) {
		return nil, schedule.Invalid("until", in.Until.Format(time.RFC3339), spentProblem, "simulate a shorter window, fewer schedules, or a lower max_queued")
	}
	if err != nil {
		return nil, err
	}
	out := &Simulation{Scenario: *s, Slots: slots}
	out.sum()
	return out, nil
}

func checkScenario(in *SimulateInput) error {
	var c schedule.Collect
	switch span := in.Until.Sub(in.From); {
	case in.From.IsZero() || in.Until.IsZero():
		c.Note("until", "and from are required", "set the window to simulate")
	case span <= 0:
		c.Add("until", in.Until.Format(time.RFC3339), "is not later than from", "")
	case span > MaxSimulatedWindow:
		c.Add("until", in.Until.Format(time.RFC3339), "is more than 366 days after from", "simulate a shorter window")
	}
	if n := len(in.Schedules); n < 1 || n > MaxSimulatedSchedules {
		c.Add("schedules", n, fmt.Sprintf("is not within 1 to %d", MaxSimulatedSchedules), "")
	}
	checkSpans(&c, "outages", in.Outages, in)
	checkSpans(&c, "executor_outages", in.ExecutorOutages, in)
	for i := range in.Schedules {
		s, at := &in.Schedules[i], fmt.Sprintf("schedules[%d].", i)
		checkSpans(&c, at+"pauses", s.Pauses, in)
		run := &s.Run
		if run.Duration < 0 || run.Duration > schedule.MaxRunTimeout {
			c.Add(at+"run.duration_ms", run.Duration.Milliseconds(), "is not within 0 to 30 days", "")
		}
		if run.P95 != 0 && (run.P95 <= run.Duration || run.Duration == 0 || run.P95 > schedule.MaxRunTimeout) {
			c.Add(at+"run.p95_ms", run.P95.Milliseconds(), "is not more than duration_ms, the median", "leave it out if all runs take the same time")
		}
		if run.FailurePercent < 0 || run.FailurePercent > 100 {
			c.Add(at+"run.failure_percent", run.FailurePercent, "is not within 0 to 100", "")
		}
	}
	return c.Err()
}

// checkSpans wants spans in order, none into another, all inside the window.
func checkSpans(c *schedule.Collect, field string, spans []Span, in *SimulateInput) {
	if len(spans) > MaxSimulatedSpans {
		c.Add(field, len(spans), fmt.Sprintf("is more than %d", MaxSimulatedSpans), "")
		return
	}
	for i, s := range spans {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !s.From.Before(s.Until):
			c.Add(at+".until", s.Until.Format(time.RFC3339), "is not later than its from", "")
		case s.From.Before(in.From) || s.Until.After(in.Until):
			c.Add(at+".from", s.From.Format(time.RFC3339), "to "+s.Until.Format(time.RFC3339)+" is not inside the window", "")
		case i > 0 && s.From.Before(spans[i-1].Until):
			c.Add(at+".from", s.From.Format(time.RFC3339), "overlaps the previous one", "give them in order, without overlaps")
		}
	}
}

// scenario resolves every schedule and counts the slots.
func (r *Registrar) scenario(ctx context.Context, in *SimulateInput) (*Scenario, error) {
	out := &Scenario{From: utc(in.From), Until: utc(in.Until), Outages: in.Outages, ExecutorOutages: in.ExecutorOutages, Seed: in.Seed}
	seen, slots := make(map[string]bool), 0
	for i := range in.Schedules {
		asked := &in.Schedules[i]
		row, err := r.simulated(ctx, asked, i, out)
		if err == nil && seen[row.ScheduleID] {
			err = schedule.Invalid("schedule_id", row.ScheduleID, "is named twice", "")
		}
		if err != nil {
			return nil, prefixed(err, fmt.Sprintf("schedules[%d].", i))
		}
		seen[row.ScheduleID] = true
		tt, err := plan.NewTimetable(&row.Definition, row.CreatedAt, row.RevisedAt)
		if err != nil {
			return nil, schedule.Invalid(fmt.Sprintf("schedules[%d].cron_expr", i), row.CronExpr, "is unreadable: "+err.Error(), "")
		}
		n, _ := tt.Count(out.From, out.Until)
		slots += n
		out.Schedules = append(out.Schedules, ScenarioSchedule{Schedule: *row, Run: asked.Run, Pauses: asked.Pauses})
	}
	if slots > MaxSimulatedSlots {
		return nil, schedule.Invalid("until", out.Until.Format(time.RFC3339),
			fmt.Sprintf("makes a window with %d slots, more than %d", slots, MaxSimulatedSlots), "simulate a shorter window, or fewer schedules")
	}
	return out, nil
}

// simulated is a schedule in its initial state: unplanned, not paused, without grants.
func (r *Registrar) simulated(ctx context.Context, asked *SimulateSchedule, i int, in *Scenario) (*schedule.Schedule, error) {
	over := asked.Over
	d := &over.Definition
	row := &schedule.Schedule{CreatedAt: in.From}
	if d.ByHand() {
		if d.ScheduleID == "" {
			return nil, schedule.Invalid("schedule_id", "", "is required", "or give one of cron_expr, interval_ms and once_at")
		}
		saved, err := r.living(ctx, d.ScheduleID)
		if err != nil {
			return nil, err
		}
		over, row.CreatedAt = overSaved(saved, over), saved.CreatedAt
	}
	if asked.LaunchTimeoutMS != nil {
		d.LaunchTimeoutMS = *asked.LaunchTimeoutMS
	}
	d.ScheduleID = orDefault(d.ScheduleID, fmt.Sprintf("schedule-%d", i+1))
	d.WorkflowID, d.UserID = orDefault(d.WorkflowID, "simulation"), orDefault(d.UserID, "simulation")
	d.Version, d.ExecutionGrantID, d.Input, d.Labels = max(d.Version, 1), "", nil, nil
	row.Definition = r.resolve(over)
	if err := r.validate(&row.Definition); err != nil {
		return nil, err
	}
	// As if it had been created long before the window. The anchor of an interval without
	// start_at is its creation.
	if row.IntervalMS == 0 && row.CreatedAt.After(in.From) {
		row.CreatedAt = in.From
	}
	row.Revision, row.RevisedAt, row.UpdatedAt = 1, earlier(row.CreatedAt, in.From), in.From
	return row, nil
}

// overSaved is a saved definition with the fields of the call.
func overSaved(saved *schedule.Schedule, over UpsertInput) UpsertInput {
	o := over.Definition
	over.Definition = saved.Definition
	d := &over.Definition
	d.Timezone, d.DST = orDefault(o.Timezone, d.Timezone), orDefault(o.DST, d.DST)
	d.OverlapPolicy, d.CatchupPolicy = orDefault(o.OverlapPolicy, d.OverlapPolicy), orDefault(o.CatchupPolicy, d.CatchupPolicy)
	d.OverlapKey = orDefault(o.OverlapKey, d.OverlapKey)
	if !o.StartAt.IsZero() {
		d.StartAt = o.StartAt
	}
	if !o.EndAt.IsZero() {
		d.EndAt = o.EndAt
	}
	keep := func(to **uint32, saved uint32) {
		if *to == nil {
			*to = &saved
		}
	}
	keep(&over.JitterMS, d.JitterMS)
	keep(&over.MaxQueued, d.MaxQueued)
	keep(&over.CatchupWindowMS, d.CatchupWindowMS)
	keep(&over.RunTimeoutMS, d.RunTimeoutMS)
	if over.Priority == nil {
		over.Priority = &d.Priority
	}
	return over
}

// prefixed puts a prefix before the fields that an error names.
func prefixed(err error, prefix string) error {
	var invalid *schedule.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	named := &schedule.InvalidError{}
	for _, v := range invalid.Violations {
		v.Field = prefix + v.Field
		named.Violations = append(named.Violations, v)
	}
	return named
}
