package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Groups of runs of one dispatch queue: what the ends of members make of them. A transaction
// holds the row of the group, and asks what is left after its own ends: so one of two
// transactions that end the two last members finds none left.

// GroupNos are the groups of runs, ascending, each once: rows of groups are locked in this order.
func GroupNos(n int, run func(i int) *schedule.Run) (nos []int32) {
	for i := range n {
		if no := run(i).Queue.GroupNo; no != 0 {
			nos = append(nos, no)
		}
	}
	slices.Sort(nos)
	return slices.Compact(nos)
}

// EnterGroup numbers runs that join a group. open: members of it are not over. Of a sequential
// group only the first one may start: the others wait for it.
func EnterGroup(g *schedule.JobGroup, runs []schedule.Run, open bool) {
	for i := range runs {
		g.Members++
		runs[i].Queue.GroupNo, runs[i].Queue.GroupSeq = g.No, g.Members
		if g.Mode == schedule.GroupSequential && (open || i > 0) {
			runs[i].Queue.State = schedule.QueueChained
		}
	}
}

// NoteMemberEnd changes a group by the end of a member. An end that a retry, a snooze or an
// interruption follows is none: the next run has the member's number. stopped: the group stops
// now, and takes no more members.
func NoteMemberEnd(g *schedule.JobGroup, r *schedule.Run) (stopped bool) {
	_, goesOn := r.RetriedBy()
	if g.State != schedule.GroupRunning || goesOn || r.Status == schedule.StatusSuccess || g.OnFailure != schedule.GroupStop || !g.CancelRequestedAt.IsZero() {
		return false
	}
	from := int32(1)
	if g.Mode == schedule.GroupSequential {
		from = r.Queue.GroupSeq + 1
	}
	if g.StopFrom != 0 && g.StopFrom <= from {
		return false
	}
	g.StopFrom, g.Sealed = from, true
	return true
}

// MemberStep says which members of a group a transaction cancels: all, or those from a number on
// that were never admitted.
type MemberStep struct {
	GroupNo int32
	From    int32
	All     bool
	Limit   int
}

// StepOf is the step of a group that stops or is cancelled; ok = false: it does neither.
func StepOf(g *schedule.JobGroup) (step MemberStep, ok bool) {
	return MemberStep{GroupNo: g.No, From: g.StopFrom, All: !g.CancelRequestedAt.IsZero(), Limit: schedule.MaxGroupStep}, g.Stopping()
}

// Cancel decides what the step does with an open member: it ends, its cancel is requested, or
// nothing.
func (s MemberStep) Cancel(r *schedule.Run, now time.Time) (end *schedule.Settlement, request schedule.Reason) {
	if s.All {
		if !r.CancelRequestedAt.IsZero() {
			return nil, ""
		}
		end, request, _ = RequestCancel(r, schedule.ReasonCancelled, now)
		return end, request
	}
	// The retry of a member goes on: it was admitted.
	if r.Queue.GroupSeq < s.From || r.Queue.State.Admitted() || !r.ClaimedAt.IsZero() || r.Trigger != schedule.TriggerJob {
		return nil, ""
	}
	return &schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonPredecessorFailed, CompletedAt: now}, ""
}

// ReleaseMember decides whether the first open member of a group waits for its predecessor no
// more; state is its state then. One that the group cancels stays chained until it is.
func ReleaseMember(g *schedule.JobGroup, first *schedule.GroupMember, now time.Time) (state schedule.QueueState, ok bool) {
	if first == nil || first.State != schedule.QueueChained || !g.CancelRequestedAt.IsZero() || g.StopFrom != 0 && first.Seq >= g.StopFrom {
		return "", false
	}
	return StateOfEntry(first.FireAt, now), true
}

// StateOfEntry is the state of a run that may start from an instant on.
func StateOfEntry(fireAt, now time.Time) schedule.QueueState {
	if fireAt.After(now) {
		return schedule.QueueDelayed
	}
	return schedule.QueueWaiting
}

// GroupEnds reports whether a group ends: it is sealed, and no member is left.
func GroupEnds(g *schedule.JobGroup, first *schedule.GroupMember) bool {
	return g.State == schedule.GroupRunning && g.Sealed && first == nil
}

// EndJobGroup ends a group, with its members counted.
func EndJobGroup(g *schedule.JobGroup, counts schedule.GroupCounts, now time.Time) {
	g.GroupCounts, g.EndedAt = counts, stored(now)
	switch {
	case !g.CancelRequestedAt.IsZero():
		g.State = schedule.GroupCancelled
	case counts.Over() > counts.Succeeded:
		g.State = schedule.GroupPartial
	default:
		g.State = schedule.GroupCompleted
	}
}

// GroupMessage returns the message about the end of a group; ok = false: nobody is told. queue is
// the webhook of its queue. The group's own target replaces that of the queue, whatever types the
// queue lists.
func GroupMessage(g *schedule.JobGroup, queue schedule.QueueWebhook) (m schedule.AlertDelivery, ok bool) {
	target := queue.Target
	if !slices.Contains(queue.Events, schedule.WebhookGroup) {
		target = ""
	}
	if target = cmp.Or(g.Webhook, target); target == "" {
		return m, false
	}
	return schedule.AlertDelivery{
		DeliveryID: schedule.GroupWebhookID(g.EndKey()), RunKey: g.EndKey(), GroupNo: g.No, UserID: g.UserID, Type: string(schedule.WebhookGroup),
		Target: schedule.WebhookTarget(target), TargetKind: "webhook", CreatedAt: g.EndedAt,
	}, true
}

// GroupCompletion returns the run that enters the queue at the end of a group, without its
// position; ok = false: there is none.
func GroupCompletion(g *schedule.JobGroup) (r schedule.Run, ok bool) {
	c := g.OnComplete
	if c == nil {
		return r, false
	}
	r = schedule.Run{
		Key: g.EndKey(), ScheduleID: c.ScheduleID, Revision: c.Revision, UserID: g.UserID, WorkflowID: c.WorkflowID, Version: c.Version,
		RunAt: g.EndedAt, FireAt: g.EndedAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerJob,
		OverlapKey: c.OverlapKey, OverlapPolicy: schedule.OverlapAllow, MaxQueued: c.MaxQueued,
		Attempt: 1, MaxAttempts: c.MaxAttempts, Input: c.Input, Priority: c.Priority, Webhook: c.Webhook, RequestedBy: c.RequestedBy, CreatedAt: g.EndedAt,
		Queue: schedule.QueuePlace{
			No: g.QueueNo, State: schedule.QueueWaiting, Priority: schedule.QueuePriority(c.Priority), EnqueuedAt: g.EndedAt, Limits: c.Limits,
			FairKey: c.FairKey, KeepHistory: true, // the group names it
		},
	}
	r.Enter(schedule.StatusPlanned)
	return r, true
}
