package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// slots reads the outcome of every slot of the window from the ledger.
func (w *world) slots() (all []registrar.SimulatedSlot, err error) {
	for i := range w.Schedules {
		of, err := w.slotsOf(&w.Schedules[i])
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	slices.SortStableFunc(all, func(a, b registrar.SimulatedSlot) int {
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ScheduleID, b.ScheduleID))
	})
	return all, nil
}

func (w *world) slotsOf(s *registrar.ScenarioSchedule) ([]registrar.SimulatedSlot, error) {
	row := &s.Schedule
	tt, err := plan.NewTimetable(&row.Definition, row.CreatedAt, row.RevisedAt)
	if err != nil {
		return nil, err
	}
	runs, err := w.rows(row.ScheduleID)
	if err != nil {
		return nil, err
	}
	events, err := w.ledger.ListEvents(w.ctx, row.ScheduleID, 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	events = slices.DeleteFunc(events, func(e schedule.Event) bool { return e.Reason == "" || e.From.IsZero() || e.Count == 0 })
	var out []registrar.SimulatedSlot
	for at, ok := tt.From(w.From); ok && at.Before(w.Until); at, ok = tt.Next(at) {
		if !w.spend(slotSteps + (len(events)+len(s.Pauses))*scanSteps) {
			return nil, nil
		}
		slot := tt.Slot(at)
		told := registrar.SimulatedSlot{ScheduleID: row.ScheduleID, RunAt: at, FireAt: slot.FireAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule}
		if run, there := runs[slot.Key]; there {
			told.Status, told.Reason, told.Trigger = run.Status, run.Reason, run.Trigger
			told.LaunchedAt, told.CompletedAt, told.WaitingSince = run.LaunchedAt, run.CompletedAt, w.waited[slot.Key]
		} else {
			told.Status, told.Reason = withoutRow(at, events, s.Pauses)
			told.NoRow = true
		}
		out = append(out, told)
	}
	return out, nil
}

// rows are the runs of a schedule, including planned ones.
func (w *world) rows(scheduleID string) (map[schedule.Key]schedule.Run, error) {
	runs := make(map[schedule.Key]schedule.Run)
	for _, statuses := range [][]schedule.Status{nil, {schedule.StatusPlanned}} {
		some, err := w.ledger.ListRuns(w.ctx, schedule.RunFilter{ScheduleID: scheduleID, Statuses: statuses, Now: w.now(), Limit: math.MaxInt32})
		if err != nil {
			return nil, err
		}
		for _, run := range some {
			runs[run.Key] = run
		}
	}
	return runs, nil
}

// withoutRow is the outcome of a slot without a row: it lies in a recorded range or in a pause, or is
// still planned.
func withoutRow(at time.Time, events []schedule.Event, pauses []registrar.Span) (schedule.Status, schedule.Reason) {
	for _, e := range events {
		if !at.Before(e.From) && !at.After(e.To) {
			return schedule.StatusSkipped, e.Reason
		}
	}
	for _, p := range pauses {
		if !at.Before(p.From) && at.Before(p.Until) {
			return schedule.StatusSkipped, schedule.ReasonPaused
		}
	}
	return schedule.StatusPlanned, schedule.ReasonNone
}
