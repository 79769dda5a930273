package registrar

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// sampled is how many runs an answer of RedriveRuns shows.
const sampled = 20

// RedriveRuns retries dead runs by hand: one page of them, in one transaction. A page that was
// redriven has no dead runs left but those of deleted schedules and queues, so a repeat finds none.
func (r *Registrar) RedriveRuns(ctx context.Context, in RedriveInput) (RedriveResult, error) {
	if err := r.checkRedrive(ctx, &in); err != nil {
		return RedriveResult{}, err
	}
	var out RedriveResult
	page, err := r.runs.RedriveRuns(ctx, in.Filter, func(found []schedule.RunInput) (schedule.RedriveChange, error) {
		now := r.now()
		order := schedule.RedriveOrder{
			RequestID: in.RequestID, RequestedBy: in.Actor, Renew: in.Renew, JobAttempts: r.cfg.DefaultMaxAttempts, RatePerMinute: in.RatePerMinute, Before: in.Page.Before, Began: in.Page.Began, Now: now,
		}
		runs, left := ledger.Redrive(found, &order)
		out = RedriveResult{Redriven: len(runs), Left: left}
		change := schedule.RedriveChange{Runs: runs, Now: now}
		out.Schedules, change.Events = redriven(found, runs, &in, now)
		if out.Sample = runs[:min(len(runs), sampled)]; in.DryRun {
			out.Sample = deadOf(found, out.Sample)
			return schedule.RedriveChange{Now: now}, nil
		}
		return change, nil
	})
	if err != nil {
		return RedriveResult{}, err
	}
	out.RequestID = in.RequestID
	if page.Found == in.Filter.Limit {
		out.Next = &RedrivePlace{Began: in.Page.Began, Before: in.Page.Before + out.Redriven, RunAt: page.RunAt, Key: page.Key, RequestID: in.RequestID}
	}
	if !in.DryRun && out.Redriven > 0 {
		r.log.InfoContext(ctx, "dead runs redriven", "runs", out.Redriven, "schedules", len(out.Schedules), "request_id", in.RequestID)
	}
	return out, nil
}

func (r *Registrar) checkRedrive(ctx context.Context, in *RedriveInput) error {
	f := &in.Filter
	if in.Page.RequestID != "" {
		in.RequestID = in.Page.RequestID
	}
	in.RequestID = orDefault(in.RequestID, rand.Text())
	if in.Page.Began.IsZero() {
		in.Page.Began = r.now()
	}
	f.Dead, f.Ascending, f.AfterRunAt, f.AfterKey = true, true, in.Page.RunAt, in.Page.Key
	f.Limit = min(cmp.Or(max(f.Limit, 0), schedule.MaxRedrive), schedule.MaxRedrive)
	var c schedule.Collect
	checkID(&c, "request_id", in.RequestID)
	if !in.All && !narrows(f) {
		c.Note("filter", "names no runs", "set queue_id, schedule_id, workflow_id, user_id, reason, error_code, failure_class, from, to or keys, or all to redrive every dead run")
	}
	if err := c.Err(); err != nil {
		return err
	}
	var err error
	f.ScheduleID, err = r.named(ctx, f.ScheduleID)
	return err
}

// narrows reports whether a filter names some dead runs only.
func narrows(f *schedule.RunFilter) bool {
	return f.ScheduleID != "" || f.WorkflowID != "" || f.UserID != "" || f.Reason != "" || f.ErrorCode != "" || f.Class != "" ||
		!f.From.IsZero() || !f.To.IsZero() || f.AnyOf != nil || f.QueueNo != 0
}

// redriven counts new runs by schedule, and makes the event of each schedule.
func redriven(found []schedule.RunInput, runs []schedule.Run, in *RedriveInput, now time.Time) (counts []RedrivenSchedule, events []schedule.Event) {
	of := make(map[string]*schedule.Event)
	for i := range found {
		if s := found[i].Schedule; s != nil && of[s.ScheduleID] == nil {
			e := newEvent(s, schedule.EventRetried, in.Actor, now)
			of[s.ScheduleID] = &e
		}
	}
	for i := range runs { // oldest first
		e := of[runs[i].ScheduleID]
		if e.Count == 0 {
			e.From = runs[i].RunAt
		}
		e.To = runs[i].RunAt
		e.Count++
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if e := of[id]; e.Count > 0 {
			e.Note = fmt.Sprintf("redrive of dead runs, request_id %s", in.RequestID)
			counts, events = append(counts, RedrivenSchedule{ScheduleID: id, Runs: int(e.Count)}), append(events, *e)
		}
	}
	return counts, events
}

// deadOf are the dead runs that new runs retry.
func deadOf(found []schedule.RunInput, runs []schedule.Run) (dead []schedule.Run) {
	for i := range found {
		if slices.ContainsFunc(runs, func(r schedule.Run) bool { return r.RetryOf == found[i].Run.Key }) {
			dead = append(dead, found[i].Run)
		}
	}
	return dead
}
