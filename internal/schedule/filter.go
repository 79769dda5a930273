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
	StateExhausted ScheduleState = "exhausted" // not paused, and no slot is left
)

// StateAt returns the state that lists show at now. The lists of the stores have the same
// conditions.
func (s *Schedule) StateAt(now time.Time) ScheduleState {
	switch {
	case s.Pause.Active(now):
		return StatePaused
	case s.NextRunAt.IsZero() && !s.Backlog.Open():
		return StateExhausted
	}
	return StateActive
}

// ScheduleFilter narrows a list of schedules. Zero fields do not filter.
type ScheduleFilter struct {
	UserID     string
	WorkflowID string
	ManagedBy  string // "": all but those with OfQueue
	GrantID    string // execution_grant_id
	// Text is searched in id, workflow, owner, rule, zone, managed_by and NAME=VALUE of each
	// label, ignoring the case of ASCII letters.
	Text       string
	State      ScheduleState
	Failing    bool // only failing schedules
	LabelKey   string
	LabelValue string // with LabelKey
	Now        time.Time
	After      string // schedule_id of the last row of the page before
	Limit      int

	// OmitDetails leaves out input, labels and last_run_at, the most expensive columns.
	OmitDetails bool

	// For ListUpcoming only: the next slot is before NextBefore (zero: any) and, with After,
	// behind (AfterNext, After).
	NextBefore, AfterNext time.Time
}

// FoldText lowers ASCII letters only: both databases can compare that alike.
func FoldText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// HasText reports whether the schedule matches ScheduleFilter.Text.
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
	// NextAt is the first planned slot later than now, else the first unplanned slot. It is now if
	// planning is behind.
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

// FleetCounts are the counts of an overview.
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
	Dead       bool // only dead runs
	ErrorCode  string
	Class      FailureClass // of a FAILED run
	AnyOf      []Key        // only these runs; nil: any
	Trigger    Trigger
	QueueNo    int32 // of this dispatch queue
	GroupNo    int32 // members of this group
	RunID      string
	TraceID    string
	From       time.Time // run_at not before
	To         time.Time // run_at before
	// DueBefore finds late runs: PLANNED or LAUNCHING with an earlier fire_at, without those that
	// wait for their overlap key.
	DueBefore time.Time
	Keys      KeyRange
	Now       time.Time
	// UpdatedAfter, with UpdatedKey, orders by (updated_at, key) ascending instead, as a watch
	// needs it.
	UpdatedAfter time.Time
	UpdatedKey   Key
	AfterRunAt   time.Time // of the last row of the page before
	AfterKey     Key
	// Ascending is oldest run_at first, ties by key: the order of an export, where rows added
	// later mostly come last.
	Ascending bool
	Limit     int
}

// RunSource is an indexed part of the ledger that has all runs that a filter can match.
type RunSource int

// The sources, the narrowest first.
const (
	SourceKeys        RunSource = iota // a range of keys
	SourceRunID                        // one run_id
	SourceTraceID                      // one trace_id
	SourceDead                         // dead runs
	SourceSchedule                     // one schedule's history
	SourceGroup                        // one group of a dispatch queue
	SourceDue                          // PLANNED without a wait, and LAUNCHING
	SourceInFlight                     // LAUNCHING, ENQUEUED, STARTED
	SourceUnfinished                   // those and PLANNED
	SourceUnscheduled                  // every trigger but schedule
	SourceEnded                        // FAILED, SKIPPED, CANCELLED
	SourceAll
)

// Source is the narrowest source that has all runs of the filter.
func (f *RunFilter) Source() RunSource {
	switch {
	case !f.Keys.IsZero():
		return SourceKeys
	case f.RunID != "":
		return SourceRunID
	case f.TraceID != "":
		return SourceTraceID
	case f.Dead:
		return SourceDead
	case f.ScheduleID != "":
		return SourceSchedule
	case f.GroupNo != 0:
		return SourceGroup
	case f.QueueNo != 0:
		return SourceAll // runs that wait in a queue are in none of the others
	case !f.DueBefore.IsZero():
		return SourceDue
	case f.only(StatusLaunching, StatusEnqueued, StatusStarted):
		return SourceInFlight
	case f.only(StatusPlanned, StatusLaunching, StatusEnqueued, StatusStarted):
		return SourceUnfinished
	case f.Trigger != "" && f.Trigger != TriggerSchedule:
		return SourceUnscheduled
	case f.only(StatusFailed, StatusSkipped, StatusCancelled), f.Class != "", f.Reason != "" && Ending(f.Reason) != StatusSuccess:
		return SourceEnded
	}
	return SourceAll
}

// MayBeEnded and MayBeOpen report whether runs that are over, or that are not, can match.
func (f *RunFilter) MayBeEnded() bool {
	return f.DueBefore.IsZero() && (len(f.Statuses) == 0 || slices.ContainsFunc(f.Statuses, Status.Terminal))
}

func (f *RunFilter) MayBeOpen() bool {
	return f.Reason == "" && !f.Dead && f.Class == "" && (len(f.Statuses) == 0 || slices.ContainsFunc(f.Statuses, func(s Status) bool { return !s.Terminal() }))
}

// only reports whether the filter names statuses, all of them among these.
func (f *RunFilter) only(statuses ...Status) bool {
	for _, s := range f.Statuses {
		if !slices.Contains(statuses, s) {
			return false
		}
	}
	return len(f.Statuses) > 0
}

// RecentRuns is how many of the newest runs of a source are searched for those of an owner or a
// workflow before the history of each of its schedules is. An owner with one run in a hundred
// fills a page this way; one with fewer has a short history.
const RecentRuns = 5000

// Scattered reports whether the filter's runs may lie far apart in its source. Owners and
// workflows have no index, because each claim and settlement would have to update it.
func (f *RunFilter) Scattered() bool {
	s := f.Source()
	return (f.UserID != "" || f.WorkflowID != "") && f.UpdatedAfter.IsZero() &&
		(s == SourceAll || s == SourceEnded || s == SourceUnscheduled)
}
