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

// OpenStatuses are the statuses of runs that have not ended.
var OpenStatuses = []Status{StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted}
