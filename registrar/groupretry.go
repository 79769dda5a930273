package registrar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// RetryGroupInput is a request to run members of a group again.
type RetryGroupInput struct {
	GroupID    string
	NewGroupID string
	Renew      bool
	Actor      string
}

// RetryGroup makes a sealed group of the members of an ended one that have not succeeded.
func (r *Registrar) RetryGroup(ctx context.Context, in RetryGroupInput) (ChangedGroup, error) {
	var c schedule.Collect
	checkID(&c, "new_group_id", in.NewGroupID)
	if in.NewGroupID == in.GroupID {
		c.Add("new_group_id", in.NewGroupID, "is that of the group itself", "choose another id")
	}
	if err := c.Err(); err != nil {
		return ChangedGroup{}, err
	}
	old, err := r.GetGroup(ctx, in.GroupID)
	if err != nil {
		return ChangedGroup{}, err
	}
	g := schedule.JobGroup{
		GroupID: in.NewGroupID, Mode: old.Mode, OnFailure: old.OnFailure, State: schedule.GroupRunning, Sealed: true, Webhook: old.Webhook, OnComplete: old.OnComplete,
		RetryOf: old.GroupID, BodyHash: sha256.Sum256(fmt.Appendf(nil, "retry %s/%d %t", old.GroupID, old.No, in.Renew)),
	}
	e := &enqueue{EnqueueInput: EnqueueInput{QueueID: old.QueueID, UserID: old.UserID, newGroup: true}}
	found, err := r.groups.GetJobGroup(ctx, in.NewGroupID)
	if err != nil || found.BodyHash != g.BodyHash { // else it was made before
		if old.State == schedule.GroupRunning {
			return ChangedGroup{}, schedule.Explain(schedule.ErrPrecondition, "cannot retry group %s: it has not ended", schedule.Quote(old.GroupID))
		}
		if e.rows, err = r.toRetry(ctx, old, &in); err != nil {
			return ChangedGroup{}, err
		}
	}
	e.join = func(f schedule.EnqueueFacts, out *schedule.Enqueue) error {
		after := g
		after.UserID, after.QueueNo, after.CreatedAt = e.UserID, f.Queue.No, out.Now.Truncate(time.Microsecond)
		if old.OnComplete != nil {
			completes := *old.OnComplete
			completes.RequestedBy = in.Actor
			after.OnComplete = &completes
		}
		ledger.EnterGroup(&after, out.Runs, false)
		out.Group = &after
		return nil
	}
	return r.makeGroup(ctx, e, &g)
}

// toRetry are new runs of the members of a group that have not succeeded, in their order. A member
// that was retried by hand since then counts as that run has ended.
func (r *Registrar) toRetry(ctx context.Context, g *schedule.JobGroup, in *RetryGroupInput) ([]schedule.Run, error) {
	last := make(map[int32]*schedule.Run)
	f := schedule.RunFilter{GroupNo: g.No, Now: r.now(), Limit: schedule.MaxPageSize}
	for {
		runs, err := r.ledger.ListRuns(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			seq := runs[i].Queue.GroupSeq
			if last[seq] == nil || laterRun(&runs[i], last[seq]) {
				last[seq] = &runs[i]
			}
		}
		if len(runs) < f.Limit {
			break
		}
		f.AfterRunAt, f.AfterKey = runs[len(runs)-1].RunAt, runs[len(runs)-1].Key
	}
	q, err := r.GetQueue(ctx, g.QueueID)
	if err != nil {
		return nil, err
	}
	now, schedules := r.now(), make(map[string]*schedule.Schedule)
	order := schedule.RedriveOrder{RequestID: in.NewGroupID, RequestedBy: in.Actor, Renew: in.Renew, JobAttempts: r.cfg.DefaultMaxAttempts}
	var rows []schedule.Run
	for _, old := range last {
		if !slices.Contains(retryable, old.Status) { // it succeeded, or is retried by hand
			continue
		}
		if !old.IsJob() {
			return nil, schedule.Explain(schedule.ErrPrecondition, "cannot retry group %s: run %s is of schedule %s, not of a request; retry such runs with RetryRun or RedriveRuns",
				schedule.Quote(g.GroupID), old.Key, schedule.Quote(old.ScheduleID))
		}
		s := schedules[old.ScheduleID]
		if s == nil {
			var err error
			if s, err = r.schedules.PeekSchedule(ctx, old.ScheduleID); err != nil || !s.Alive() {
				return nil, schedule.Explain(schedule.ErrPrecondition, "cannot retry group %s: schedule %s of run %s is deleted", schedule.Quote(g.GroupID), schedule.Quote(old.ScheduleID), old.Key)
			}
			schedules[old.ScheduleID] = s
		}
		row := ledger.RetryByHand(old, &s.Definition, q, &order, now.Truncate(time.Millisecond))
		row.OverlapPolicy, row.Exclusive, row.CreatedAt = schedule.OverlapAllow, false, now
		row.Trigger = schedule.TriggerJob // it is the first run of its member: a stop may cancel it
		row.Queue.GroupSeq = old.Queue.GroupSeq
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, schedule.Explain(schedule.ErrPrecondition, "cannot retry group %s: every member has succeeded, or is being retried", schedule.Quote(g.GroupID))
	}
	slices.SortFunc(rows, func(a, b schedule.Run) int { return cmp.Compare(a.Queue.GroupSeq, b.Queue.GroupSeq) })
	return rows, nil
}

// laterRun reports whether a run of a member comes after another one.
func laterRun(a, b *schedule.Run) bool {
	return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Snoozes, b.Snoozes), cmp.Compare(a.Interruptions, b.Interruptions), a.CreatedAt.Compare(b.CreatedAt)) > 0
}
