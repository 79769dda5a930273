package registrar

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// CancelRuns cancels open runs as CancelRun does: one page of them, the newest run_at first, in one
// transaction. Going back from the newest, no member of a group is released behind one that was
// cancelled. A repeat finds only runs whose cancel the executor has not confirmed, and asks for
// none of them again.
func (r *Registrar) CancelRuns(ctx context.Context, in CancelRunsInput) (CancelledRuns, error) {
	return r.cancelRuns(ctx, r.runs, in)
}

func (r *Registrar) cancelRuns(ctx context.Context, runs RunStore, in CancelRunsInput) (CancelledRuns, error) {
	if err := r.checkCancel(ctx, &in); err != nil {
		return CancelledRuns{}, err
	}
	var out CancelledRuns
	page, err := runs.CancelRuns(ctx, in.Filter, func(found []schedule.Run) (schedule.CancelChange, error) {
		now := r.now()
		c := ledger.CancelEach(found, &ledger.CancelOrder{Named: in.Filter.AnyOf != nil, Waiting: in.Waiting, Now: now})
		out = CancelledRuns{Cancelled: len(c.Ended), Requested: len(c.Asked)}
		all := slices.Concat(c.Ended, c.Asked)
		out.Sample = all[:min(len(all), sampled)]
		out.Schedules, c.Change.Events = cancelledOf(&c, &in)
		if in.DryRun {
			return schedule.CancelChange{Now: now}, nil
		}
		return c.Change, nil
	})
	if err != nil {
		return CancelledRuns{}, err
	}
	if page.Found == in.Filter.Limit {
		out.Next = &CancelPlace{RunAt: page.RunAt, Key: page.Key}
	}
	if in.DryRun || out.Cancelled+out.Requested == 0 {
		return out, nil
	}
	for range out.Cancelled {
		r.ended(schedule.StatusCancelled, schedule.ReasonCancelled)
	}
	if in.Filter.QueueNo != 0 {
		r.counts.stale(in.Filter.QueueNo)
	}
	r.log.InfoContext(ctx, "runs cancelled", "cancelled", out.Cancelled, "requested", out.Requested, "schedules", len(out.Schedules))
	return out, nil
}

func (r *Registrar) checkCancel(ctx context.Context, in *CancelRunsInput) (err error) {
	f := &in.Filter
	f.Statuses, f.AfterRunAt, f.AfterKey, f.Now = schedule.OpenStatuses, in.Page.RunAt, in.Page.Key, r.now()
	f.Limit = min(cmp.Or(max(f.Limit, 0), schedule.MaxCancel), schedule.MaxCancel)
	if err := checkNote(in.Note); err != nil {
		return err
	}
	if !narrows(f) && f.GroupNo == 0 {
		var c schedule.Collect
		c.Note("filter", "names no runs", "set queue_id, schedule_id, workflow_id, user_id, from, to or keys")
		return c.Err()
	}
	f.ScheduleID, err = r.named(ctx, f.ScheduleID)
	return err
}

// cancelledOf counts cancelled runs by schedule, and makes the event of each schedule.
func cancelledOf(c *ledger.Cancelled, in *CancelRunsInput) (counts []CancelledSchedule, events []schedule.Event) {
	of := make(map[string]*CancelledSchedule)
	event := make(map[string]*schedule.Event)
	add := func(run *schedule.Run) *CancelledSchedule {
		e := event[run.ScheduleID]
		if e == nil {
			of[run.ScheduleID] = &CancelledSchedule{ScheduleID: run.ScheduleID}
			e = &schedule.Event{
				ScheduleID: run.ScheduleID, Time: c.Change.Now, Kind: schedule.EventCancelAsked, From: run.RunAt, To: run.RunAt,
				Reason: schedule.ReasonCancelled, Actor: in.Actor, Note: in.Note, Revision: run.Revision,
			}
			event[run.ScheduleID] = e
		}
		e.Count++
		if run.RunAt.Before(e.From) {
			e.From = run.RunAt
		}
		e.To, e.Revision = schedule.Later(e.To, run.RunAt), max(e.Revision, run.Revision)
		return of[run.ScheduleID]
	}
	for i := range c.Ended {
		add(&c.Ended[i]).Cancelled++
	}
	for i := range c.Asked {
		add(&c.Asked[i]).Requested++
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		counts, events = append(counts, *of[id]), append(events, *event[id])
	}
	return counts, events
}
