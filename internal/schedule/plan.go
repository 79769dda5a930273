package schedule

import "time"

// Term is one leadership of one shard. Every plan, claim and settle of a
// worker names it, and the store refuses with ErrFenced when the leaders row
// holds another epoch or holder: after epoch e+1 is committed, nothing is
// written by e.
type Term struct {
	Shard  int    // 0 to Shards-1
	Shards int    // how many there are; 0 counts as 1
	Holder string // random per process start
	Epoch  int64  // grows with every term of any shard, and never goes back
}

// Buckets are the first and last hash bucket (see Bucket) of the term's shard; without shards, all
// of them.
func (t Term) Buckets() (first, last int) {
	if t.Shards <= 1 {
		return 0, Buckets - 1
	}
	return (t.Shard*Buckets + t.Shards - 1) / t.Shards, ((t.Shard+1)*Buckets+t.Shards-1)/t.Shards - 1
}

// PlanRequest asks the store for one batch of schedules to plan.
type PlanRequest struct {
	Term    Term
	Now     time.Time
	Horizon time.Time     // schedules with plan_at at or before it; plan_at is absolute, so this is Now
	Grace   time.Duration // slots that are later than this and that no leader has seen in time come along as Late
	Limit   int
}

// PlanCandidate is one schedule as the planner reads it, its row locked.
type PlanCandidate struct {
	Schedule Schedule
	// BacklogDefinition is the definition of Schedule.Backlog.Revision; nil if there is
	// no backlog, if it is of the revision in force, or if its revision is gone.
	BacklogDefinition *Definition
	// Late are the slots of this schedule past the grace that no leader has seen in
	// time, oldest first. The revision in force decides on them, not their own.
	Late []Run
	// Unreadable says why the row could not be decoded; then only ScheduleID and PlanFailures of
	// Schedule are valid.
	Unreadable error
}

// PlanDecision is the planner's decision on one candidate.
type PlanDecision struct {
	ScheduleID   string
	Rows         []Run         // to insert as PLANNED; existing keys are respected
	LateVerdicts []LateVerdict // of the candidate's Late rows
	NextRunAt    time.Time
	PlanAt       time.Time
	Backlog      Backlog
	// Failures > 0: it could not be planned. Only plan_failures, plan_at and the events are
	// written.
	Failures int
	EndPause bool // paused_until has come
	Events   []Event
}

// LateVerdict is the verdict on one late planned row: it still fires, or ends SKIPPED with the
// reason.
type LateVerdict struct {
	Key     Key
	Fire    bool
	FireAt  time.Time // Fire: when, as catch-up spacing says
	Reason  Reason    // not Fire
	Trigger Trigger   // Fire: the trigger it now carries
}

// PlanResult sums up one plan transaction.
type PlanResult struct {
	Candidates int      // schedules looked at; less than Limit = nothing more is due
	Inserted   int      // rows that were new
	Rows       []Run    // the rows of the plan, new or not
	Skipped    []Skip   // late rows that ended
	Failed     []string // schedules that could not be planned
}

// OverlapGroup is the input of the overlap verdict for one overlap key, read after its lock was
// taken.
type OverlapGroup struct {
	OverlapKey string
	Now        time.Time // rows of Due with a later fire_at may be armed, but not skipped and not made to wait
	InFlight   []Run     // LAUNCHING, ENQUEUED, STARTED
	Waiting    []Run     // PLANNED with waiting_since, in order of (fire_at, run_at, key)
	Due        []Run     // PLANNED and due by Now + Ahead, in claim order
}

// Verdict is the decision on one PLANNED run of a group or, with Cancel, on a run in flight.
type Verdict struct {
	Key    Key
	Action VerdictAction
	Reason Reason    // Skip: why; Cancel: what it will end with
	Since  time.Time // Wait: waiting_since of a run whose place it takes; zero: now
}

type VerdictAction int

// The actions.
const (
	VerdictClaim  VerdictAction = iota + 1 // PLANNED → LAUNCHING
	VerdictWait                            // PLANNED, waiting_since = now, or Verdict.Since
	VerdictSkip                            // PLANNED → SKIPPED(reason)
	VerdictCancel                          // in flight: cancel_requested_at = now, unless set
)

// Ended is a run that a sweep brought to its end.
type Ended struct {
	Run    Run // after the change
	Before Status
}

// SweepRequest bounds what a sweep ends.
type SweepRequest struct {
	Term       Term
	Now        time.Time
	CancelWait time.Duration // a cancel not confirmed within it ends the run anyway
	// RetryFor after timeout_at a LAUNCHING row ends, whatever its outcome.
	RetryFor time.Duration
	Limit    int
}
