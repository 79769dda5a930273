package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// step plans one slot of every candidate: the cursor moves on by a second.
func (r *rig) step(candidates []schedule.PlanCandidate, until time.Time) []schedule.PlanDecision {
	var decisions []schedule.PlanDecision
	for _, c := range candidates {
		d := keep(c)
		d.Rows = []schedule.Run{r.slot(c.Schedule, c.Schedule.NextRunAt)}
		d.NextRunAt = c.Schedule.NextRunAt.Add(time.Second)
		if d.PlanAt = d.NextRunAt; d.PlanAt.After(until) {
			d.NextRunAt, d.PlanAt = time.Time{}, time.Time{}
		}
		decisions = append(decisions, *d)
	}
	return decisions
}

// racePlanners has two of one term plan the same schedules: what one of them
// has locked, the other passes over.
func racePlanners(r *rig) {
	r.lead()
	const schedules, slots = 6, 8
	for i := range schedules {
		r.create(fmt.Sprint("raced-", i), planAt(r.at(time.Second)))
	}
	until := r.at(slots * time.Second)
	var inserted, seen atomic.Int64
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	r.crowd(2, func(int) {
		for ctx.Err() == nil { // one may wait for its turn of the processor while the other finds nothing
			req := r.planRequest()
			req.Limit = 4
			result, err := r.Plan(ctx, req, func(c []schedule.PlanCandidate) []schedule.PlanDecision { return r.step(c, until) })
			if err != nil {
				r.Errorf("plan: %v", err)
				return
			}
			inserted.Add(int64(result.Inserted))
			if seen.Add(int64(result.Candidates)) >= schedules*slots {
				return
			}
		}
		r.Errorf("planning finds no end")
	})
	r.hold(inserted.Load() == schedules*slots, "every slot is inserted once, %d, got %d", schedules*slots, inserted.Load())
	r.hold(seen.Load() == schedules*slots, "every schedule is planned once per slot, %d, got %d", schedules*slots, seen.Load())
	r.hold(len(r.look()) == 0, "nothing is left to plan")
}

// raceEditAndPlan edits a schedule while it is planned. Whichever comes first,
// a row ahead of an edit carries the edit's revision.
func raceEditAndPlan(r *rig) {
	r.lead()
	s := r.create("edited", planAt(r.at(time.Second)))
	const edits = 10
	r.crowd(2, func(i int) {
		if i == 0 {
			for range edits {
				r.edit(s.ScheduleID)
			}
			return
		}
		for range 6 * edits {
			_, err := r.Plan(r.ctx, r.planRequest(), func(c []schedule.PlanCandidate) []schedule.PlanDecision { return r.step(c, r.at(time.Hour)) })
			if err != nil {
				r.Errorf("plan: %v", err)
			}
		}
	})
	got := r.row(s)
	r.hold(got.Revision == edits+1, "no edit is lost, revision %d, got %d", edits+1, got.Revision)
	rows := r.runsOf(s)
	for i, run := range rows {
		r.hold(run.Revision == got.Revision, "every row ahead is of revision %d, one is of %d", got.Revision, run.Revision)
		r.hold(run.RunAt.Equal(r.at(time.Duration(i+1)*time.Second)), "no slot is left out, got %s at place %d", run.RunAt, i)
	}
	r.hold(got.NextRunAt.Equal(r.at(time.Duration(len(rows)+1)*time.Second)), "the cursor stands past the last row, got %s after %d rows", got.NextRunAt, len(rows))
}

// raceEditAndProgress edits what is the user's, while the worker moves what is
// its own in the same row: an edit that had not locked what it has read would
// write the worker's part as it was.
func raceEditAndProgress(r *rig) {
	r.lead()
	s := r.create("edited", planAt(r.at(time.Second)))
	const steps = 25
	var runs []schedule.Run
	for i := range steps {
		runs = append(runs, r.bring(r.manual(s, fmt.Sprint(i), r.at(time.Duration(i-steps)*time.Second)), schedule.StatusLaunching))
	}
	r.crowd(3, func(i int) {
		for step := range steps {
			var err error
			switch i {
			case 0:
				err = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
					next := *in[0].Schedule
					next.Priority++
					return []schedule.Change{{ScheduleID: s.ScheduleID, Row: &next, Now: r.now}}, nil
				})
			case 1:
				_, err = r.Plan(r.ctx, r.planRequest(), func(c []schedule.PlanCandidate) []schedule.PlanDecision { return r.step(c, r.at(time.Hour)) })
			case 2:
				_, err = r.Settle(r.ctx, r.term, r.now, []schedule.Settlement{{Key: runs[step].Key, To: schedule.StatusSuccess, LaunchedAt: r.now}})
			}
			if err != nil {
				r.Errorf("step %d of %d: %v", step, i, err)
			}
		}
	})
	got := r.row(s)
	r.hold(got.Priority == steps, "no edit is lost, %d, got %d", steps, got.Priority)
	r.hold(got.LastRunAt.Equal(runs[steps-1].RunAt), "last_run_at is the newest run's, %s, got %s", runs[steps-1].RunAt, got.LastRunAt)
	planned := 0
	for _, run := range r.runsOf(s) {
		if run.Trigger == schedule.TriggerSchedule {
			planned++
		}
	}
	r.hold(got.NextRunAt.Equal(r.at(time.Duration(planned+1)*time.Second)), "the cursor stands past the last of %d rows, got %s", planned, got.NextRunAt)
}

// edit makes a new revision, takes back the plan and sets the cursor after now.
func (r *rig) edit(scheduleID string) {
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		next := *in[0].Schedule
		next.Revision++
		next.NextRunAt, next.PlanAt = r.at(time.Second), r.at(time.Second)
		return []schedule.Change{{ScheduleID: scheduleID, Row: &next, NewRevision: true, DropPlannedAfter: r.now, Now: r.now}}, nil
	})
	if err != nil {
		r.Errorf("edit: %v", err)
	}
}
