package schedule

import "time"

// MaxRedrive is how many dead runs one transaction redrives.
const MaxRedrive = 1000

// DeadCountLimit is where counts of dead runs stop.
const DeadCountLimit = 10_000

// DeadCount is how many dead runs a schedule has.
type DeadCount struct {
	ScheduleID string
	Runs       int64
}

// RedriveOrder says how dead runs are retried by hand.
type RedriveOrder struct {
	RequestID string // the keys of the new runs follow from it
	// RequestedBy is the caller, which the new runs name.
	RequestedBy string
	Renew       bool // give them automatic retries
	// JobAttempts is how many attempts a job has whose schedule has no policy.
	JobAttempts uint32
	// RatePerMinute spaces fire_at from Began on; 0: all are due at Now. Before is how many
	// runs earlier transactions of this redrive have retried.
	RatePerMinute uint32
	Before        int
	Began, Now    time.Time
}

// RedriveChange is what one transaction of a redrive writes.
type RedriveChange struct {
	Runs   []Run // to insert; the dead run that RetryOf names is no longer dead
	Events []Event
	Audit  []AuditEntry
	Now    time.Time
}

// RunPage is the part of the runs of a filter that one transaction has looked at.
type RunPage struct {
	Found int // as many as the filter's limit: there may be more
	// The last of them.
	RunAt time.Time
	Key   Key
}

// PageOf is the page of runs that were found.
func PageOf(found []Run) RunPage {
	if len(found) == 0 {
		return RunPage{}
	}
	last := &found[len(found)-1]
	return RunPage{Found: len(found), RunAt: last.RunAt, Key: last.Key}
}
