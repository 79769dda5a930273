package schedule

import (
	"slices"
	"strings"
	"time"
)

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
	GrantID    string // execution_grant_id
	// Text is looked for in id, workflow, owner, rule, zone, managed_by and
	// NAME=VALUE of each label; upper and lower case of ASCII letters are the same.
	Text       string
	State      ScheduleState
	Failing    bool // only failing schedules
	LabelKey   string
	LabelValue string // with LabelKey
	Now        time.Time
	After      string // schedule_id of the last row of the page before
	Limit      int

	// Lean leaves out input, labels and last_run_at, which cost more to read than
	// the rest.
	Lean bool

	// Of ListUpcoming alone: the next slot is before NextBefore (zero: whenever it
	// is) and, with After, behind the place (AfterNext, After).
	NextBefore, AfterNext time.Time
}

// FoldText is text with its ASCII letters in lower case: what both databases can
// compare alike.
func FoldText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// HasText reports whether the schedule has ScheduleFilter.Text in what is searched.
func (s *Schedule) HasText(text string) bool {
	fields := []string{s.ScheduleID, s.WorkflowID, s.UserID, s.CronExpr, s.Timezone, s.ManagedBy}
	for name, value := range s.Labels {
		fields = append(fields, name+"="+value)
	}
	return slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(FoldText(field), FoldText(text)) })
}

// Upcoming is an active schedule with its next slot.
type Upcoming struct {
	Schedule Schedule
	// NextAt is the first planned slot later than now, else the first slot that is
	// not planned yet. It is now where the planner has not reached now.
	NextAt time.Time
}

// FleetQuery asks for counts over the schedules and runs of one owner, or of all.
type FleetQuery struct {
	UserID      string
	Now         time.Time
	NextBefore  time.Time // of FleetCounts.Upcoming
	DueBefore   time.Time // of FleetCounts.Late
	FailedSince time.Time // of FleetCounts.Failed
}

// FleetCounts is what an operator looks at first.
type FleetCounts struct {
	Active   int // schedules: neither paused nor exhausted
	Upcoming int // active schedules with a slot later than now and before NextBefore
	Behind   int // active schedules that are not planned up to now
	InFlight int // runs: LAUNCHING, ENQUEUED, STARTED
	Waiting  int // runs that wait for another of their overlap key
	Late     int // runs that RunFilter.DueBefore finds
	Failed   int // runs: FAILED with run_at not before FailedSince
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
	RunID      string
	TraceID    string
	From       time.Time // run_at not before
	To         time.Time // run_at before
	// DueBefore finds what is late: PLANNED or LAUNCHING with fire_at before it,
	// without what waits for its overlap key.
	DueBefore time.Time
	Keys      KeyRange
	Now       time.Time
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

// RunSource is a part of the ledger, by an index of its own, that has all runs
// that a filter can match.
type RunSource int

// The sources, the narrowest first.
const (
	SourceKeys        RunSource = iota // a range of keys
	SourceRunID                        // one run_id
	SourceTraceID                      // one trace_id
	SourceSchedule                     // one schedule's history
	SourceDue                          // PLANNED without a wait, and LAUNCHING
	SourceInFlight                     // LAUNCHING, ENQUEUED, STARTED
	SourceUnfinished                   // those and PLANNED
	SourceUnscheduled                  // every trigger but schedule
	SourceEnded                        // FAILED, SKIPPED, CANCELLED
	SourceAll
)

// Source is the narrowest source with everything that the filter matches.
func (f *RunFilter) Source() RunSource {
	switch {
	case !f.Keys.IsZero():
		return SourceKeys
	case f.RunID != "":
		return SourceRunID
	case f.TraceID != "":
		return SourceTraceID
	case f.ScheduleID != "":
		return SourceSchedule
	case !f.DueBefore.IsZero():
		return SourceDue
	case f.only(StatusLaunching, StatusEnqueued, StatusStarted):
		return SourceInFlight
	case f.only(StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted):
		return SourceUnfinished
	case f.Trigger != "" && f.Trigger != TriggerSchedule:
		return SourceUnscheduled
	case f.only(StatusFailed, StatusSkipped, StatusCancelled), f.Reason != "" && Ending(f.Reason) != StatusSuccess:
		return SourceEnded
	}
	return SourceAll
}

// only reports whether the filter names statuses, and none but these.
func (f *RunFilter) only(statuses ...Status) bool {
	for _, s := range f.Statuses {
		if !slices.Contains(statuses, s) {
			return false
		}
	}
	return len(f.Statuses) > 0
}

// RecentRuns is how many of the newest runs of a source are looked through for
// those of an owner or a workflow, before the history of each of its schedules
// is. An owner with one run in a hundred fills a page by that; one with fewer
// has a short history.
const RecentRuns = 5000

// Scattered reports whether the filter's runs may lie far apart in its source:
// an owner's or a workflow's have no index of their own, which each claim and
// each settlement would have to enter.
func (f *RunFilter) Scattered() bool {
	s := f.Source()
	return (f.UserID != "" || f.WorkflowID != "") && f.UpdatedAfter.IsZero() &&
		(s == SourceAll || s == SourceEnded || s == SourceUnscheduled)
}
