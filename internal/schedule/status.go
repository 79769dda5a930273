package schedule

import "slices"

// Status is a run's state. It only moves forward:
//
//	PLANNED → LAUNCHING → ENQUEUED → STARTED → SUCCESS | FAILED
//	PLANNED | LAUNCHING → SKIPPED, and any run in flight that its executor snoozes
//	any of the first four → CANCELLED
//
// A report may skip states. Terminal states are final.
type Status string

// The statuses.
const (
	StatusPlanned   Status = "PLANNED"   // durable, not yet claimed
	StatusLaunching Status = "LAUNCHING" // claimed; the executor may have been called
	StatusEnqueued  Status = "ENQUEUED"  // the executor accepted it
	StatusStarted   Status = "STARTED"   // the executor says that it runs
	StatusSuccess   Status = "SUCCESS"
	StatusFailed    Status = "FAILED"
	StatusSkipped   Status = "SKIPPED"
	StatusCancelled Status = "CANCELLED"
)

// Statuses is the closed set, in the order of a run's life.
var Statuses = []Status{
	StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted,
	StatusSuccess, StatusFailed, StatusSkipped, StatusCancelled,
}

// InFlight are the statuses that block an overlap key.
var InFlight = []Status{StatusLaunching, StatusEnqueued, StatusStarted}

// Terminal reports whether nothing can follow s.
func (s Status) Terminal() bool {
	switch s {
	case StatusSuccess, StatusFailed, StatusSkipped, StatusCancelled:
		return true
	}
	return false
}

// Clause completes "the run ".
func (s Status) Clause() string {
	switch s {
	case StatusPlanned:
		return "is planned"
	case StatusLaunching:
		return "is being launched"
	case StatusEnqueued:
		return "was accepted by the executor"
	case StatusStarted:
		return "is running"
	case StatusSuccess:
		return "succeeded"
	case StatusFailed:
		return "failed"
	case StatusSkipped:
		return "was skipped"
	case StatusCancelled:
		return "was cancelled"
	}
	return "is " + string(s)
}

// InFlight reports whether a run with this status blocks others of its overlap key.
func (s Status) InFlight() bool { return slices.Contains(InFlight, s) }

// Predecessors are the statuses from which a run may become s. Every UPDATE of a run's status
// names them in its WHERE clause, so that two writers cannot move a run backwards.
func (s Status) Predecessors() []Status {
	switch s {
	case StatusLaunching:
		return []Status{StatusPlanned}
	case StatusEnqueued:
		return []Status{StatusLaunching}
	case StatusStarted:
		return []Status{StatusLaunching, StatusEnqueued}
	case StatusSuccess:
		return []Status{StatusLaunching, StatusEnqueued, StatusStarted}
	case StatusFailed:
		return []Status{StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted}
	case StatusSkipped:
		return []Status{StatusPlanned, StatusLaunching}
	case StatusCancelled:
		return []Status{StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted}
	}
	return nil // rows start as PLANNED
}

// CanBecome reports whether a run may move from s to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(next.Predecessors(), s) }
