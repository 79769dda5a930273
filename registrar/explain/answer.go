package explain

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
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
	VerdictDue         Verdict = "due"           // due, but not claimed or not even planned yet
	VerdictNotFired    Verdict = "not_fired"     // a slot that passed without a run: missed, coalesced, paused, deleted
	VerdictWillFire    Verdict = "will_fire"     // in the future
	VerdictWillNotFire Verdict = "will_not_fire" // in the future, but paused or without a valid grant
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

// Why is the reason of a verdict: a reason of the ledger (schedule.Reason), or one
// of these. Empty: the verdict needs none.
type Why string

// The reasons that runs do not have.
const (
	WhyOffRule     Why = "off_rule"     // the rule does not match this instant
	WhyFraction    Why = "fraction"     // slots are whole seconds
	WhyGap         Why = "gap"          // the clock is set forward past this time, and the rule has nothing for it
	WhySecondPass  Why = "second_pass"  // the clock went back, and a fixed time runs at the first pass
	WhyBeforeStart Why = "before_start" // start_at
	WhyAfterEnd    Why = "after_end"    // end_at
	WhyByHand      Why = "by_hand"      // the schedule has no rule
	WhyEventDriven Why = "event_driven" // the schedule is a consumer
	WhyUnreadable  Why = "unreadable"   // the rule can no longer be read, e.g. after an update of the zone data
	WhyNotCreated  Why = "not_created"
	WhyUnplanned   Why = "unplanned" // not planned yet
	WhyBacklog     Why = "backlog"   // missed, will be caught up
	WhyUnclaimed   Why = "unclaimed" // planned and due, and no worker has claimed it yet
	WhyRetention   Why = "retention"
)

// Whys is the closed set of these.
var Whys = []Why{
	WhyOffRule, WhyFraction, WhyGap, WhySecondPass, WhyBeforeStart, WhyAfterEnd, WhyByHand, WhyEventDriven, WhyUnreadable,
	WhyNotCreated, WhyUnplanned, WhyBacklog, WhyUnclaimed, WhyRetention,
}

// Facts is the input of Derive.
type Facts struct {
	schedule.SlotFacts
	Asked        time.Time // the instant, with its fraction
	Reading      *Reading  // the requested local time, with Asked as its First; nil: the request was an instant
	Now          time.Time
	KeptSince    time.Time             // runs that ended before it may be deleted
	Terms        []schedule.LeaderTerm // of the slot's hash bucket, while it was due; oldest first
	Grant        *schedule.Grant       // named by the definition in force; nil: none
	RequireGrant bool
}

// Answer is the answer for one instant.
type Answer struct {
	ScheduleID string
	At         time.Time
	Now        time.Time
	Verdict    Verdict
	Why        Why
	Detail     string // which field does not match, why a grant is not valid

	Slot           *Slot // nil: no slot
	Previous, Next *Slot // the slots around it; nil: none
	Reading        *Reading
	Second         *Answer // the second occurrence of a local time that the clock shows twice; set by the caller
	Rule           *Rule   // in force then, or of the run; nil: none was

	Run *schedule.Run // the slot's row
	// Attempts are the last launch attempts of Run, oldest first; set by the caller.
	Attempts []schedule.LaunchAttempt
	// Result is what the executor returned with the end of Run; nil: nothing. Set by the caller.
	Result *schedule.RunResult
	Others []schedule.Run // at the same second, by hand, retry or backfill
	// Blocking are the runs of the overlap key that were in flight when the overlap
	// verdict was made or the wait began; for a near future slot, those in flight now.
	Blocking []schedule.Run

	// InQueue are the sentences about Run while it waits in its dispatch queue; set by the caller.
	InQueue []string
	// WouldStart is when the run of a slot ahead would start in its dispatch queue; set by the caller.
	WouldStart *ledger.Estimate

	// FirstSentAt is when Run may first have been sent, if it was sent again. Set by
	// the caller.
	FirstSentAt time.Time
	// Gaps in leadership that delayed the slot or still delay it. TermsKnown: no gap
	// means that a worker led all the time.
	Gaps       []Gap
	TermsKnown bool
	// Claimer is the term that claimed Run, if it ended before the launch.
	Claimer *schedule.LeaderTerm

	Pause       *Pause          // in force at that time
	PausedNow   bool            // the automatic retries of the schedule wait
	Range       *schedule.Event // the recorded range of slots without rows that contains it
	Backlog     *schedule.Backlog
	PlanFailure *schedule.Event // why the planner cannot plan

	CreatedAt time.Time // of the schedule at that time; zero: not created yet
	CreatedBy string
	DeletedAt time.Time // zero: not deleted
	DeletedBy string
	KeptSince time.Time
}

// Slot is a nominal instant with its fire time and its local time.
type Slot struct {
	Key    schedule.Key
	RunAt  time.Time
	FireAt time.Time
	Local  string        // run_at in the schedule's zone, with its offset
	Note   string        // the effect of daylight saving; usually empty
	Run    *schedule.Run // the run of a neighbouring slot; set by the caller
}

// Rule is the definition in force.
type Rule struct {
	Definition *schedule.Definition
	Revision   int64
	Words      string
	MadeAt     time.Time
	MadeBy     string
	ReplacedAt time.Time // by the next revision; zero: current
}

// Pause is a pause of the schedule.
type Pause struct {
	From    time.Time // zero: since its creation, or before the retention
	By      string
	Note    string
	Until   time.Time // when it ended or will end; zero: until resumed
	EndedBy string    // who resumed; empty: it ended at its end time, or lasts
}

// Lateness is how long after fire_at the run was launched; false: not launched.
func (a *Answer) Lateness() (time.Duration, bool) {
	if a.Run == nil || a.Run.LaunchedAt.IsZero() {
		return 0, false
	}
	return a.Run.LaunchedAt.Sub(a.Run.FireAt), true
}

// Drift is the time from run_at to the launch; false: not launched.
func (a *Answer) Drift() (time.Duration, bool) {
	if a.Run == nil || a.Run.LaunchedAt.IsZero() {
		return 0, false
	}
	return a.Run.LaunchedAt.Sub(a.Run.RunAt).Abs(), true
}
