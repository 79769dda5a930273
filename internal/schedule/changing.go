package schedule

import "time"

// ChangeInput is one schedule as a change finds it, its row locked.
type ChangeInput struct {
	Schedule *Schedule // nil: there is none, not even a tombstone
	InFlight int       // runs of its overlap key in flight; only with ChangeRequest.CountInFlight
}

// ChangeRequest names the schedules that one transaction changes.
type ChangeRequest struct {
	ScheduleIDs   []string // locked in sorted order
	CountInFlight bool
	Workflow      *WorkflowVersion // stored first, in the same transaction
}

// Change is everything one change writes for one schedule.
type Change struct {
	ScheduleID string
	// Row is the whole row to write, inserted or updated; nil leaves it.
	Row *Schedule
	// NewRevision also writes Row's definition to schedule_revisions.
	NewRevision bool
	ChangedBy   string
	// DropPlannedAfter deletes PLANNED rows of triggers schedule and catchup
	// with run_at later than this: they were only a plan. Zero deletes none.
	DropPlannedAfter time.Time
	// EndDue ends the remaining PLANNED rows of triggers schedule and catchup
	// (run_at not later than DropPlannedAfter) so; To "" leaves them.
	EndDue struct {
		To     Status
		Reason Reason
	}
	// EndRest also ends PLANNED rows of the other triggers, as EndDue says, and
	// asks for the cancel of nothing: a deletion.
	EndRest bool
	Runs    []Run // to insert as PLANNED; an existing key is left as it is
	Events  []Event
	Now     time.Time
}

// RunChange is everything one change writes for one run.
type RunChange struct {
	Settle *Settlement // guarded by To.Predecessors, or equal status for heartbeats
	// AskCancel sets cancel_requested_at and cancel_reason unless set.
	AskCancel Reason
	Insert    *Run // a new attempt; an existing key is left as it is
	Events    []Event
	Now       time.Time
}

// RunInput is one run as a change finds it, its row locked.
type RunInput struct {
	Run        Run
	Definition *Definition // of its revision
	Schedule   *Schedule
	InFlight   int // runs of its overlap key in flight, itself included
	// Attempt is the run that RunChange.Insert would collide with, i.e. the row
	// under the key that ChangeRun was told to look up; nil = none.
	Existing *Run
}
