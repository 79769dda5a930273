package schedule

import "time"

// ScheduleState is a filter word for lists.
type ScheduleState string

// The states that lists filter by.
const (
	StateActive    ScheduleState = "active"    // neither paused nor exhausted
	StatePaused    ScheduleState = "paused"    // paused now
	StateExhausted ScheduleState = "exhausted" // no slot is left
)

// ScheduleFilter narrows a list of schedules. Zero fields do not filter.
type ScheduleFilter struct {
	UserID     string
	WorkflowID string
	ManagedBy  string
	State      ScheduleState
	LabelKey   string
	LabelValue string // with LabelKey
	Now        time.Time
	After      string // schedule_id of the last row of the page before
	Limit      int
}

// RunFilter narrows a list of runs, newest run_at first. Zero fields do not
// filter. PLANNED rows whose run_at lies after Now only come with
// Status == PLANNED.
type RunFilter struct {
	ScheduleID string
	UserID     string
	WorkflowID string
	Statuses   []Status
	Reason     Reason
	Trigger    Trigger
	From       time.Time // run_at not before
	To         time.Time // run_at before
	Now        time.Time
	// UpdatedAfter, with UpdatedKey, orders by (updated_at, key) ascending
	// instead: the feed that a watch follows.
	UpdatedAfter time.Time
	UpdatedKey   Key
	AfterRunAt   time.Time // of the last row of the page before
	AfterKey     Key
	// Ascending is oldest run_at first, ties by key: the order of an export, in
	// which what is added later mostly comes last.
	Ascending bool
	Limit     int
}
