package ledger

import (
	"fmt"
	"math"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// dueInQueue is DueAt of a run of a dispatch queue. A waiting run waits for an admission, not
// for an instant. While a call is open the store keeps the end of its lease in the column.
func dueInQueue(r *schedule.Run) time.Time {
	switch {
	case r.Queue.State == schedule.QueueDelayed:
		return r.FireAt
	case !r.Queue.State.Admitted():
		return time.Time{}
	case !r.CancelRequestedAt.IsZero():
		return r.CancelRequestedAt
	case r.Queue.State == schedule.QueueDispatching && !r.ClaimedUntil.IsZero():
		return r.ClaimedUntil
	}
	return r.TimeoutAt
}

// enterQueueAgain puts a new attempt into the queue of the run before it, at its place if that
// is still known.
func enterQueueAgain(next, before *schedule.Run, now time.Time) {
	if !before.Queue.In() {
		return
	}
	next.Queue = schedule.QueuePlace{
		No: before.Queue.No, State: schedule.QueueWaiting, Priority: schedule.QueuePriority(before.Priority), Position: before.Queue.Position,
		EnqueuedAt: stored(now),
	}
	if next.FireAt.After(now) {
		next.Queue.State = schedule.QueueDelayed
	}
	next.Enter(schedule.StatusPlanned)
}

// QueueFacts is what an admission reads of a queue, under its lock.
type QueueFacts struct {
	Queue    *schedule.Queue
	Stall    schedule.QueueStall
	InFlight int
	Waiting  []WaitingFacts // the first ones, in order
	More     bool           // others come after them
}

// WaitingFacts is a waiting run with what permits it.
type WaitingFacts struct {
	Run        schedule.Run
	Definition *schedule.Definition // nil: it cannot be read
	Grant      *schedule.Grant      // that the definition names; nil: it does not exist
}

// Dispatch is an admitted run that may be sent.
type Dispatch struct {
	schedule.Launch
	Begun schedule.BeginResult
}

// Dispatched is the result of an admission.
type Dispatched struct {
	Alone      bool // the admission had the queue for itself; false: another process admits, and nothing was read
	Dispatches []Dispatch
	Queue      *schedule.Queue       // of the runs
	StallLevel int                   // of the queue; not 0: the run is a probe
	Stall      *schedule.StallChange // is written: no other probe for a while
	Ended      []schedule.Settlement // runs that may not be sent: no call was made
	Block      *Block                // what keeps the others waiting; nil: nothing known
	Again      bool                  // runs are left that an admission may take at once
}

// Room is how many runs an admission can take; 0: none, and their rows need not be read.
func (f *QueueFacts) Room(req *schedule.AdmitRequest) int {
	if v := f.visit(req); v.Paused || v.StalledUntil.After(v.Now) {
		return 0
	}
	room := maxAdmitted
	if f.Stall.Level > 0 {
		room = 1 // a probe: whether the executor can take work again
	}
	return max(0, min(req.Free, int(f.Queue.MaxInFlight)-f.InFlight, room))
}

func (f *QueueFacts) visit(req *schedule.AdmitRequest) Visit {
	return Visit{
		Now: req.Now, Free: req.Free, MaxInFlight: int(f.Queue.MaxInFlight), InFlight: f.InFlight,
		Paused: !f.Queue.Alive() || f.Queue.Unreadable || f.Queue.Pause.Active(req.Now), StalledUntil: f.Stall.Until,
	}
}

// WaitingPlace is what explains a run that waits in a queue.
type WaitingPlace struct {
	QueueFacts
	Before  int            // runs of higher priorities that wait
	Flights []schedule.Key // the runs of the queue that were admitted first and are not over
}

// Blocked is what blocks all waiting runs of the queue, for a launcher with free calls; nil:
// nothing does.
func (f *QueueFacts) Blocked(now time.Time) *Block {
	v := f.visit(&schedule.AdmitRequest{Now: now, Free: maxAdmitted})
	return Admit(&v).All
}

// probeFor is how long a queue waits for the answer to a probe before it sends another.
const probeFor = 5 * time.Second

// AdmitRuns decides which runs of a queue start, and which end because they may not be sent.
func AdmitRuns(req *schedule.AdmitRequest, f *QueueFacts) Dispatched {
	var out Dispatched
	v := f.visit(req)
	head := Head{More: f.More}
	permitted := make(map[schedule.Key]Dispatch, len(f.Waiting))
	for i := range f.Waiting {
		w := &f.Waiting[i]
		d, end := permit(req, w)
		if end != nil {
			out.Ended = append(out.Ended, *end)
			continue
		}
		permitted[w.Run.Key] = d
		q := &w.Run.Queue
		head.Runs = append(head.Runs, WaitingRun{
			Key: w.Run.Key, Owner: w.Run.UserID, Since: q.EnqueuedAt, Order: QueueOrder{Priority: q.Priority, Position: q.Position},
		})
	}
	if len(head.Runs) > 0 {
		v.Heads = []Head{head}
	}
	a := Admit(&v)
	for _, admitted := range a.Runs {
		out.Dispatches = append(out.Dispatches, permitted[admitted.Run.Key])
	}
	out.Queue = f.Queue
	out.Block, out.Again, out.StallLevel = a.All, a.All == nil && f.More && f.Stall.Level == 0, f.Stall.Level
	if f.Stall.Level > 0 && len(out.Dispatches) > 0 {
		stall := f.Stall
		stall.Until = stored(req.Now.Add(probeFor))
		out.Stall = &schedule.StallChange{QueueStall: stall}
	}
	return out
}

// permit returns a waiting run as its admission makes it, or how it ends if it may not be sent.
func permit(req *schedule.AdmitRequest, w *WaitingFacts) (Dispatch, *schedule.Settlement) {
	if w.Definition == nil {
		return Dispatch{}, &schedule.Settlement{
			Key: w.Run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeDefinitionUnreadable), CompletedAt: req.Now,
			ErrorMessage: fmt.Sprintf("revision %d of schedule %s, with the workflow and input of the run, cannot be read", w.Run.Revision, schedule.Quote(w.Run.ScheduleID)),
		}
	}
	d := dispatch(req, w)
	if d.Begun.Permission == schedule.Refused {
		end := EndOfKey(&d.Begun.Request, req.Now)
		return Dispatch{}, &end
	}
	return d, nil
}

// dispatch is a run as its admission makes it. The admission is the record of its call.
func dispatch(req *schedule.AdmitRequest, w *WaitingFacts) Dispatch {
	run := w.Run
	run.Enter(schedule.StatusLaunching)
	if run.ClaimedAt.IsZero() {
		run.ClaimedAt = stored(req.Now)
	}
	run.TimeoutAt, run.ClaimedUntil, run.UpdatedAt = stored(schedule.LaunchUntil(w.Definition, run.FireAt, req.Now, req.RetryFor)), time.Time{}, stored(req.Now)
	launch := schedule.Launch{Run: run, Definition: w.Definition}
	start := launch.StartRequest()
	begin := schedule.BeginRequest{
		Key: start.Key, ScheduleID: start.ScheduleID, ScheduledFor: start.ScheduledFor, Trigger: start.Trigger, Version: start.Version, Input: start.Input,
		Grant: start.GrantUse(req.RequireGrant), FireAt: start.FireAt, Lease: req.Lease(start.Key), Holder: req.Holder,
	}
	result := Begin(&begin, &BeginFacts{Run: &run, Definition: w.Definition, Grant: w.Grant}, req.Now)
	result.CheckedAt = req.Now
	if result.Permission == schedule.Granted || result.Permission == schedule.GrantedAgain {
		launch.Run.Deliveries = result.Request.Calls
	}
	return Dispatch{Launch: launch, Begun: result}
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
const resendLease = 10 * time.Second

// SweepQueued decides what a sweep does with a run of a queue that is due, and when it is due
// next; the zero time means never. lease is that of its key.
func SweepQueued(req *schedule.QueueSweep, r schedule.Run, lease schedule.KeyLease, maySend bool) (after schedule.Run, step QueueStep, due time.Time) {
	now := stored(req.Now)
	if !r.Queue.State.Admitted() {
		if r.Queue.State == schedule.QueueDelayed && r.FireAt.After(now) {
			return r, QueueLater, r.FireAt
		}
		if r.Queue.State == schedule.QueueDelayed {
			r.Queue.State = schedule.QueueWaiting
			return r, QueueReady, time.Time{}
		}
		return r, QueueLater, time.Time{}
	}
	if after, past := SweepRun(&req.SweepRequest, r, lease); past {
		return after, QueueEnd, time.Time{}
	}
	due = NextDue(&req.SweepRequest, &r)
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
	after, step, due := SweepQueued(req, r, lease, d != nil && len(s.Resend) < req.Free)
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
