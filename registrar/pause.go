package registrar

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// Pause pauses a schedule: future planned slots are dropped, due ones end SKIPPED(paused), and due
// unplanned slots are recorded. None of them is sent later than one second after the answer. A run
// that waits in a queue has left the schedule: it runs, or ends if the request says so.
func (r *Registrar) Pause(ctx context.Context, in PauseInput) (Paused, error) {
	v, err := r.pause(ctx, in)
	if err != nil {
		return Paused{}, err
	}
	out := Paused{View: v}
	if in.EndQueued {
		if out.Ended, err = r.endQueued(ctx, v.Schedule.ScheduleID, in.Note); err != nil {
			return Paused{}, err
		}
	}
	queued, err := r.queuedOf(ctx, v.Schedule.ScheduleID)
	out.Queued = len(queued)
	return out, err
}

func (r *Registrar) pause(ctx context.Context, in PauseInput) (View, error) {
	if err := checkNote(in.Note); err != nil {
		return View{}, err
	}
	in.Until = utc(in.Until).Truncate(time.Microsecond) // the precision of the stores
	return r.changeOne(ctx, in.ScheduleID, func(current *schedule.Schedule, now time.Time) (*schedule.Change, error) {
		if !in.Until.IsZero() && !in.Until.After(now) {
			return nil, schedule.Invalid("until", in.Until.Format(time.RFC3339), "is not in the future", "it is "+now.Format(time.RFC3339)+" now")
		}
		want := schedule.Pause{Paused: true, Note: in.Note, By: in.Actor, Until: in.Until}
		if current.Pause == want || in.KeepPaused && current.Pause.Active(now) {
			return nil, nil
		}
		c := begin(current, in.Actor, now)
		c.pause(want)
		c.row.UpdatedAt = now
		return &c.change, c.restart()
	})
}

// Resume ends a pause: slots during the pause are not missed. A schedule that is not paused stays
// unchanged.
func (r *Registrar) Resume(ctx context.Context, in ResumeInput) (View, error) {
	if err := checkNote(in.Note); err != nil {
		return View{}, err
	}
	return r.changeOne(ctx, in.ScheduleID, func(current *schedule.Schedule, now time.Time) (*schedule.Change, error) {
		if !current.Pause.Active(now) {
			return nil, nil
		}
		c := begin(current, in.Actor, now)
		c.row.Pause = schedule.Pause{}
		c.event(schedule.EventResumed, in.Note)
		c.row.UpdatedAt = now
		return &c.change, c.restart()
	})
}

// Delete ends a schedule for good: a tombstone stays until retention. Planned
// runs end CANCELLED(deleted); runs in flight go on. Deleting again is no error.
func (r *Registrar) Delete(ctx context.Context, scheduleID, actor string) error {
	return r.schedules.ChangeSchedules(ctx, schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}},
		func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			current := found[0].Schedule
			if current == nil {
				return nil, notFound(scheduleID)
			}
			if !current.Alive() {
				return nil, nil
			}
			return []schedule.Change{remove(current, actor, r.now())}, nil
		})
}

func remove(current *schedule.Schedule, actor string, now time.Time) schedule.Change {
	c := begin(current, actor, now)
	c.endDue(schedule.StatusCancelled, schedule.ReasonDeleted, "due but not planned when the schedule was deleted")
	c.change.EndRest = true
	c.event(schedule.EventDeleted, "")
	c.row.DeletedAt, c.row.UpdatedAt = now, now
	c.row.NextRunAt, c.row.PlanAt = time.Time{}, time.Time{}
	return c.change
}

// changeOne changes one living schedule and returns the result.
func (r *Registrar) changeOne(ctx context.Context, scheduleID string, decide func(*schedule.Schedule, time.Time) (*schedule.Change, error)) (View, error) {
	var after *schedule.Schedule
	err := r.schedules.ChangeSchedules(ctx, schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}},
		func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			current := found[0].Schedule
			if current == nil || !current.Alive() {
				return nil, notFound(scheduleID)
			}
			after = current
			change, err := decide(current, r.now())
			if err != nil || change == nil {
				return nil, err
			}
			after = change.Row
			return []schedule.Change{*change}, nil
		})
	if err != nil {
		return View{}, err
	}
	failpoint.Hit(failpoint.PausedOrResumed)
	return view(after, r.now()), nil
}

func notFound(scheduleID string) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no schedule %s", schedule.Quote(scheduleID))
}
