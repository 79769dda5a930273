package schedule

import "time"

// OverlapStatus is the state of an overlap group for people.
type OverlapStatus string

// The states of an overlap group.
const (
	OverlapRunning OverlapStatus = "running" // a run is in flight
	OverlapIdle    OverlapStatus = "idle"
	OverlapStopped OverlapStatus = "stopped" // all its schedules are paused
)

// OverlapKeyFilter selects the overlap keys of living schedules with policy coalesce.
type OverlapKeyFilter struct {
	UserID string // "": of all owners
	After  string // the last one of the page before, as user_id/overlap_key
	Limit  int
}

// Limits of what is shown of an overlap group.
const (
	MaxOverlapSchedules = 200
	MaxOverlapRuns      = 100
	MaxOverlapActivity  = 10
)

// OpenAsk asks for the open runs of an overlap key that are in flight, wait for it, or are due.
type OpenAsk struct {
	OverlapKey string    // user_id/overlap_key; "": nothing is asked
	DueBy      time.Time // planned runs that fire later are left out
	Limit      int
}
