package schedule

import "time"

// SlotQuery asks for the ledger's facts about one instant of a schedule.
type SlotQuery struct {
	ScheduleID string
	At         time.Time // the second that it lies in
	Now        time.Time
}

// SlotFacts are read in one transaction, so that they are consistent.
type SlotFacts struct {
	Schedule *Schedule // tombstones included
	// Revisions, newest first: the last two made before At, the first one made
	// since, the oldest of all, and those of Runs.
	Revisions []Revision
	// Runs have their run_at in the second of At: the slot's own first, then by
	// key.
	Runs []Run
	// Events, oldest first: the last few changes (LifeEvents, PauseEvents) before At and the first
	// few since, the last failure of the planner (PlanFailureEvents), and the ranges (RangeEvents)
	// that contain At.
	Events []Event
	// Blocking are other runs of the overlap key: those in flight when the slot was claimed or
	// began to wait; for a slot that is near, those in flight now. See AskBlocking.
	Blocking []Run
}

// The kinds of events that SlotFacts looks for.
var (
	LifeEvents        = []EventKind{EventCreated, EventDeleted}
	PauseEvents       = []EventKind{EventPaused, EventResumed, EventPauseEnded}
	PlanFailureEvents = []EventKind{EventPlanFailed, EventPlanRecovered, EventClockStepped}
	RangeEvents       = []EventKind{EventMissed, EventCoalesced, EventBacklogClosed}
)

// Limits of SlotFacts.
const (
	SlotRuns     = 20
	SlotChanges  = 3 // changes of each kind, on each side
	SlotRanges   = 10
	SlotBlocking = 5
)

// Blocking selects the runs that are or were in flight under an overlap key.
type Blocking struct {
	OverlapKey string
	ScheduleID string    // that may have left the key since
	Not        Key       // the blocked run itself, excluded
	At         time.Time // zero: now
}

// BlockingSlack is the assumed difference between the clocks that wrote a run's end and the
// verdict on the next.
const BlockingSlack = 2 * time.Second

// BlockingAhead is how far ahead runs in flight now are shown: the maximum of LOOKAHEAD_MS. They
// say nothing about next month's slot.
const BlockingAhead = 10 * time.Minute

// AskBlocking is the query for SlotFacts.Blocking; zero if nothing can have blocked the slot.
func (f *SlotFacts) AskBlocking(q SlotQuery) Blocking {
	b := Blocking{OverlapKey: f.Schedule.QualifiedOverlapKey(), ScheduleID: f.Schedule.ScheduleID}
	slot, due := SlotKey(q.ScheduleID, q.At), q.At
	for i := range f.Runs {
		r := &f.Runs[i]
		if r.Key != slot {
			continue
		}
		b.OverlapKey, b.Not, due = r.OverlapKey, r.Key, r.FireAt
		switch {
		case r.Status == StatusPlanned:
		case r.WaitedForTurn():
			b.At = r.Ready()
		case BlockedBy(r.Reason):
			b.At = r.CompletedAt
		default:
			return Blocking{}
		}
	}
	if due.After(q.Now.Add(BlockingAhead)) {
		return Blocking{}
	}
	return b
}

func (b *Blocking) Asks() bool { return b.OverlapKey != "" }

// Ready is the earliest instant of a claim: planned, and its fire time reached.
func (r *Run) Ready() time.Time {
	if r.CreatedAt.After(r.FireAt) {
		return r.CreatedAt
	}
	return r.FireAt
}

// WaitedForTurn reports whether the run was claimed a second or more after it
// could be, under a policy that lets it wait for others.
func (r *Run) WaitedForTurn() bool {
	return r.OverlapPolicy.Waits() && !r.ClaimedAt.IsZero() && r.ClaimedAt.Sub(r.Ready()) >= time.Second
}

// BlockedBy reports whether the reason says that other runs of the overlap key blocked a run.
func BlockedBy(r Reason) bool { return r == ReasonOverlap || r == ReasonQueueFull }

// FlightSince is when the run was claimed, or has entered its queue: from then on it is in flight
// for its overlap group. Zero: not yet.
func (r *Run) FlightSince() time.Time {
	if r.Queue.In() {
		return r.Queue.EnqueuedAt
	}
	return r.ClaimedAt
}

// InFlightAt reports whether the run was in flight at an instant, give or take
// slack.
func (r *Run) InFlightAt(at time.Time, slack time.Duration) bool {
	since := r.FlightSince()
	return !since.IsZero() && !since.After(at.Add(slack)) &&
		(r.CompletedAt.IsZero() || !r.CompletedAt.Before(at.Add(-slack)))
}
