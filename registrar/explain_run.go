package registrar

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

const (
	// maxShownFlights bounds the runs in flight that an explanation names.
	maxShownFlights = 5
	// launchersWithin is how lately a launcher must have been seen to count.
	launchersWithin = time.Minute
)

// ExplainRun answers why a run is where it is. For the run of a slot it says what Explain says
// of the slot.
func (r *Registrar) ExplainRun(ctx context.Context, key schedule.Key) (explain.RunAnswer, error) {
	run, err := r.runs.GetRun(ctx, key)
	if err != nil {
		return explain.RunAnswer{}, err
	}
	if !run.Queue.In() && key == schedule.SlotKey(run.ScheduleID, run.RunAt) {
		return r.explainSlotOf(ctx, run)
	}
	f := explain.RunFacts{Run: run, Now: r.now(), Launchers: -1}
	if f.Attempts, err = r.LaunchAttempts(ctx, run); err != nil {
		return explain.RunAnswer{}, err
	}
	if f.Result, err = r.RunResult(ctx, run); err != nil {
		return explain.RunAnswer{}, err
	}
	if run.Trigger.MayHaveEvents() && r.events != nil {
		if f.Batch, err = r.events.EventsOf(ctx, key); err != nil {
			return explain.RunAnswer{}, err
		}
	}
	revisions, err := r.schedules.ListRevisions(ctx, run.ScheduleID, run.Revision+1, 1)
	if err != nil {
		return explain.RunAnswer{}, err
	}
	if len(revisions) == 1 && revisions[0].Revision == run.Revision {
		f.Definition = &revisions[0].Definition
	}
	if next, retried := run.RetriedBy(); retried {
		if f.Next, err = r.runs.GetRun(ctx, next); err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return explain.RunAnswer{}, err
		}
	}
	if run.Queue.In() && run.Stage() == schedule.StatusPlanned && r.entries != nil {
		if err := r.addWaitingPlace(ctx, &f); err != nil {
			return explain.RunAnswer{}, err
		}
		if f.Start, err = r.estimateStart(ctx, &f); err != nil {
			return explain.RunAnswer{}, err
		}
	}
	return explain.DeriveRun(f), nil
}

func (r *Registrar) explainSlotOf(ctx context.Context, run *schedule.Run) (explain.RunAnswer, error) {
	a, err := r.Explain(ctx, run.ScheduleID, run.RunAt)
	if err != nil {
		return explain.RunAnswer{}, err
	}
	return a.OfRun(run), nil
}

// addWaitingPlace adds what is known of the queue of a run that waits.
func (r *Registrar) addWaitingPlace(ctx context.Context, f *explain.RunFacts) (err error) {
	if f.Position, err = r.Position(ctx, f.Run); err != nil {
		return err
	}
	if f.Run.Queue.State == schedule.QueueChained && r.groups != nil {
		if f.Predecessor, err = r.groups.FirstMember(ctx, f.Run.Queue.GroupNo); err != nil {
			return err
		}
	}
	place, err := r.entries.ReadWaitingPlace(ctx, f.Run, maxShownPosition, maxShownFlights, r.now())
	if err != nil || place.Queue == nil {
		return err
	}
	f.Turns = place.Turns
	f.Queue, f.Before, f.Sees = &place.QueueFacts, place.Before, auth.FromContext(ctx).Sees
	flights, err := r.readableRuns(ctx, place.Flights)
	if err != nil {
		return err
	}
	for _, run := range flights {
		f.InFlight = append(f.InFlight, run.Key)
	}
	f.LimitUses, f.LimitReserved = make(map[schedule.LimitRef][]schedule.Key), make(map[schedule.LimitRef][]schedule.Reservation)
	f.LimitKept = make(map[schedule.LimitRef]*schedule.Run)
	for ref, users := range place.Uses {
		found, err := r.readableRuns(ctx, users)
		if err != nil {
			return err
		}
		for _, run := range found {
			f.LimitUses[ref] = append(f.LimitUses[ref], run.Key)
			if !run.Queue.State.Admitted() && run.Queue.Kept.Has(ref) {
				f.LimitKept[ref] = run
			}
		}
		if f.LimitReserved[ref], err = r.reservationsAmong(ctx, users); err != nil {
			return err
		}
	}
	if r.instances == nil {
		return nil
	}
	instances, err := r.instances.Instances(ctx, launchersWithin)
	if err != nil {
		return err
	}
	f.Launchers = 0
	for i := range instances {
		if instances[i].Has("launcher") {
			f.Launchers++
		}
	}
	return nil
}

// readableRuns are the runs that the caller may read.
func (r *Registrar) readableRuns(ctx context.Context, keys []schedule.Key) (found []*schedule.Run, err error) {
	for _, key := range keys {
		run, err := r.runs.GetRun(ctx, key)
		switch {
		case err == nil:
			found = append(found, run)
		case !errors.Is(err, schedule.ErrNotFound):
			return nil, err
		}
	}
	return found, nil
}

// reservationsAmong are the users of a limit that are no runs.
func (r *Registrar) reservationsAmong(ctx context.Context, users []schedule.Key) (found []schedule.Reservation, err error) {
	if r.reservations == nil {
		return nil, nil
	}
	for _, id := range users {
		one, err := r.reservations.GetReservation(ctx, id)
		switch {
		case err == nil:
			found = append(found, *one)
		case !errors.Is(err, schedule.ErrNotFound):
			return nil, err
		}
	}
	return found, nil
}
