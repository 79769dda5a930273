package schedule

import "time"

// MaxCancel is how many runs one transaction cancels.
const MaxCancel = 1000

// CancelChange is what one transaction of a cancel of many runs writes.
type CancelChange struct {
	End    []Settlement // runs that were never sent
	Ask    []Key        // runs in flight, whose executor is asked
	Reason Reason       // of those that are asked
	Events []Event
	Audit  []AuditEntry
	Now    time.Time
}

// CancelPage is the part of the open runs that one transaction has looked at.
type CancelPage struct {
	Found int // as many as the filter's limit: there may be more
	// The last of them.
	RunAt time.Time
	Key   Key
}

// CancelPageOf is the page of runs that a cancel has found.
func CancelPageOf(found []Run) CancelPage {
	return CancelPage(PageOf(found))
}

// OpenStatuses are the statuses of runs that have not ended.
var OpenStatuses = []Status{StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted}
