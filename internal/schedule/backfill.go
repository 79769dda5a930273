package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Reprocess says which slots of its range a backfill runs. All rows of a slot count, of any
// trigger: a slot in flight or with a SUCCESS is neither missed nor failed.
type Reprocess string

// The values of Reprocess.
const (
	ReprocessMissed Reprocess = "missed" // no row, or SKIPPED and CANCELLED ones only; the default
	ReprocessFailed Reprocess = "failed" // those, and slots that FAILED
	ReprocessAll    Reprocess = "all"    // every slot that is not planned or in flight
)

// Reprocesses is the closed set, in the order of the documentation.
var Reprocesses = []Reprocess{ReprocessMissed, ReprocessFailed, ReprocessAll}

// BackfillOrder is the order in which a backfill goes through its range.
type BackfillOrder string

// The orders.
const (
	OldestFirst BackfillOrder = "oldest_first" // the default
	NewestFirst BackfillOrder = "newest_first"
)

// BackfillOrders is the closed set.
var BackfillOrders = []BackfillOrder{OldestFirst, NewestFirst}

// BackfillState is the state of a backfill. The last two are final.
type BackfillState string

// The states.
const (
	BackfillRunning   BackfillState = "running"
	BackfillPaused    BackfillState = "paused"    // inserts nothing until it is resumed
	BackfillFinished  BackfillState = "finished"  // range done, all runs ended
	BackfillCancelled BackfillState = "cancelled" // by a user, or for its Reason
)

// BackfillStates is the closed set.
var BackfillStates = []BackfillState{BackfillRunning, BackfillPaused, BackfillFinished, BackfillCancelled}

// Ended reports whether nothing can follow s.
func (s BackfillState) Ended() bool { return s == BackfillFinished || s == BackfillCancelled }

// Limits of backfills.
const (
	MaxBackfillSlots       = 100_000 // in the range of one
	MaxBackfillConcurrency = 100     // runs of one at the same time
	MaxBackfillRate        = 60_000  // starts of one backfill per minute
	MaxScheduleBackfills   = 10      // open backfills of one schedule
	MaxOwnerBackfills      = 100     // open backfills of one owner
)

// Backfill is one row of backfills: a range of past slots to run or run again.
type Backfill struct {
	BackfillID  string
	ScheduleID  string
	RequestID   string
	RequestHash [32]byte // of the whole request
	UserID      string   // the schedule's owner
	Revision    int64    // in force at the request: decides slots and definition
	OverlapKey  string   // qualified, of that revision

	From          time.Time // the range is [From, To)
	To            time.Time
	Reprocess     Reprocess
	Order         BackfillOrder
	OverlapPolicy OverlapPolicy
	Concurrency   int32 // limit of runs planned or in flight
	RatePerMinute int32 // limit of starts per minute; 0: none
	Note          string
	CreatedBy     string

	State     BackfillState
	Reason    Reason // CANCELLED: why
	StateNote string // the user's note at the last pause, resume or cancel
	ChangedBy string

	// Cursor is the progress: OldestFirst has done all slots before it, NewestFirst all from it
	// on.
	Cursor time.Time
	NextAt time.Time // earliest next start
	BackfillCounts

	// Open says that the leader must feed it: it is running, or has runs with an uncounted end.
	Open      bool
	CreatedAt time.Time
	UpdatedAt time.Time
	EndedAt   time.Time
}

// BackfillCounts are numbers of slots.
type BackfillCounts struct {
	Slots      int64 // in the range
	ToRun      int64 // of Slots: matched at the time of the request
	PassedOver int64 // not of the requested kind, or already in flight
	Inserted   int64 // inserted as rows; the counts below are part of it
	Succeeded  int64
	Failed     int64
	Skipped    int64
	Cancelled  int64
	// Waiting and InFlight are not stored but counted from the runs.
	Waiting  int64 // not claimed yet
	InFlight int64
}

// BackfillID is derived from the request, so that a repeat has the same id.
func BackfillID(scheduleID, requestID string) string {
	sum := sha256.Sum256([]byte(scheduleID + "/b/" + requestID))
	return hex.EncodeToString(sum[:12])
}

// Count adds n uncounted runs by status; an empty status is a slot with a removed row.
func (c *BackfillCounts) Count(status Status, reason Reason, n int64) {
	switch {
	case status == "" || status == StatusPlanned || SkippedForAnother(status, reason):
		c.Waiting += n
	case status.InFlight():
		c.InFlight += n
	case status == StatusSuccess:
		c.Succeeded += n
	case status == StatusFailed:
		c.Failed += n
	case status == StatusSkipped:
		c.Skipped += n
	default:
		c.Cancelled += n
	}
}

// Started are the slots that have left PLANNED.
func (c *BackfillCounts) Started() int64 { return c.Inserted - c.Waiting }

// left are the slots that were neither passed over nor started.
func (c *BackfillCounts) left() int64 { return c.Slots - c.PassedOver - c.Started() }

// Remaining are the slots that are neither passed over nor started yet.
func (b *Backfill) Remaining() int64 {
	if b.State == BackfillCancelled {
		return 0
	}
	return b.left()
}

// NotRun are the slots that were left when the backfill was cancelled.
func (b *Backfill) NotRun() int64 { return b.left() - b.Remaining() }

// SkippedForAnother reports whether a run ended before its launch because of another one
// of its overlap key. A slot of a backfill is then inserted again.
func SkippedForAnother(status Status, reason Reason) bool {
	return status == StatusSkipped && (reason == ReasonOverlap || reason == ReasonQueueFull || reason == ReasonCoalesced)
}

// SlotState summarizes all rows of one slot: of its slot key, of backfills and of retries.
type SlotState struct {
	Rows    bool // there is one at all
	OnWay   bool // PLANNED or in flight
	Success bool
	Failed  bool
}

// Wants reports whether a slot with this standing should run.
func (p Reprocess) Wants(s SlotState) bool {
	switch {
	case s.OnWay: // the slot would run twice at once
		return false
	case p == ReprocessAll:
		return true
	case s.Success:
		return false
	}
	return p == ReprocessFailed || !s.Failed
}

// BackfillSlot is one row of backfill_runs: a slot with an inserted run.
type BackfillSlot struct {
	RunAt   time.Time
	Key     Key  // of its run
	Settled bool // its end is counted
	Run     *Run // nil: the row was removed; set on read only
}

// BackfillCandidate is one backfill as the leader reads it, with its schedule and row locked.
type BackfillCandidate struct {
	Backfill   Backfill
	Schedule   *Schedule      // nil: there is none, not even a tombstone
	Definition *Definition    // of Backfill.Revision; nil: it cannot be read
	Unsettled  []BackfillSlot // oldest first
	// Busy says that a run of the overlap key is in flight, waits, or falls due before Ahead of
	// the request; only for exclusive policies.
	Busy bool
	// Slots are those that Window returned, with the SlotStates of each.
	Slots      []time.Time
	SlotStates []SlotState
}

// BackfillDecision is the leader's decision on one candidate.
type BackfillDecision struct {
	Backfill Backfill       // the new row
	Rows     []Run          // to insert as PLANNED; existing keys are respected
	Slots    []BackfillSlot // to write: new, under another key, or settled
	Events   []Event
	More     bool // there is more to go through at once
}

// FeedRequest asks the store for one batch of backfills to feed.
type FeedRequest struct {
	Term  Term
	Now   time.Time
	Ahead time.Duration // see BackfillCandidate.Busy
	Limit int
}

// BackfillFeeder decides. Both of its functions are pure, and may be called again.
type BackfillFeeder struct {
	// Window are the slots for which Decide needs the standings.
	Window func(*BackfillCandidate) []time.Time
	// Decide decides on all candidates; pending are the runs of the shard's
	// backfills that are PLANNED or LAUNCHING.
	Decide func(candidates []BackfillCandidate, pending int) []BackfillDecision
}

// FeedResult sums up one feed transaction.
type FeedResult struct {
	Candidates int // less than Limit = all were looked at
	Inserted   int
	More       bool
	Decisions  []BackfillDecision
}

// BackfillRef names a backfill and its schedule, which is locked first.
type BackfillRef struct{ ScheduleID, BackfillID string }

// BackfillInput is one backfill as a change finds it.
type BackfillInput struct {
	Schedule *Schedule // nil: there is none
	Backfill *Backfill // nil: there is none yet
	InFlight int       // runs of the schedule's overlap key in flight
	// How many others of the schedule and of its owner have not ended.
	OfSchedule, OfOwner int
}

// BackfillChange is everything that a change writes for one backfill.
type BackfillChange struct {
	Row *Backfill // inserted or replaced; nil: nothing is written
	// DropPlanned deletes the PLANNED rows of its unsettled slots. They are inserted again under
	// their keys.
	DropPlanned bool
	EndPlanned  Reason // PLANNED rows become CANCELLED with it; "" leaves them
	AskCancel   Reason // reason to cancel runs in flight; "" leaves them
	Events      []Event
	Audit       *AuditEntry
	Now         time.Time
}

// BackfillFilter narrows a list of backfills, newest first. Zero fields do not
// filter.
type BackfillFilter struct {
	ScheduleID string
	UserID     string
	State      BackfillState
	BeforeAt   time.Time // created_at and id of the last row of the page before
	BeforeID   string
	Limit      int
}

// ETA estimates when the backfill is done at its current pace; zero: unknown.
func (b *Backfill) ETA(now time.Time) time.Time {
	ended := b.Succeeded + b.Failed + b.Skipped + b.Cancelled
	left := max(b.ToRun-ended, b.InFlight+b.Waiting)
	switch elapsed := now.Sub(b.CreatedAt); {
	case b.State != BackfillRunning || left <= 0:
		return time.Time{}
	case ended > 0 && elapsed > 0:
		return now.Add(time.Duration(float64(elapsed) / float64(ended) * float64(left)))
	case b.RatePerMinute > 0:
		return now.Add(time.Duration(left) * time.Minute / time.Duration(b.RatePerMinute))
	}
	return time.Time{}
}
