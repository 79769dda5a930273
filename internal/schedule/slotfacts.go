package schedule

import "time"

// SlotQuery asks for all that the ledger knows of one instant of a schedule.
type SlotQuery struct {
	ScheduleID string
	At         time.Time // the second that it lies in
	Now        time.Time
}

// SlotFacts are read in one transaction, so that they fit together.
type SlotFacts struct {
	Schedule *Schedule // tombstones included
	// Revisions, newest first: the last two made before At, the first one made
	// since, the oldest of all, and those of Runs.
	Revisions []Revision
	// Runs have their run_at in the second of At: the slot's own first, then by
	// key.
	Runs []Run
	// Events, oldest first: the last few deeds (LifeEvents, PauseEvents) before
	// At and the first few since, the last trouble of the planner (TroubleEvents),
	// and the ranges (RangeEvents) that hold At.
	Events []Event
	// Blocking are runs of the overlap key that was asked for: what was in flight
	// when the slot was judged, else what is in flight now. See BlockingAt.
	Blocking []Run
}

// The kinds of events that SlotFacts looks for.
var (
	LifeEvents    = []EventKind{EventCreated, EventDeleted}
	PauseEvents   = []EventKind{EventPaused, EventResumed, EventPauseEnded}
	TroubleEvents = []EventKind{EventPlanFailed, EventPlanRecovered, EventClockStepped}
	RangeEvents   = []EventKind{EventMissed, EventCoalesced, EventBacklogClosed}
)

// How many of each SlotFacts holds at most.
const (
	SlotRuns     = 20
	SlotDeeds    = 3 // of each kind of deed, on each side
	SlotRanges   = 10
	SlotBlocking = 5
)

// Blocking is a question for what is, or was, in flight under an overlap key.
type Blocking struct {
	OverlapKey string
	ScheduleID string    // that may have left the key since
	Not        Key       // the run that was in its way does not stand in its own
	At         time.Time // zero: now
}

// BlockingSlack is how far the clocks may be apart that wrote a run's end and
// the verdict on the one behind it.
const BlockingSlack = 2 * time.Second

// AskBlocking is what SlotFacts.Blocking answers for what was found so far.
func (f *SlotFacts) AskBlocking(q SlotQuery) Blocking {
	b := Blocking{OverlapKey: f.Schedule.QualifiedOverlapKey(), ScheduleID: f.Schedule.ScheduleID}
	slot := SlotKey(q.ScheduleID, q.At)
	for i := range f.Runs {
		if r := &f.Runs[i]; r.Key == slot {
			b.OverlapKey, b.Not = r.OverlapKey, r.Key
			if r.Status.Terminal() {
				b.At = r.CompletedAt
			}
		}
	}
	return b
}

// BlockedBy reports whether the reason says that other runs of the overlap key
// stood in a run's way.
func BlockedBy(r Reason) bool { return r == ReasonOverlap || r == ReasonQueueFull }

// InFlightAt reports whether the run was in flight at an instant, give or take
// slack.
func (r *Run) InFlightAt(at time.Time, slack time.Duration) bool {
	return !r.ClaimedAt.IsZero() && !r.ClaimedAt.After(at.Add(slack)) &&
		(r.CompletedAt.IsZero() || !r.CompletedAt.Before(at.Add(-slack)))
}
