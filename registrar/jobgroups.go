package registrar

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// GroupInput is a request to make a group of runs of a queue.
type GroupInput struct {
	GroupID    string
	QueueID    string
	UserID     string // of the group and its runs; "": see EnqueueRunRequest
	Mode       schedule.GroupMode
	OnFailure  schedule.GroupFailure
	Runs       []QueuedInput
	Sealed     bool
	OnComplete *QueuedInput
	Webhook    string
	Actor      string `json:"-"`
}

// ChangedGroup is a group after a call, with the runs that were added.
type ChangedGroup struct {
	Group    *schedule.JobGroup
	Keys     []schedule.Key
	Repeated bool // the request was made before: nothing was added
}

// CreateGroup makes a group and puts its first members into the queue, all or none. The same
// request again returns the group; another one under its id is schedule.ErrExists.
func (r *Registrar) CreateGroup(ctx context.Context, in GroupInput) (ChangedGroup, error) {
	in.resolve()
	if err := in.check(); err != nil {
		return ChangedGroup{}, err
	}
	text, err := json.Marshal(in)
	if err != nil {
		panic("hash the request: " + err.Error()) // its inputs were checked
	}
	g := schedule.JobGroup{
		GroupID: in.GroupID, Mode: in.Mode, OnFailure: in.OnFailure, State: schedule.GroupRunning, Sealed: in.Sealed, Webhook: in.Webhook,
		BodyHash: sha256.Sum256(text),
	}
	e := &enqueue{EnqueueInput: EnqueueInput{QueueID: in.QueueID, UserID: in.UserID, Runs: in.Runs, Batch: true, newGroup: true, Actor: in.Actor}}
	if in.OnComplete != nil {
		e.Runs, e.completes = append(append([]QueuedInput(nil), in.Runs...), *in.OnComplete), true
	}
	e.join = func(f schedule.EnqueueFacts, out *schedule.Enqueue) error {
		after := g
		after.UserID, after.QueueNo, after.CreatedAt = e.UserID, f.Queue.No, out.Now.Truncate(time.Microsecond)
		if e.completes {
			after.OnComplete = completion(&out.Runs[len(in.Runs)])
			out.Runs, e.out.Keys = out.Runs[:len(in.Runs)], e.out.Keys[:len(in.Runs)]
		}
		ledger.EnterGroup(&after, out.Runs, false)
		out.Group = &after
		return nil
	}
	return r.makeGroup(ctx, e, &g)
}

func (in *GroupInput) resolve() {
	if in.QueueID == "" {
		in.QueueID = schedule.DefaultQueueID
	}
	if in.Mode == "" {
		in.Mode = schedule.GroupParallel
	}
	if in.OnFailure == "" {
		if in.OnFailure = schedule.GroupContinue; in.Mode == schedule.GroupSequential {
			in.OnFailure = schedule.GroupStop
		}
	}
}

// check adds what is wrong with a group, its runs aside.
func (in *GroupInput) check() error {
	var c schedule.Collect
	checkID(&c, "group_id", in.GroupID)
	if in.Mode != schedule.GroupParallel && in.Mode != schedule.GroupSequential {
		c.Add("mode", in.Mode, "is not parallel or sequential", "")
	}
	if in.OnFailure != schedule.GroupStop && in.OnFailure != schedule.GroupContinue {
		c.Add("on_failure", in.OnFailure, "is not stop or continue", "")
	}
	return c.Err()
}

// completion is a run as a group keeps it for its end.
func completion(r *schedule.Run) *schedule.GroupRun {
	return &schedule.GroupRun{
		ScheduleID: r.ScheduleID, Revision: r.Revision, OverlapKey: r.OverlapKey, MaxQueued: r.MaxQueued, Input: r.Input, Priority: r.Priority,
		MaxAttempts: r.MaxAttempts, Limits: r.Queue.Limits, Webhook: r.Webhook, FairKey: r.Queue.FairKey, RequestedBy: r.RequestedBy, WorkflowID: r.WorkflowID, Version: r.Version,
	}
}

// makeGroup enters a new group. Its owner is that of the request, of its runs, or of the queue.
func (r *Registrar) makeGroup(ctx context.Context, e *enqueue, g *schedule.JobGroup) (out ChangedGroup, err error) {
	if r.groups == nil {
		return out, schedule.ErrUnsupported
	}
	e.joins = g.GroupID
	e.made = func(f schedule.EnqueueFacts) (bool, error) {
		if f.Group == nil {
			return false, nil
		}
		if f.Group.BodyHash != g.BodyHash || !auth.FromContext(ctx).Sees(f.Group.UserID) {
			return false, schedule.Explain(schedule.ErrExists, "group_id %s names another group: choose another id", schedule.Quote(g.GroupID))
		}
		return true, nil
	}
	done, err := r.enter(ctx, e, func(q *schedule.Queue) error {
		if g.Webhook == "" {
			return nil
		}
		var c schedule.Collect
		r.checkWebhook(&c, g.Webhook, e.UserID, false)
		return c.Err()
	})
	if err != nil {
		if found, lookErr := r.groups.GetJobGroup(ctx, g.GroupID); lookErr == nil && found.BodyHash == g.BodyHash && auth.FromContext(ctx).Sees(found.UserID) {
			done, err = Enqueued{Repeated: true}, nil // what it names may be gone now
		}
	}
	if err != nil {
		return out, err
	}
	out.Keys, out.Repeated = done.Keys, done.Repeated
	out.Group, err = r.GetGroup(ctx, g.GroupID)
	return out, err
}

// AddInput is a request to add members to a group.
type AddInput struct {
	GroupID   string
	RequestID string // "": a repeat adds further members
	Runs      []QueuedInput
	Actor     string
}

// AddToGroup puts more members into the queue of a group, all or none.
func (r *Registrar) AddToGroup(ctx context.Context, in AddInput) (out ChangedGroup, err error) {
	g, err := r.GetGroup(ctx, in.GroupID)
	if err != nil {
		return out, err
	}
	done, err := r.Enqueue(ctx, EnqueueInput{QueueID: g.QueueID, UserID: g.UserID, RequestID: in.RequestID, GroupID: in.GroupID, Runs: in.Runs, Batch: true, Actor: in.Actor})
	if err != nil {
		return out, err
	}
	out.Keys, out.Repeated = done.Keys, done.Repeated
	out.Group, err = r.GetGroup(ctx, in.GroupID)
	return out, err
}

// joinGroup adds the runs of a request to the group that it names.
func (e *enqueue) joinGroup(f schedule.EnqueueFacts, out *schedule.Enqueue) error {
	g := f.Group
	id := schedule.Quote(e.GroupID)
	switch {
	case g == nil || e.owner != "" && e.owner != g.UserID:
		return noGroup(e.GroupID)
	case g.QueueNo != f.Queue.No:
		return schedule.Invalid("group_id", e.GroupID, "is a group of another queue", "all members of a group are in one queue")
	case g.UserID != e.UserID:
		return schedule.Invalid("group_id", e.GroupID, "belongs to owner "+schedule.Quote(g.UserID)+", the runs to "+schedule.Quote(e.UserID), "all members of a group have its owner")
	case g.State != schedule.GroupRunning:
		return schedule.Explain(schedule.ErrPrecondition, "cannot add to group %s: it ended %s at %s", id, g.State, g.EndedAt.Format(time.RFC3339))
	case g.Sealed:
		return schedule.Explain(schedule.ErrPrecondition, "cannot add to group %s: it is sealed; make another group", id)
	case int(g.Members)+len(out.Runs) > schedule.MaxGroupMembers:
		return schedule.Explain(schedule.ErrPrecondition, "cannot add to group %s: it would have %d members, more than %d; make another group", id, int(g.Members)+len(out.Runs), schedule.MaxGroupMembers)
	}
	after := *g
	ledger.EnterGroup(&after, out.Runs, f.GroupOpen)
	out.Group = &after
	return nil
}

func noGroup(groupID string) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no group %s", schedule.Quote(groupID))
}

// GetGroup returns a group of the caller with its members counted.
func (r *Registrar) GetGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error) {
	if r.groups == nil {
		return nil, schedule.ErrUnsupported
	}
	g, err := r.groups.GetJobGroup(ctx, groupID)
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return nil, noGroup(groupID)
	case err != nil:
		return nil, err
	case !auth.FromContext(ctx).Sees(g.UserID):
		return nil, noGroup(groupID)
	}
	g.QueueID, err = r.queueID(ctx, g.QueueNo)
	return g, err
}

// GroupOfNo is the group with a number, of any owner: the messages about its end show it.
func (r *Registrar) GroupOfNo(ctx context.Context, no int32) (*schedule.JobGroup, error) {
	if r.groups == nil {
		return nil, schedule.ErrNotFound
	}
	g, err := r.groups.JobGroupByNo(ctx, no)
	if err == nil {
		g.QueueID, err = r.queueID(ctx, g.QueueNo)
	}
	return g, err
}

// ListGroups lists groups, newest first. An owner sees its own.
func (r *Registrar) ListGroups(ctx context.Context, f schedule.GroupFilter) ([]schedule.JobGroup, error) {
	if !ownOnly(ctx, &f.UserID) || r.groups == nil {
		return nil, nil
	}
	groups, err := r.groups.ListJobGroups(ctx, f)
	for i := range groups {
		if err == nil {
			groups[i].QueueID, err = r.queueID(ctx, groups[i].QueueNo)
		}
	}
	return groups, err
}

// SealGroup says that no member comes any more. A sealed group stays unchanged.
func (r *Registrar) SealGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error) {
	return r.changeGroup(ctx, groupID, func(g *schedule.JobGroup, now time.Time) (bool, error) {
		changed := !g.Sealed
		g.Sealed = true
		return changed, nil
	})
}

// CancelGroup cancels the members of a group, and then the group.
func (r *Registrar) CancelGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error) {
	return r.changeGroup(ctx, groupID, func(g *schedule.JobGroup, now time.Time) (bool, error) {
		switch {
		case g.State == schedule.GroupCancelled || !g.CancelRequestedAt.IsZero():
			return false, nil
		case g.State != schedule.GroupRunning:
			return false, schedule.Explain(schedule.ErrPrecondition, "cannot cancel group %s: it ended %s at %s", schedule.Quote(groupID), g.State, g.EndedAt.Format(time.RFC3339))
		}
		g.Sealed, g.CancelRequestedAt = true, now
		return true, nil
	})
}

func (r *Registrar) changeGroup(ctx context.Context, groupID string, edit func(*schedule.JobGroup, time.Time) (bool, error)) (*schedule.JobGroup, error) {
	if r.groups == nil {
		return nil, schedule.ErrUnsupported
	}
	call := auth.CallFrom(ctx)
	_, err := r.groups.ChangeJobGroup(ctx, groupID, func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		if g == nil || !auth.FromContext(ctx).Sees(g.UserID) {
			return schedule.GroupChange{}, noGroup(groupID)
		}
		now := r.now()
		changed, err := edit(g, now)
		if err != nil || !changed {
			return schedule.GroupChange{}, err
		}
		change := schedule.GroupChange{After: g, Now: now}
		if call != nil && call.Audited {
			change.Audit = entry(call, groupID, now)
			change.Audit.UserID = g.UserID
		}
		return change, nil
	})
	if err != nil {
		return nil, err
	}
	if call != nil {
		call.Recorded = call.Audited
	}
	return r.GetGroup(ctx, groupID)
}

// runningGroups are groups of a queue that have not ended.
func (r *Registrar) runningGroups(ctx context.Context, q *schedule.Queue) ([]schedule.JobGroup, error) {
	if r.groups == nil {
		return nil, nil
	}
	return r.groups.ListJobGroups(ctx, schedule.GroupFilter{QueueNo: q.No, State: schedule.GroupRunning, Limit: schedule.MaxPageSize})
}

// refuseGroups refuses the deletion of a queue with groups that have not ended.
func (r *Registrar) refuseGroups(ctx context.Context, q *schedule.Queue) error {
	running, err := r.runningGroups(ctx, q)
	if err != nil || len(running) == 0 {
		return err
	}
	return schedule.Explain(schedule.ErrPrecondition, "cannot delete queue %s: group %s has not ended; seal or cancel it, or set force (--force) to cancel what is in the queue",
		schedule.Quote(q.QueueID), schedule.Quote(running[0].GroupID))
}

// cancelGroups cancels the groups of a queue, and counts the members that end with them.
func (r *Registrar) cancelGroups(ctx context.Context, q *schedule.Queue) (cancelled int, err error) {
	for {
		running, err := r.runningGroups(ctx, q)
		if err != nil {
			return cancelled, err
		}
		left := 0
		for i := range running {
			if !running[i].CancelRequestedAt.IsZero() {
				continue
			}
			left++
			_, err := r.groups.ChangeJobGroup(ctx, running[i].GroupID, func(g *schedule.JobGroup) (schedule.GroupChange, error) {
				if g == nil || g.State != schedule.GroupRunning {
					return schedule.GroupChange{}, nil
				}
				now := r.now()
				g.Sealed, g.CancelRequestedAt = true, now
				return schedule.GroupChange{After: g, Now: now}, nil
			})
			if err != nil {
				return cancelled, err
			}
			after, err := r.groups.GetJobGroup(ctx, running[i].GroupID)
			if err != nil {
				return cancelled, err
			}
			cancelled += max(int(after.Cancelled-running[i].Cancelled), 0)
		}
		if left == 0 || len(running) < schedule.MaxPageSize {
			return cancelled, nil
		}
	}
}

// groupID is the id of a group by its number; "": it was pruned.
func (r *Registrar) groupID(ctx context.Context, no int32) (string, error) {
	if id, ok := r.groupIDs.Load(no); ok {
		return id.(string), nil
	}
	if r.groups == nil {
		return "", nil
	}
	id, err := r.groups.JobGroupID(ctx, no)
	if err != nil {
		return "", fmt.Errorf("id of a group: %w", err)
	}
	if id != "" && r.namedGroups.Add(1) > maxNamedGroups { // there may be millions
		r.groupIDs.Clear()
		r.namedGroups.Store(0)
	}
	if id != "" {
		r.groupIDs.Store(no, id)
	}
	return id, nil
}

// maxNamedGroups bounds the ids that a registrar keeps.
const maxNamedGroups = 10_000
