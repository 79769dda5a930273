package schedule

import "time"

// AuditEntry is one row of audit_log: who called what, and the result. It never holds credentials
// or the body of a call.
type AuditEntry struct {
	ID             int64 // given by the store, grows
	Time           time.Time
	Subject        string // empty: authentication is off
	Via            string
	Method         string // of the call, such as PauseSchedule
	Target         string // the id of what it is about
	UserID         string // the target's owner; empty: not known
	RequestID      string
	Code           string // OK, or the code of the refusal
	RevisionBefore int64  // of a schedule; 0 = there was none
	RevisionAfter  int64
	// Count is how many calls the row covers: equal refusals of one minute share a row. 0 is
	// written as 1.
	Count int64
	// OtherTargets says that some of these calls named another target.
	OtherTargets bool
}

// AuditFilter narrows the audit trail, newest first. Zero fields do not filter.
type AuditFilter struct {
	Subject  string
	Target   string
	Method   string
	From     time.Time // not before
	To       time.Time // before
	BeforeID int64     // the page before ended with it
	Limit    int
}
