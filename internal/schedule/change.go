package schedule

import "time"

// ChangeInput is one schedule as a change finds it, its row locked.
type ChangeInput struct {
	Schedule *Schedule // nil: there is none, not even a tombstone
	InFlight int       // runs of its overlap key in flight; only with ChangeRequest.CountInFlight
	Grant    *Grant    // of ChangeRequest.GrantRefs; nil: there is none
	Open     []Key     // of ChangeRequest.Open, the same for each input
}

// ChangeRequest names the schedules that one transaction changes.
type ChangeRequest struct {
	ScheduleIDs   []string // locked in sorted order
	CountInFlight bool
	Open          OpenAsk
	// Managed adds the living schedules of a deployment or file set that are missing in
	// ScheduleIDs, ordered by id after them. Changes with the same Managed are serialized: each
	// sees all of the previous one.
	Managed   Managed
	Workflows []*WorkflowVersion // stored first, in the same transaction
	// Grants are stored first, too. An existing grant with the same terms is left as it is; with
	// other terms it is ErrExists.
	Grants    []Grant
	GrantRefs []GrantRef // the grant to look up for each of ScheduleIDs, may be shorter; no GrantID: none
	// Deploy is recorded in the same transaction. A known request writes nothing and
	// is ErrRepeated, or ErrKeyConflict if its hash differs.
	Deploy *Deploy
	// OwnerLimit is how many living schedules an owner may have when this change creates one; more
	// is ErrExhausted and writes nothing. 0: no limit. It is counted in the transaction.
	OwnerLimit int
}

// Managed names the schedules of a deployment or file set.
type Managed struct {
	By     string // managed_by; empty: nothing
	UserID string // only this owner's; empty: every owner's
}

// Deploy records a deploy of ChangeRequest.Managed, so that a repeat does not undo later changes.
type Deploy struct {
	RequestID string
	Hash      [32]byte // of the whole request
	Now       time.Time
}

// Change is everything one change writes for one schedule.
type Change struct {
	ScheduleID string
	// Row is the whole row to write, inserted or updated; nil leaves it.
	Row *Schedule
	// Created says that Row is a new schedule, or replaces a tombstone.
	Created bool
	// NewRevision also writes Row's definition to schedule_revisions.
	NewRevision bool
	ChangedBy   string
	// SharesWorkflow also gives Row's owner the versions of Row's workflow that are
	// stored for all owners, unless the owner has stored Row's version.
	SharesWorkflow bool
	// DropPlannedAfter deletes PLANNED rows of triggers schedule and catchup
	// with a later run_at. Zero deletes none.
	DropPlannedAfter time.Time
	// EndDue ends the remaining PLANNED rows of triggers schedule and catchup (run_at not later
	// than DropPlannedAfter) with this status and reason; To "" leaves them.
	EndDue struct {
		To     Status
		Reason Reason
	}
	// EndRest (a deletion) ends PLANNED rows of the other triggers in the same way. It requests no
	// cancel.
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
	// Redriven says that Insert retries the run by hand: if it is dead, it no longer is.
	Redriven bool
	Events   []Event
	// LateReport is the status of a report that moved nothing; empty: none. A run notes
	// one per status: for later ones nothing is written, no Events either.
	LateReport Status
	// Report is written if the change moves the run, or with the first late report of its status.
	// nil: none.
	Report *RunReport
	Audit  *AuditEntry // written in the same transaction; nil: none
	Now    time.Time
}

// CausesWork reports whether a worker may have work after the change: false for a heartbeat.
func (c *RunChange) CausesWork() bool {
	return c.Insert != nil || c.AskCancel != "" || c.Settle != nil && c.Settle.To.Terminal()
}

// LateReportBit is the bit of a status in schedule_runs.late_reports; 0 for statuses that are not
// reported.
func LateReportBit(reported Status) int {
	return map[Status]int{StatusStarted: 1, StatusSuccess: 2, StatusFailed: 4}[reported]
}

// RunInput is one run as a change finds it, its row locked.
type RunInput struct {
	Run        Run
	Definition *Definition // of its revision
	Schedule   *Schedule
	Queue      *Queue // of the run; nil: it is in none
	InFlight   int    // runs of its overlap key in flight, itself included
	// Existing is the row under the key of RunChange.Insert, which ChangeRun was told to look up;
	// nil: none.
	Existing *Run
}

// RepeatedDeploy is the error of a deploy with a known request id.
func RepeatedDeploy(d *Deploy, known []byte) error {
	if string(known) == string(d.Hash[:]) {
		return ErrRepeated
	}
	return Explain(ErrKeyConflict, "request_id %q was used before for another deploy; use a new one", d.RequestID)
}
