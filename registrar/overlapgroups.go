package registrar

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// OverlapGroup is an overlap group as it is now.
type OverlapGroup struct {
	OverlapKey string
	UserID     string
	WorkflowID string // of all its schedules; "": they have several
	Status     schedule.OverlapStatus
	Issue      string // for people; "": nothing is wrong
	Schedules  []View // by schedule_id
	Recent     []OverlapActivity
	Running    []schedule.Run
	Waiting    []WaitingRun // in the order in which they start
	OldestAt   time.Time    // since when the one that waits longest waits, or was due
}

// OverlapActivity is a run that has ended.
type OverlapActivity struct {
	ScheduleID string
	schedule.EndedRun
}

// WaitingRun is a run that waits for its overlap group.
type WaitingRun struct {
	Run schedule.Run
	Why string
}

// ListOverlapGroups returns the groups with a schedule of policy coalesce. after is the key of the
// last one of the page before, as user_id/overlap_key.
func (r *Registrar) ListOverlapGroups(ctx context.Context, f schedule.OverlapKeyFilter) ([]OverlapGroup, error) {
	if r.overlaps == nil {
		return nil, schedule.ErrUnsupported
	}
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	keys, err := r.overlaps.OverlapKeys(ctx, f)
	if err != nil {
		return nil, err
	}
	groups := make([]OverlapGroup, 0, len(keys))
	for _, key := range keys {
		g, err := r.overlapGroup(ctx, key)
		switch {
		case errors.Is(err, schedule.ErrNotFound): // its last schedule was deleted meanwhile
		case err != nil:
			return nil, err
		default:
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// GetOverlapGroup returns a group of an owner, whatever the policies of its schedules.
func (r *Registrar) GetOverlapGroup(ctx context.Context, userID, overlapKey string) (OverlapGroup, error) {
	key, err := r.overlapKey(ctx, userID, overlapKey)
	if err != nil {
		return OverlapGroup{}, err
	}
	return r.overlapGroup(ctx, key)
}

// overlapKey is a group as user_id/overlap_key.
func (r *Registrar) overlapKey(ctx context.Context, userID, overlapKey string) (string, error) {
	if r.overlaps == nil {
		return "", schedule.ErrUnsupported
	}
	owner := auth.FromContext(ctx).Owner
	userID = cmp.Or(userID, owner)
	var c schedule.Collect
	checkID(&c, "overlap_key", overlapKey)
	if userID == "" {
		c.Note("user_id", "is required", "owners can have the same overlap_key; name one")
	} else {
		checkOwner(&c, userID)
	}
	if err := c.Err(); err != nil {
		return "", err
	}
	if owner != "" && userID != owner {
		return "", noOverlapGroup(userID + "/" + overlapKey)
	}
	return userID + "/" + overlapKey, nil
}

func noOverlapGroup(key string) error {
	userID, overlapKey := schedule.SplitOverlapKey(key)
	return schedule.Explain(schedule.ErrNotFound, "owner %s has no schedule with overlap_key %s", schedule.Quote(userID), schedule.Quote(overlapKey))
}

func (r *Registrar) overlapGroup(ctx context.Context, key string) (g OverlapGroup, err error) {
	g.UserID, g.OverlapKey = schedule.SplitOverlapKey(key)
	now := r.now()
	rows, err := r.schedulesOfOverlap(ctx, key)
	if err != nil {
		return g, err
	}
	g.WorkflowID = rows[0].WorkflowID
	for i := range rows {
		g.Schedules = append(g.Schedules, view(&rows[i], now))
		if rows[i].WorkflowID != g.WorkflowID {
			g.WorkflowID = ""
		}
	}
	if err := r.addRecent(ctx, g.Schedules, schedule.MaxOverlapActivity); err != nil {
		return g, err
	}
	g.addActivity()
	if err := r.openOfOverlap(ctx, &g, key, now); err != nil {
		return g, err
	}
	g.Status = g.status()
	return g, nil
}

// schedulesOfOverlap are the living schedules of a group; schedule.ErrNotFound if there is none.
func (r *Registrar) schedulesOfOverlap(ctx context.Context, key string) (rows []schedule.Schedule, err error) {
	ids, err := r.overlaps.SchedulesOfOverlap(ctx, key, schedule.MaxOverlapSchedules)
	if err != nil {
		return nil, err
	}
	found, err := r.unscoped.ReadSchedules(ctx, schedule.ChangeRequest{ScheduleIDs: ids})
	if err != nil {
		return nil, err
	}
	for _, in := range found {
		if s := in.Schedule; s != nil && s.Alive() && s.QualifiedOverlapKey() == key {
			rows = append(rows, *s)
		}
	}
	if len(rows) == 0 {
		return nil, noOverlapGroup(key)
	}
	return rows, nil
}

// addActivity adds how the last runs of the schedules ended, and what is wrong.
func (g *OverlapGroup) addActivity() {
	var worst *schedule.Failure
	for _, v := range g.Schedules {
		for _, e := range v.Recent.Outcomes {
			g.Recent = append(g.Recent, OverlapActivity{v.Schedule.ScheduleID, e})
		}
		if f := v.Recent.Failure; f != nil && (worst == nil || f.LastEndedAt.After(worst.LastEndedAt)) {
			worst = f
		}
	}
	slices.SortStableFunc(g.Recent, func(a, b OverlapActivity) int { return b.EndedAt.Compare(a.EndedAt) })
	g.Recent = g.Recent[:min(len(g.Recent), schedule.MaxOverlapActivity)]
	if worst != nil {
		g.Issue = fmt.Sprintf("%s fails since %s: run %s ended %s", worst.ScheduleID, describe.Instant(worst.FirstEndedAt), worst.LastKey, worst.Reason.WithCode(worst.ErrorCode))
	}
}

// openOfOverlap adds the runs in flight and those that wait.
func (r *Registrar) openOfOverlap(ctx context.Context, g *OverlapGroup, key string, now time.Time) error {
	keys, err := r.overlaps.OpenOfOverlap(ctx, schedule.OpenAsk{OverlapKey: key, DueBy: now, Limit: 2 * schedule.MaxOverlapRuns})
	if err != nil || len(keys) == 0 {
		return err
	}
	runs, err := r.ledger.ListRuns(ctx, schedule.RunFilter{AnyOf: keys, Now: now, Limit: len(keys)})
	if err != nil {
		return err
	}
	of := schedule.OverlapGroup{OverlapKey: key, Now: now}
	waiting := make(map[schedule.Key]*schedule.Run)
	for i := range runs {
		switch row := &runs[i]; {
		case row.Status.Terminal(): // it has ended meanwhile
		case row.Status.InFlight() || row.Queue.In():
			if len(g.Running) < schedule.MaxOverlapRuns {
				g.Running = append(g.Running, *row)
			}
		case row.WaitingSince.IsZero():
			of.Due, waiting[row.Key] = append(of.Due, *row), row
		default:
			of.Waiting, waiting[row.Key] = append(of.Waiting, *row), row
		}
	}
	order := ledger.OverlapOrder(of)
	for i, k := range order[:min(len(order), schedule.MaxOverlapRuns)] {
		g.Waiting = append(g.Waiting, WaitingRun{*waiting[k], g.why(order[:i], waiting)})
	}
	for _, row := range waiting {
		if since := cmp.Or(row.WaitingSince, row.FireAt); g.OldestAt.IsZero() || since.Before(g.OldestAt) {
			g.OldestAt = since
		}
	}
	return nil
}

// why a run does not run yet; before are those that start before it.
func (g *OverlapGroup) why(before []schedule.Key, of map[schedule.Key]*schedule.Run) string {
	switch {
	case len(before) > 0:
		last := of[before[len(before)-1]]
		return fmt.Sprintf("after run %s of %s", last.Key, last.ScheduleID)
	case len(g.Running) > 0:
		return fmt.Sprintf("waits for run %s of %s, in flight since %s", g.Running[0].Key, g.Running[0].ScheduleID, describe.Instant(g.Running[0].FlightSince()))
	}
	return "starts next"
}

func (g *OverlapGroup) status() schedule.OverlapStatus {
	switch {
	case len(g.Running) > 0:
		return schedule.OverlapRunning
	case !slices.ContainsFunc(g.Schedules, func(v View) bool { return !v.Paused }):
		return schedule.OverlapStopped
	}
	return schedule.OverlapIdle
}

// RunOverlapInput is a request to run the schedules of an overlap group.
type RunOverlapInput struct {
	UserID     string
	OverlapKey string
	RequestID  string // "": a random one
	Actor      string
}

// RunOverlapGroup starts one manual run of each schedule of a group that has a time rule and is not
// paused, in one transaction; the group lets them run one after the other. repeated: an earlier
// request had the id, and its runs are returned.
func (r *Registrar) RunOverlapGroup(ctx context.Context, in RunOverlapInput) (runs []schedule.Run, repeated bool, err error) {
	in.RequestID = orDefault(in.RequestID, rand.Text())
	var c schedule.Collect
	checkID(&c, "request_id", in.RequestID)
	key, err := r.overlapKey(ctx, in.UserID, in.OverlapKey)
	if err := cmp.Or(c.Err(), err); err != nil {
		return nil, false, err
	}
	ids, err := r.overlaps.SchedulesOfOverlap(ctx, key, schedule.MaxOverlapSchedules)
	if err != nil {
		return nil, false, err
	}
	if len(ids) == 0 {
		return nil, false, noOverlapGroup(key)
	}
	if runs, err = r.startedBy(ctx, ids, in.RequestID); len(runs) > 0 || err != nil {
		return runs, true, err
	}
	req := schedule.ChangeRequest{ScheduleIDs: ids, Open: schedule.OpenAsk{OverlapKey: key, DueBy: r.now(), Limit: 1}}
	var changeErr error
	if changeErr = r.schedules.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		return r.runOverlap(found, key, &in)
	}); changeErr == nil {
		r.log.InfoContext(ctx, "overlap group started", "overlap_key", key, "request_id", in.RequestID)
	}
	// Also after a refusal: the same request may run concurrently, and then its runs are those that
	// wait.
	runs, err = r.startedBy(ctx, ids, in.RequestID)
	if len(runs) == 0 && err == nil {
		err = cmp.Or(changeErr, schedule.Explain(schedule.ErrNotFound, "the runs of request_id %q are already deleted", in.RequestID))
	}
	return runs, changeErr != nil, err
}

// startedBy are the runs that a request has started.
func (r *Registrar) startedBy(ctx context.Context, ids []string, requestID string) ([]schedule.Run, error) {
	keys := make([]schedule.Key, len(ids))
	for i, id := range ids {
		keys[i] = schedule.ManualKey(id, requestID)
	}
	runs, err := r.ledger.ListRuns(ctx, schedule.RunFilter{AnyOf: keys, Now: r.now(), Limit: len(keys)})
	slices.SortFunc(runs, func(a, b schedule.Run) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
	return runs, err
}

// runOverlap are the changes that start a group.
func (r *Registrar) runOverlap(found []schedule.ChangeInput, key string, in *RunOverlapInput) ([]schedule.Change, error) {
	now := r.now()
	var changes []schedule.Change
	timed, paused := 0, 0
	for _, f := range found {
		s := f.Schedule
		switch {
		case s == nil || !s.Alive() || s.QualifiedOverlapKey() != key:
			continue
		case len(f.Open) > 0:
			return nil, schedule.Explain(schedule.ErrPrecondition, "overlap_busy: run %s of overlap key %s is in flight or waits; wait until no run of the group does", f.Open[0], schedule.Quote(in.OverlapKey))
		case s.ByHand():
			continue
		}
		if timed++; s.Pause.Active(now) {
			paused++
			continue
		}
		changes = append(changes, turnOf(s, len(found), in, now))
	}
	switch {
	case timed == 0:
		return nil, schedule.Explain(schedule.ErrPrecondition, "no schedule of overlap key %s has a time rule; trigger one by its id", schedule.Quote(in.OverlapKey))
	case timed == paused:
		return nil, schedule.Explain(schedule.ErrPrecondition, "every schedule of overlap key %s is paused; resume one first", schedule.Quote(in.OverlapKey))
	}
	return changes, nil
}

// turnOf starts a schedule of a group. The run waits for its turn, whatever the schedule's own policy is.
func turnOf(s *schedule.Schedule, schedules int, in *RunOverlapInput, now time.Time) schedule.Change {
	policy := schedule.OverlapQueue
	if s.OverlapPolicy == schedule.OverlapCoalesce {
		policy = schedule.OverlapCoalesce
	}
	change := manualChange(s, in.RequestID, in.Actor, policy, now)
	row := &change.Runs[0]
	row.MaxQueued = max(row.MaxQueued, uint32(schedules))
	return change
}
