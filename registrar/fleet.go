package registrar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// ListUpcoming searches these spans in order: the nearest slots are requested most, and a near
// bound reads few schedules.
var upcomingSpans = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 8 * 24 * time.Hour}

// Defaults of an overview. lateAfter leaves out a tick and a retry.
const (
	lateAfter      = 5 * time.Second
	overviewAhead  = time.Hour
	overviewFailed = 24 * time.Hour
)

// UpcomingView is an active schedule and the slot that it is listed by.
type UpcomingView struct {
	View
	At time.Time
}

// ListUpcoming answers active schedules in the order of their next slots.
func (r *Registrar) ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]UpcomingView, error) {
	if r.fleet == nil {
		return nil, schedule.Explain(schedule.ErrUnsupported, "this process does not list schedules by next_run_at")
	}
	if f.State != "" && f.State != schedule.StateActive {
		return nil, schedule.Invalid("state", string(f.State), "has no next slot to order by", "leave it out, or order by schedule_id")
	}
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	f.Now = r.now()
	found, err := r.upcoming(ctx, f)
	if err != nil {
		return nil, err
	}
	views := make([]View, len(found))
	for i := range found {
		views[i] = view(&found[i].Schedule, f.Now)
	}
	if err := r.addRecent(ctx, views, schedule.RecentOutcomes); err != nil {
		return nil, err
	}
	out := make([]UpcomingView, len(found))
	for i := range found {
		out[i] = UpcomingView{View: views[i], At: found[i].NextAt}
	}
	return out, nil
}

func (r *Registrar) upcoming(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Upcoming, error) {
	before := f.NextBefore
	for _, span := range upcomingSpans {
		f.NextBefore = f.Now.Add(span)
		if !before.IsZero() && !f.NextBefore.Before(before) {
			break
		}
		if !f.NextBefore.After(f.AfterNext) {
			continue
		}
		if found, err := r.fleet.ListUpcoming(ctx, f); err != nil || len(found) == f.Limit {
			return found, err
		}
	}
	f.NextBefore = before
	return r.fleet.ListUpcoming(ctx, f)
}

// Overview counts the schedules and runs that the caller sees. Zero times take
// their defaults.
func (r *Registrar) Overview(ctx context.Context, q schedule.FleetQuery) (schedule.FleetCounts, error) {
	if r.fleet == nil {
		return schedule.FleetCounts{}, schedule.Explain(schedule.ErrUnsupported, "this process gives no overview")
	}
	if !ownOnly(ctx, &q.UserID) {
		return schedule.FleetCounts{}, nil
	}
	q.Now = r.now()
	q.DueBefore = q.Now.Add(-lateAfter)
	if q.NextBefore.IsZero() {
		q.NextBefore = q.Now.Add(overviewAhead)
	}
	if q.FailedSince.IsZero() {
		q.FailedSince = q.Now.Add(-overviewFailed)
	}
	return r.fleet.CountFleet(ctx, q)
}

// candidatesNamed is how many runs an ambiguous key names.
const candidatesNamed = 5

// RunKey is the key that starts with or equals text. Only runs that the caller may see count, so
// that no prefix reveals others.
func (r *Registrar) RunKey(ctx context.Context, text string) (schedule.Key, error) {
	keys, err := schedule.ParseKeyPrefix(text)
	if err != nil || keys.First == keys.Last {
		return keys.First, err
	}
	found, err := r.runs.ListRuns(ctx, schedule.RunFilter{
		UserID: auth.FromContext(ctx).Owner, Keys: keys, Statuses: schedule.Statuses, Now: r.now(), Limit: candidatesNamed + 1,
	})
	switch {
	case err != nil:
		return schedule.Key{}, err
	case len(found) == 0:
		return schedule.Key{}, schedule.Explain(schedule.ErrNotFound, "there is no run with a key that begins with %s", text)
	case len(found) == 1:
		return found[0].Key, nil
	}
	return schedule.Key{}, schedule.Invalid("idempotency_key", text, "begins the keys of "+candidates(found), "give more digits")
}

// RunOfID finds the run with a whole key, or the one with a run_id that the executor gave.
func (r *Registrar) RunOfID(ctx context.Context, id string) (schedule.Key, error) {
	if key, err := schedule.ParseKey(id); err == nil {
		return key, nil
	}
	found, err := r.runs.ListRuns(ctx, schedule.RunFilter{
		UserID: auth.FromContext(ctx).Owner, RunID: id, Statuses: schedule.Statuses, Now: r.now(), Limit: candidatesNamed + 1,
	})
	switch {
	case err != nil:
		return schedule.Key{}, err
	case len(found) == 0:
		return schedule.Key{}, schedule.Explain(schedule.ErrNotFound, "there is no run with the key or run_id %s", schedule.Quote(id))
	case len(found) == 1:
		return found[0].Key, nil
	}
	return schedule.Key{}, schedule.Invalid("run_id", id, "is that of "+candidates(found), "give the idempotency_key of one of them")
}

// candidates lists runs by as many digits of their keys as distinguish them.
func candidates(runs []schedule.Run) string {
	const digits = 16 // 64 bits: enough for any ledger
	var names []string
	for i := range runs[:min(len(runs), candidatesNamed)] {
		run := &runs[i]
		names = append(names, fmt.Sprintf("%s (%s, %s, %s)", run.Key.String()[:digits], run.ScheduleID, run.RunAt.Format(time.RFC3339), run.Status))
	}
	if len(runs) > candidatesNamed {
		return strings.Join(names, ", ") + " and more runs"
	}
	return fmt.Sprintf("%d runs: %s", len(runs), strings.Join(names, ", "))
}
