package ledger

import (
	"math"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// dueInQueue is DueAt of a run of a dispatch queue. A waiting run waits for an admission, not
// for an instant. While a call is open the store keeps the end of its lease in the column.
func dueInQueue(r *schedule.Run) time.Time {
	switch {
	case !r.CancelRequestedAt.IsZero():
		return r.CancelRequestedAt
	case r.Queue.State == schedule.QueueDelayed:
		return sooner(r.FireAt, r.StartBy)
	case r.Queue.State == schedule.QueueWaiting:
		return r.StartBy
	case r.Queue.State == schedule.QueueChained:
		return time.Time{}
	case r.Queue.State == schedule.QueueDispatching && !r.ClaimedUntil.IsZero():
		return r.ClaimedUntil
	case r.Queue.Worker != "" && r.Queue.State == schedule.QueueRunning:
		return r.UpdatedAt // a sweep knows until when its worker is not lost
	}
	return r.TimeoutAt
}

// enterQueueAgain puts a new attempt into the queue of the run before it, at its place if that
// is still known. A run of a slot stays in flight for its overlap group.
func enterQueueAgain(next, before *schedule.Run, now time.Time) {
	if !before.Queue.In() {
		return
	}
	next.Queue = schedule.QueuePlace{
		No: before.Queue.No, State: schedule.QueueWaiting, Priority: schedule.QueuePriority(before.Priority), Position: before.Queue.Position,
		FairKey: before.Queue.FairKey, FairOrder: before.Queue.FairOrder, KeepHistory: before.Queue.KeepHistory,
		EnqueuedAt: stored(now), Limits: before.Queue.Limits, GroupNo: before.Queue.GroupNo, GroupSeq: before.Queue.GroupSeq,
	}
	if next.Epoch = before.Epoch; next.Epoch != 0 {
		next.Queue.Priority = before.Queue.Priority
	}
	if next.FireAt.After(now) {
		next.Queue.State = schedule.QueueDelayed
	}
	next.Enter(schedule.StatusPlanned)
}

// PutBack returns an admitted run as it waits again. ok = false: the executor may have it, or
// its cancel is requested. lease is that of its key.
func PutBack(r schedule.Run, lease schedule.KeyLease, back *schedule.PutBack, now time.Time) (after schedule.Run, ok bool) {
	if r.Stage() != schedule.StatusLaunching || r.Deliveries > 0 || lease.Until.After(stored(now)) || !r.CancelRequestedAt.IsZero() {
		return r, false
	}
	r.Queue.State = schedule.QueueWaiting
	if back.FireAt.After(now) {
		r.Queue.State, r.FireAt = schedule.QueueDelayed, stored(back.FireAt)
	}
	r.TimeoutAt, r.ClaimedUntil, r.UpdatedAt = time.Time{}, time.Time{}, stored(now)
	return r, true
}

// ErrAdmitted refuses another input for a run that its queue has admitted before.
var ErrAdmitted = schedule.Explain(schedule.ErrPrecondition,
	"Cannot modify params after dispatch: the queue has admitted the run before; cancel it and enqueue another one")

// QueueStep is what a sweep does with a run of a queue.
type QueueStep int

// The steps.
const (
	QueueLater  QueueStep = iota // nothing: look again at the instant
	QueueReady                   // its delay is over: it waits
	QueueEnd                     // it is past a bound
	QueueResend                  // its call has no answer: send the same key again
	QueueHeld                    // it is to be sent again, and no call is free
	QueueCancel                  // send its cancel
)

// resendLease is how long a run that a sweep sends again is left to the sender.
const resendLease = 3 * time.Second

// SweepQueued decides what a sweep does with a run of a queue that is due, and when it is due
// next; the zero time means never. q is its queue, lease that of its key.
func SweepQueued(req *schedule.QueueSweep, r schedule.Run, q *schedule.Queue, lease schedule.KeyLease, maySend bool) (after schedule.Run, step QueueStep, due time.Time) {
	now := stored(req.Now)
	if r.Stage() == schedule.StatusPlanned {
		var reason schedule.Reason
		switch {
		case !r.CancelRequestedAt.IsZero(): // a newer slot replaces it
			reason = r.CancelReason
		case !q.Alive(): // it has entered while the queue was deleted
			reason = schedule.ReasonDeleted
		}
		if reason != "" {
			end := schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: reason, CompletedAt: now}
			after, _ = Settle(r, lease, &end, now)
			return after, QueueEnd, time.Time{}
		}
	}
	switch {
	case r.Queue.State.Admitted():
	case r.Queue.State != schedule.QueueChained && passed(r.StartBy, now):
		after, _ = Settle(r, lease, expired(&r, now), now)
		return after, QueueEnd, time.Time{}
	case r.Queue.State == schedule.QueueDelayed && !r.FireAt.After(now):
		r.Queue.State = schedule.QueueWaiting
		return r, QueueReady, dueInQueue(&r)
	default:
		return r, QueueLater, dueInQueue(&r)
	}
	if after, past := SweepRun(&req.SweepRequest, r, lease); past {
		return after, QueueEnd, time.Time{}
	}
	due = NextDue(&req.SweepRequest, &r)
	if r.Queue.Worker != "" { // it hears of a cancel when it fetches
		return lostWorker(req, r, q, due)
	}
	if !r.CancelRequestedAt.IsZero() {
		return r, QueueCancel, sooner(due, now.Add(CancelAgain))
	}
	if r.Stage() != schedule.StatusLaunching {
		return r, QueueLater, due
	}
	free := schedule.Later(lease.Until, r.ClaimedUntil)
	switch {
	case free.After(now):
		return r, QueueLater, sooner(due, free)
	case !maySend:
		return r, QueueHeld, now // another process may have a free call
	}
	r.ClaimedUntil = now.Add(resendLease)
	return r, QueueResend, sooner(due, r.ClaimedUntil)
}

// expired is the end of a run that has waited in its queue for too long.
func expired(r *schedule.Run, now time.Time) *schedule.Settlement {
	return &schedule.Settlement{
		Key: r.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonExpired, CompletedAt: now,
		ErrorMessage: "it was to start by " + r.StartBy.Format(time.RFC3339Nano) + " (expires_ms)",
	}
}

// WaitsFrom is when a run in a queue begins to wait at an instant instead: the end of its wait
// moves along.
func WaitsFrom(r *schedule.Run, at time.Time) (startBy time.Time) {
	if r.StartBy.IsZero() {
		return r.StartBy
	}
	return stored(at.Add(r.StartBy.Sub(schedule.Later(r.FireAt, r.Queue.EnqueuedAt))))
}

// sooner is the earlier of two instants; the zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// SweptQueues is the result of a sweep of all queues.
type SweptQueues struct {
	Ready   bool                      // runs began to wait
	Queues  map[int32]*schedule.Queue // of Resend
	Ended   []schedule.Ended          // past a bound
	Resend  []schedule.Launch         // to be sent again
	Cancels []schedule.Run            // whose cancel is to be sent
	Held    bool                      // runs are to be sent again, and no call is free
	Orphans int                       // uses that were deleted; there should be none
	NextDue time.Time                 // the earliest instant at which a run is due; zero: none is known
	More    bool                      // the sweep has reached its limit
}

// positionGap is between the positions of runs that enter a queue one after the other.
const positionGap = 1 << 16

// NoPlace is the position before the first and after the last run of a queue.
const NoPlace int64 = math.MinInt64

// PositionKey is the position of the n-th run that enters at the end.
func PositionKey(n int64) int64 { return n * positionGap }

// Between returns n positions, ascending, between those of two neighbours. fits = false: there
// is no room.
func Between(before, after int64, n int) (positions []int64, fits bool) {
	switch {
	case before == NoPlace && after == NoPlace:
		before = 0
	case before == NoPlace:
		before = after - int64(n+1)*positionGap
	}
	step := int64(positionGap)
	if after != NoPlace {
		step = (after - before) / int64(n+1)
	}
	if step < 1 {
		return nil, false
	}
	for i := range n {
		positions = append(positions, before+int64(i+1)*step)
	}
	return positions, true
}

// Add sweeps one run. after is written with due, unless it ends.
func (s *SweptQueues) Add(req *schedule.QueueSweep, r schedule.Run, lease schedule.KeyLease, d *schedule.Definition, q *schedule.Queue) (after schedule.Run, due time.Time, ends bool) {
	before := r.Stage()
	after, step, due := SweepQueued(req, r, q, lease, d != nil && len(s.Resend) < req.Free)
	switch step {
	case QueueReady:
		s.Ready = true
	case QueueEnd:
		s.Ended = append(s.Ended, schedule.Ended{Run: after, Before: before})
	case QueueResend:
		if s.Queues == nil {
			s.Queues = make(map[int32]*schedule.Queue)
		}
		s.Queues[r.Queue.No] = q
		s.Resend = append(s.Resend, schedule.Launch{Run: after, Definition: d, Again: true})
	case QueueCancel:
		s.Cancels = append(s.Cancels, after)
	case QueueHeld:
		if s.Held = s.Held || d != nil; d == nil {
			due = stored(req.Now).Add(recheckDelay) // its definition cannot be read
		}
	case QueueLater:
	}
	return after, due, step == QueueEnd
}
