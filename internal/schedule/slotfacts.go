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
	// when the slot was judged, or when it began to wait; of one that is near, what
	// is in flight now. See AskBlocking.
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

// BlockingAhead is how far ahead what is in flight now is worth a word: as far as
// slots are ever planned (LOOKAHEAD_MS). It says nothing of next month's slot.
const BlockingAhead = 10 * time.Minute

// AskBlocking is what SlotFacts.Blocking answers for what was found so far; the
// zero question where nothing can have been in the slot's way.
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

// Asks reports whether there is a question.
func (b *Blocking) Asks() bool { return b.OverlapKey != "" }

// Ready is when the run could be claimed at the earliest: it was planned, and its
// fire time had come.
func (r *Run) Ready() time.Time {
	if r.CreatedAt.After(r.FireAt) {
		return r.CreatedAt
	}
	return r.FireAt
}

// WaitedForTurn reports whether the run was claimed a second or more after it
// could be, under a policy that lets it wait for others.
func (r *Run) WaitedForTurn() bool {
	waits := r.OverlapPolicy == OverlapQueue || r.OverlapPolicy == OverlapReplace
	return waits && !r.ClaimedAt.IsZero() && r.ClaimedAt.Sub(r.Ready()) >= time.Second
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
