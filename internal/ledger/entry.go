package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Entry is a run of a slot that goes into its dispatch queue.
type Entry struct {
	Key   schedule.Key
	Queue *schedule.Queue
	Group *schedule.JobGroup // that its first member makes; nil: the run joins none
	// Ungrouped is why it does not join the group that its schedule names; "": it does, or there
	// is none to join.
	Ungrouped string
}

// waitingFor is how long a count of waiting runs is used, in microseconds. Near the bound it is
// read for each pass.
const waitingFor = 1_000_000

// waitingCount is how many runs wait in a queue, the entries since then included.
type waitingCount struct {
	runs int
	at   int64
}

// isStale reports whether the runs of a queue are to be counted again.
func (c waitingCount) isStale(q *schedule.Queue, now int64) bool {
	most := int(q.MaxWaiting)
	return c.at+waitingFor <= now || c.at > now || c.runs >= most-most/10
}

// countWaiting reads how many runs wait in the queues of a pass, where they have a bound.
func (s *ShardState) countWaiting(read Reader, f *Facts, now int64) error {
	for _, q := range f.Queues {
		if q == nil || q.MaxWaiting == 0 || !s.entered[q.No].isStale(q, now) {
			continue
		}
		runs, err := read.Waiting(q.No, int(q.MaxWaiting))
		if err != nil {
			return fmt.Errorf("count the runs of queue %s: %w", schedule.Quote(q.QueueID), err)
		}
		s.entered[q.No] = waitingCount{runs, now}
	}
	return nil
}

// queuesOf are the ids of the queues that definitions name.
func queuesOf(f *Facts) (ids []string) {
	for _, d := range f.Definitions {
		if d.QueueID != "" {
			ids = append(ids, d.QueueID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// refusedByQueue is how a run ends that its queue does not take. ok: it does. The entries of one
// pass may exceed max_waiting together.
func (j *judging) refusedByQueue(r *run, d *schedule.Definition) (end End, ok bool) {
	end.Key = r.key
	switch q := j.facts.Queues[d.QueueID]; {
	case !q.Takes(d.UserID):
		end.To, end.Reason, end.ErrorCode = schedule.StatusFailed, schedule.ReasonQueueNotFound, string(schedule.ReasonQueueNotFound)
		end.ErrorMessage = fmt.Sprintf("there is no queue %s that owner %s may use; create it, or edit queue_id of the schedule", schedule.Quote(d.QueueID), schedule.Quote(d.UserID))
	case q.Closed:
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonQueueClosed
		end.ErrorMessage = fmt.Sprintf("queue %s is closed: it takes no new runs until it is opened", schedule.Quote(d.QueueID))
	case q.MaxWaiting > 0 && j.entered[q.No].runs >= int(q.MaxWaiting):
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonQueueFull
		end.ErrorMessage = fmt.Sprintf("%d runs wait in queue %s, which is its max_waiting", q.MaxWaiting, schedule.Quote(d.QueueID))
	default:
		return end, true
	}
	return end, false
}

// taken reports whether a run that may start now is taken by its queue, if it has one. One that
// is not ends.
func (j *judging) taken(r *run) bool {
	d := j.facts.Definitions[r.definition()]
	if d == nil || d.QueueID == "" {
		return true
	}
	end, ok := j.refusedByQueue(r, d)
	if !ok {
		j.end(r, end)
	}
	return ok
}

// judgeTaken is judgeOverlap without runs that would start now and that their queues do not take:
// they block nothing.
func (j *judging) judgeTaken(g *overlapGroup) []verdict {
	if !j.queued {
		return judgeOverlap(*g)
	}
	for {
		verdicts := judgeOverlap(*g)
		refused := func(r *run) bool {
			return slices.ContainsFunc(verdicts, func(v verdict) bool { return v.run == r && v.action == schedule.VerdictClaim }) && !j.taken(r)
		}
		left := len(g.waiting) + len(g.due)
		g.waiting = slices.DeleteFunc(slices.Clone(g.waiting), refused)
		g.due = slices.DeleteFunc(slices.Clone(g.due), refused)
		if len(g.waiting)+len(g.due) == left {
			return verdicts
		}
	}
}

// isTooEarly reports whether a run goes into a queue, and not yet: the launcher of a queue has no
// timer for its runs.
func (j *judging) isTooEarly(r *run) bool { return r.fireAt > j.now && j.enters(r) }

// enters reports whether a run goes into a queue instead of a launch.
func (j *judging) enters(r *run) bool {
	d := j.facts.Definitions[r.definition()]
	return d != nil && d.QueueID != ""
}

// EnterQueue returns a planned run as it goes into the queue of its definition, without its
// position: it waits there at once, in a fair one after the next sweep. A new budget of attempts
// begins with it, unless it is a retry.
func (req *ClaimRequest) EnterQueue(r schedule.Run, d *schedule.Definition, q *schedule.Queue) schedule.Run {
	now := stored(req.Now)
	if r.Trigger != schedule.TriggerRetry {
		r.AttemptsBefore = max(r.Attempt, 1) - 1
		r.MaxAttempts = r.AttemptsBefore + d.Retry.QueuedAttempts(q, req.JobAttempts)
	}
	if d.Webhook != "" {
		r.Webhook = d.Webhook
	}
	r.Queue = schedule.QueuePlace{No: q.No, State: schedule.QueueWaiting, Priority: schedule.SlotPriority(&r), EnqueuedAt: now, Limits: schedule.JoinLimits(q.Limits, d.Limits)}
	r.Queue.FairKey = d.FairKey
	if q.IsFair() { // the sweep draws its fair order: the claim waits for no share
		r.Queue.State = schedule.QueueDelayed
	}
	if req.BoundQueues {
		r.Queue.Limits = r.Queue.Limits.With(schedule.LimitRef{ID: schedule.AllQueuesLimit})
	}
	r.Epoch, r.WaitingSince, r.StartBy, r.UpdatedAt = req.Term.Epoch, time.Time{}, time.Time{}, now
	if r.Trigger != schedule.TriggerRetry {
		r.StartBy = stored(schedule.StartBy(now, d.ExpiresMS, q.ExpiresMS))
	}
	r.Enter(schedule.StatusPlanned)
	return r
}
