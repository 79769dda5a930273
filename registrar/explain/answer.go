package explain

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Verdict is the answer in one word; a closed set.
type Verdict string

// The verdicts.
const (
	VerdictRan         Verdict = "ran"           // SUCCESS
	VerdictFailed      Verdict = "failed"        // FAILED
	VerdictSkipped     Verdict = "skipped"       // SKIPPED
	VerdictCancelled   Verdict = "cancelled"     // CANCELLED
	VerdictRetrying    Verdict = "retrying"      // LAUNCHING: the launch failed and is tried again
	VerdictInFlight    Verdict = "in_flight"     // LAUNCHING, ENQUEUED, STARTED
	VerdictWaiting     Verdict = "waiting"       // PLANNED, behind a run of its overlap key
	VerdictDue         Verdict = "due"           // its time has come, and it is not claimed or not even planned yet
	VerdictNotFired    Verdict = "not_fired"     // a slot that passed without a run: missed, coalesced, paused, deleted
	VerdictWillFire    Verdict = "will_fire"     // ahead
	VerdictWillNotFire Verdict = "will_not_fire" // ahead, and paused or without a grant that holds
	VerdictNotASlot    Verdict = "not_a_slot"    // the rule in force has none there
	VerdictNoSchedule  Verdict = "no_schedule"   // it did not exist then
	VerdictExpired     Verdict = "expired"       // a slot older than what retention keeps
	VerdictUnrecorded  Verdict = "unrecorded"    // neither row nor range: a defect
)

// Verdicts is the closed set.
var Verdicts = []Verdict{
	VerdictRan, VerdictFailed, VerdictSkipped, VerdictCancelled, VerdictRetrying, VerdictInFlight, VerdictWaiting, VerdictDue,
	VerdictNotFired, VerdictWillFire, VerdictWillNotFire, VerdictNotASlot, VerdictNoSchedule, VerdictExpired, VerdictUnrecorded,
}

// Why says more of a verdict: a reason of the ledger (schedule.Reason), or one
// of these. Empty: the verdict says it all.
type Why string

// The reasons that no run ever carries.
const (
	WhyOffRule     Why = "off_rule"     // the rule does not match this instant
	WhyFraction    Why = "fraction"     // slots are whole seconds
	WhyGap         Why = "gap"          // the clock is set forward past this time, and the rule has nothing for it
	WhySecondPass  Why = "second_pass"  // the clock went back, and a fixed time runs at the first pass
	WhyBeforeStart Why = "before_start" // start_at
	WhyAfterEnd    Why = "after_end"    // end_at
	WhyByHand      Why = "by_hand"      // the schedule has no rule
	WhyUnreadable  Why = "unreadable"   // the rule can no longer be read, e.g. after an update of the zone data
	WhyNotCreated  Why = "not_created"
	WhyUnplanned   Why = "unplanned" // the planner has not come to it yet
	WhyBacklog     Why = "backlog"   // missed, and to be made up for
	WhyUnclaimed   Why = "unclaimed" // planned and due, and no worker has claimed it yet
	WhyRetention   Why = "retention"
)

// Whys is the closed set of those.
var Whys = []Why{
	WhyOffRule, WhyFraction, WhyGap, WhySecondPass, WhyBeforeStart, WhyAfterEnd, WhyByHand, WhyUnreadable,
	WhyNotCreated, WhyUnplanned, WhyBacklog, WhyUnclaimed, WhyRetention,
}

// Facts are what is judged.
type Facts struct {
	schedule.SlotFacts
	Asked        time.Time // the instant, with its fraction
	Reading      *Reading  // that the clock was asked for, Asked being its First; nil: an instant was asked for
	Now          time.Time
	KeptSince    time.Time             // what ended before it may be gone
	Terms        []schedule.LeaderTerm // of the slot's hash bucket, while it was due; oldest first
	Grant        *schedule.Grant       // that the definition in force names, if there is one
	RequireGrant bool
}

// Answer is what is so of one instant.
type Answer struct {
	ScheduleID string
	At         time.Time
	Now        time.Time
	Verdict    Verdict
	Why        Why
	Detail     string // in words: which field does not match, why a grant does not hold

	Slot           *Slot // nil: no slot
	Previous, Next *Slot // the slots around it; nil: none
	Reading        *Reading
	Second         *Answer // the second occurrence of a local time that the clock shows twice; set by the caller
	Rule           *Rule   // in force then, or of the run; nil: none was

	Run *schedule.Run // the slot's row
	// Attempts are the last launch attempts of Run, oldest first; set by the caller.
	Attempts []schedule.LaunchAttempt
	Others   []schedule.Run // at the same second, by hand, retry or backfill
	// Blocking are the runs of the overlap key that were in flight when the slot
	// was judged, or began to wait; of one that is near, those that are now.
	Blocking []schedule.Run

	// FirstSentAt is when Run may have been sent first, if it was sent again; set
	// by the caller.
	FirstSentAt time.Time
	// Gaps in leadership that delayed the slot, or keep it waiting. TermsKnown:
	// where there is none, a worker led all the time.
	Gaps       []Gap
	TermsKnown bool
	// Claimer is the term that claimed Run, if it ended before the launch.
	Claimer *schedule.LeaderTerm

	Pause   *Pause          // in force at that time
	Range   *schedule.Event // the recorded range of slots without rows that contains it
	Backlog *schedule.Backlog
	Trouble *schedule.Event // why the planner cannot plan

	CreatedAt time.Time // the schedule, as it was then; zero: it was not yet
	CreatedBy string
	DeletedAt time.Time // zero: it was not, up to now
	DeletedBy string
	KeptSince time.Time
}

// Slot is a nominal instant with its fire time, and how clocks show it.
type Slot struct {
	Key    schedule.Key
	RunAt  time.Time
	FireAt time.Time
	Local  string        // run_at in the schedule's zone, with its offset
	Note   string        // what daylight saving does to it; mostly empty
	Run    *schedule.Run // the run of a neighbouring slot; set by the caller
}

// Rule is the definition in force.
type Rule struct {
	Definition *schedule.Definition
	Revision   int64
	Words      string
	MadeAt     time.Time
	MadeBy     string
	ReplacedAt time.Time // by the next revision; zero: it stands
}

// Pause is a time in which a schedule stood still.
type Pause struct {
	From    time.Time // zero: since its creation, or longer ago than retention keeps
	By      string
	Note    string
	Until   time.Time // when it ended, or will; zero: it lasts until resumed
	EndedBy string    // who resumed; empty: it ended by itself, or lasts
}

// Lateness is how long after fire_at the run was launched; false while it was
// not.
func (a *Answer) Lateness() (time.Duration, bool) {
	if a.Run == nil || a.Run.LaunchedAt.IsZero() {
		return 0, false
	}
	return a.Run.LaunchedAt.Sub(a.Run.FireAt), true
}

// Drift is how far the launch lay from run_at; false while there was none.
func (a *Answer) Drift() (time.Duration, bool) {
	if a.Run == nil || a.Run.LaunchedAt.IsZero() {
		return 0, false
	}
	return a.Run.LaunchedAt.Sub(a.Run.RunAt).Abs(), true
}
