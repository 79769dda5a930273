package schedule

import (
	"cmp"
	"slices"
	"time"
)

// RecentOutcomes is how many outcomes of a schedule lists show.
const RecentOutcomes = 20

// EndedRun is how one run ended.
type EndedRun struct {
	Key       Key
	RunAt     time.Time
	EndedAt   time.Time
	Status    Status // terminal
	Reason    Reason
	ErrorCode string
	Retried   bool // it failed, and an automatic retry follows it
}

// Failure describes a failing schedule: of its runs that succeeded, or failed and are not retried
// automatically, the newest failed. The newest run has the latest run_at; of several runs of one
// slot it is the one that ended last. So a retry or backfill replaces its slot's outcome, and an
// old slot does not count.
type Failure struct {
	ScheduleID   string
	Failures     int64     // FAILED runs since the last success
	FirstRunAt   time.Time // slot of the first of them
	FirstEndedAt time.Time
	LastRunAt    time.Time // slot of the newest
	LastEndedAt  time.Time
	LastKey      Key
	Reason       Reason // of the newest
	ErrorCode    string
	ErrorMessage string // empty once the run is pruned
}

// Recent is the part of a schedule's runs that lists show.
type Recent struct {
	Outcomes []EndedRun // newest run_at first, at most the requested number
	Failure  *Failure   // nil: it is not failing
}

// FailureGroup is the failing schedules whose newest runs failed in the same way.
type FailureGroup struct {
	Reason    Reason
	ErrorCode string
	Schedules int64
	Failures  int64
	FirstAt   time.Time // when the first of their runs failed
	LastAt    time.Time // when the newest did
	Examples  []string  // schedule ids, those that failed last first
}

// FailureExamples is how many schedules a FailureGroup names.
const FailureExamples = 5

// EndedCount is how many runs of one schedule ended in one way.
type EndedCount struct {
	ScheduleID string
	Status     Status
	Reason     Reason
	ErrorCode  string
	Runs       int64
}

// EndedGroup counts the runs that ended in one way, with the schedules that have most.
type EndedGroup struct {
	Status    Status
	Reason    Reason
	ErrorCode string
	Runs      int64
	Worst     []EndedCount // at most WorstSchedules, most runs first
}

// WorstSchedules is how many schedules an EndedGroup names.
const WorstSchedules = 3

// GroupEnded groups counts by how runs ended, the most runs first.
func GroupEnded(counts []EndedCount) (groups []EndedGroup) {
	for _, c := range counts {
		i := slices.IndexFunc(groups, func(g EndedGroup) bool {
			return g.Status == c.Status && g.Reason == c.Reason && g.ErrorCode == c.ErrorCode
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, EndedGroup{Status: c.Status, Reason: c.Reason, ErrorCode: c.ErrorCode})
		}
		groups[i].Runs += c.Runs
		groups[i].Worst = append(groups[i].Worst, c)
	}
	for i := range groups {
		g := &groups[i]
		slices.SortFunc(g.Worst, func(a, b EndedCount) int {
			return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.ScheduleID, b.ScheduleID))
		})
		g.Worst = g.Worst[:min(len(g.Worst), WorstSchedules)]
	}
	slices.SortFunc(groups, func(a, b EndedGroup) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.ErrorCode, b.ErrorCode))
	})
	return groups
}
