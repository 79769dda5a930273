package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Wake says that a consumer is to be looked at. Its row is the lock between those who publish to the
// consumer and the take: a transaction that changes what a look would find writes or locks the row after
// that change, and a take locks it before it reads.
type Wake struct {
	ScheduleID string
	OverlapKey string // qualified
	FireAt     time.Time
	Priority   int32
	Pause      schedule.Pause // of the consumer; Paused is false if it is not paused
}

// Consumer is what a take reads of a consumer, with its wake row locked.
type Consumer struct {
	SID        int32
	ScheduleID string
	Revision   int64
	Definition *schedule.Definition // in force; nil: it cannot be read
	Deleted    bool
	Pause      schedule.Pause
	FireAt     time.Time // of the wake row
	// Ready are pending events, oldest first: at most LookAt.
	Ready []topic.Offered
}

// LookAt is how many pending events of a consumer a take looks at.
func (c *Consumer) LookAt() int {
	if c.Deleted || c.Definition == nil || !c.Definition.Consume.Any() {
		return schedule.MaxBatchEvents
	}
	return int(c.Definition.Consume.MaxEvents)
}

// Look is what a take makes of a wake row.
type Look struct {
	Take   []topic.Offered // a run gets them
	Skip   []topic.Offered // they end without a run
	Reason topic.Reason    // of Skip
	// Again is when the row is looked at next; zero: the row goes.
	Again time.Time
}

// unreadableFor is how long a consumer waits for a definition that cannot be read.
const unreadableFor = time.Minute

// LookNow decides on a consumer in its wake row's transaction. A take leaves no row: the end of the run
// writes one.
func LookNow(c *Consumer, now time.Time) Look {
	switch {
	case c.Deleted:
		return skipAll(c, topic.ReasonDeleted, now)
	case c.Definition == nil:
		return Look{Again: now.Add(unreadableFor)}
	case c.Pause.Active(now), c.FireAt.After(now):
		return Look{Again: c.FireAt}
	}
	of := &c.Definition.Consume
	if !of.Any() {
		return skipAll(c, topic.ReasonUnsubscribed, now)
	}
	var others []topic.Offered
	for i := range c.Ready {
		if !topic.Consumes(of, c.Ready[i].Topic) {
			others = append(others, c.Ready[i])
		}
	}
	if len(others) > 0 { // first these: the next look finds the rest
		return Look{Skip: others, Reason: topic.ReasonUnsubscribed, Again: now}
	}
	return Look{Take: cut(c.Ready, c.LookAt())}
}

func skipAll(c *Consumer, reason topic.Reason, now time.Time) Look {
	if len(c.Ready) == 0 {
		return Look{}
	}
	return Look{Skip: c.Ready, Reason: reason, Again: now}
}

// cut is the beginning of some events that one run gets: at most so many, and topic.MaxBatchBytes of
// data, but at least one.
func cut(ready []topic.Offered, most int) []topic.Offered {
	bytes := 0
	for i := range ready {
		bytes += ready[i].Bytes
		if i == most || i > 0 && bytes > topic.MaxBatchBytes {
			return ready[:i]
		}
	}
	return ready
}

// EventsRun is the run that gets a batch. It is PLANNED: the claim judges it like any other run.
func EventsRun(c *Consumer, batch []topic.Offered, now time.Time) schedule.Run {
	d := c.Definition
	at := stored(now)
	return schedule.Run{
		Key: schedule.EventsKey(c.ScheduleID, at), ScheduleID: c.ScheduleID, Revision: c.Revision, UserID: d.UserID, WorkflowID: d.WorkflowID, Version: d.Version,
		RunAt: batch[0].PublishedAt.Truncate(time.Millisecond), FireAt: at, Status: schedule.StatusPlanned, Trigger: schedule.TriggerEvent,
		OverlapKey: d.QualifiedOverlapKey(), OverlapPolicy: d.OverlapPolicy, Exclusive: d.OverlapPolicy.Exclusive(), MaxQueued: d.MaxQueued,
		Attempt: 1, MaxAttempts: d.Retry.Attempts(), Priority: d.Priority, Webhook: d.Webhook,
	}
}

// EventsEnd is what the end of a run makes of its events.
type EventsEnd struct {
	To     topic.State  // Consumed, Skipped or Dead; Pending: they wait for another run; Reserved: Next gets them
	Reason topic.Reason // of Skipped and Dead
	Next   schedule.Key
	Failed int32 // 1: an attempt has failed
	// WakeAt is when the consumer is looked at again; zero: the end of Next says.
	WakeAt time.Time
}

// refusedFor is how long a consumer waits whose run was not permitted to start.
const refusedFor = time.Minute

// EventsAfter decides on the events of a run that has ended. next is the run that follows it, or nil.
func EventsAfter(ended, next *schedule.Run, now time.Time) EventsEnd {
	if next != nil {
		return EventsEnd{To: topic.Reserved, Next: next.Key, Failed: max(next.Attempt-ended.Attempt, 0)}
	}
	switch ended.Status {
	case schedule.StatusSuccess:
		return EventsEnd{To: topic.Consumed, WakeAt: now}
	case schedule.StatusFailed:
		return EventsEnd{To: topic.Dead, Reason: topic.ReasonFailed, Failed: 1, WakeAt: now}
	case schedule.StatusCancelled:
		if ended.Reason == schedule.ReasonDeleted {
			return EventsEnd{To: topic.Skipped, Reason: topic.ReasonDeleted, WakeAt: now}
		}
		return EventsEnd{To: topic.Dead, Reason: topic.ReasonCancelled, WakeAt: now}
	}
	again := now.Add(refusedFor) // SKIPPED: nothing was tried
	if ended.Reason == schedule.ReasonPaused {
		again = now // the end of the pause decides
	}
	return EventsEnd{To: topic.Pending, WakeAt: again}
}

// MayHaveEvents reports whether a run can have taken events.
func MayHaveEvents(r *schedule.Run) bool {
	return r.Trigger.MayHaveEvents() && !r.IsJob()
}

// consumersFirst leaves only the first run of a consumer to be judged, if there is one. The others are
// judged again when it is in flight.
func (g *overlapGroup) consumersFirst() {
	for at, r := range g.waiting {
		if r.trigger == schedule.TriggerEvent {
			g.waiting, g.due = g.waiting[at:at+1], nil
			return
		}
	}
	for at, r := range g.due {
		if r.trigger == schedule.TriggerEvent && r.fireAt <= g.now {
			g.waiting, g.due = nil, g.due[at:at+1]
			return
		}
	}
}
