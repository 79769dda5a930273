package schedule

import "time"

// ChangeInput is one schedule as a change finds it, its row locked.
type ChangeInput struct {
	Schedule *Schedule // nil: there is none, not even a tombstone
	InFlight int       // runs of its overlap key in flight; only with ChangeRequest.CountInFlight
	Grant    *Grant    // of ChangeRequest.GrantRefs; nil: there is none
}

// ChangeRequest names the schedules that one transaction changes.
type ChangeRequest struct {
	ScheduleIDs   []string // locked in sorted order
	CountInFlight bool
	// Managed adds the living schedules of a deployment or file set, those that
	// ScheduleIDs misses, ordered by id behind it. Changes that name the same
	// one come one after the other: each sees all that the one before has done.
	Managed   Managed
	Workflows []*WorkflowVersion // stored first, in the same transaction
	// Grants are stored first, too: one that is there with the same terms is no
	// write, with others ErrExists.
	Grants    []Grant
	GrantRefs []GrantRef // of each of ScheduleIDs, as far as it goes: the grant to look up; no GrantID: none
	// Deploy is remembered in the same transaction. One that is known already
	// writes nothing and is ErrRepeated, or ErrKeyConflict where it was another.
	Deploy *Deploy
	// OwnerLimit is how many living schedules an owner may have who gets a new
	// one by this change; more is ErrExhausted, and nothing is written. 0: any
	// number. It is counted in the transaction.
	OwnerLimit int
}

// Managed names what a deployment or file set owns.
type Managed struct {
	By     string // managed_by; empty: nothing
	UserID string // only this owner's; empty: every owner's
}

// Deploy is what is remembered of a deploy of ChangeRequest.Managed, so that
// its repeat does not undo what came after it.
type Deploy struct {
	RequestID string
	Hash      [32]byte // of all that was asked for
	Now       time.Time
}

// Change is everything one change writes for one schedule.
type Change struct {
	ScheduleID string
	// Row is the whole row to write, inserted or updated; nil leaves it.
	Row *Schedule
	// Created says that Row is a schedule that was not there, or deleted.
	Created bool
	// NewRevision also writes Row's definition to schedule_revisions.
	NewRevision bool
	ChangedBy   string
	// GivesWorkflow also gives Row's owner the versions of Row's workflow that are
	// stored for all owners, unless it has Row's version of its own.
	GivesWorkflow bool
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
	Audit   *AuditEntry // written in the same transaction; nil: none
	Now     time.Time
}

// RunChange is everything one change writes for one run.
type RunChange struct {
	Settle *Settlement // guarded by To.Predecessors, or equal status for heartbeats
	// AskCancel sets cancel_requested_at and cancel_reason unless set.
	AskCancel Reason
	Insert    *Run // a new attempt; an existing key is left as it is
	Events    []Event
	// LateReport is the status that a report which moved nothing has brought. Of
	// each status a run notes one: of the next ones nothing is written, no Events
	// either. Empty: there is none.
	LateReport Status
	// Report is written where the change moves the run, or with a late report that
	// is the first of its status. nil: none.
	Report *RunReport
	Audit  *AuditEntry // written in the same transaction; nil: none
	Now    time.Time
}

// GivesWork reports whether a worker may have something to do once the change is
// written: more than a sign of life.
func (c *RunChange) GivesWork() bool {
	return c.Insert != nil || c.AskCancel != "" || c.Settle != nil && c.Settle.To.Terminal()
}

// LateReportBit is the bit of a status in schedule_runs.late_reports; 0 for what
// is not reported.
func LateReportBit(reported Status) int {
	return map[Status]int{StatusStarted: 1, StatusSuccess: 2, StatusFailed: 4}[reported]
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

// RepeatedDeploy is the error of a deploy whose request id is known: there is
// nothing to do, unless it was used for something else.
func RepeatedDeploy(d *Deploy, known []byte) error {
	if string(known) == string(d.Hash[:]) {
		return ErrRepeated
	}
	return Explain(ErrKeyConflict, "request_id %q was used before for another deploy; use a new one", d.RequestID)
}
