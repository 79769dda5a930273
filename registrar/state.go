package registrar

import (
	"context"
	"encoding/json"

	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
)

// StateInput replaces the state of a schedule.
type StateInput struct {
	ScheduleID string
	State      json.RawMessage
	Revision   int64 // that is replaced; 0: there is none
}

// GetState returns what runs of a schedule have kept for the next one.
func (r *Registrar) GetState(ctx context.Context, scheduleID string) (schedule.State, error) {
	if r.events == nil {
		return schedule.State{}, schedule.ErrUnsupported
	}
	if _, err := r.schedules.GetSchedule(ctx, scheduleID); err != nil {
		return schedule.State{}, err
	}
	return r.events.GetState(ctx, scheduleID)
}

// SetState replaces the state of a schedule. It is refused while a run of the overlap group is in flight,
// whose commit could replace it, and if the state has another revision.
func (r *Registrar) SetState(ctx context.Context, in StateInput) (schedule.State, error) {
	if r.events == nil {
		return schedule.State{}, schedule.ErrUnsupported
	}
	var c schedule.Collect
	result.CheckState(&c, in.State)
	if err := c.Err(); err != nil {
		return schedule.State{}, err
	}
	found, err := r.schedules.ReadSchedules(ctx, schedule.ChangeRequest{ScheduleIDs: []string{in.ScheduleID}, CountInFlight: true})
	switch {
	case err != nil:
		return schedule.State{}, err
	case found[0].Schedule == nil || !found[0].Schedule.Alive():
		return schedule.State{}, schedule.Explain(schedule.ErrNotFound, "no schedule %s", schedule.Quote(in.ScheduleID))
	case found[0].InFlight > 0:
		return schedule.State{}, schedule.Explain(schedule.ErrPrecondition, "overlap_busy: a run of schedule %s or of its overlap_key %s is in flight, and could replace the state; wait until it ends, or pause the schedule first",
			schedule.Quote(in.ScheduleID), schedule.Quote(found[0].Schedule.OverlapKey))
	}
	after, err := r.events.SetState(ctx, in.ScheduleID, in.Revision, in.State, r.now())
	if err == nil && after.Revision == 0 {
		err = schedule.Explain(schedule.ErrPrecondition, "the state of schedule %s has another revision than %d; read it again", schedule.Quote(in.ScheduleID), in.Revision)
	}
	return after, err
}
