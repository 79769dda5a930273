package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Kinds of changes, as in the table changes of the other stores.
const (
	scheduleChanged = 1
	runInserted     = 2 // or changed by somebody else than the claim
	runEnded        = 3
	cancelRequested = 4
)

// plannedAhead: a run that the planner inserts is a change if it fires so soon.
// Later ones come into the leader's window after their insert.
const plannedAhead = 30 * time.Second

// keptChanges is how many changes are kept, if Options do not say. Reading from an
// older position is refused.
const keptChanges = 1 << 16

// change names rows to read again. first and last are hash buckets.
type change struct {
	kind        int
	first, last int
	schedules   []string
	keys        []schedule.Key
}

func (c *change) concerns(t schedule.Term) bool {
	first, last := t.Buckets()
	return first <= c.last && c.first <= last
}

// changeLog is the last changes. Their numbers count from 1.
type changeLog struct {
	rows    []change
	deleted int64 // how many were deleted from the front
	most    int
}

func (l *changeLog) last() int64 { return l.deleted + int64(len(l.rows)) }

func (l *changeLog) position() ledger.Position {
	return ledger.Position(strconv.FormatInt(l.last(), 10))
}

func (l *changeLog) add(rows []change) {
	if l.rows = append(l.rows, rows...); len(l.rows) >= 2*l.most {
		drop := len(l.rows) - l.most
		l.rows, l.deleted = slices.Clone(l.rows[drop:]), l.deleted+int64(drop)
	}
}

// after are the changes after a position.
func (l *changeLog) after(p ledger.Position) ([]change, error) {
	n, err := strconv.ParseInt(string(p), 10, 64)
	if err != nil || n < l.deleted || n > l.last() {
		return nil, fmt.Errorf("read changes after %q: kept are %d to %d: %w", string(p), l.deleted+1, l.last(), ledger.ErrPositionLost)
	}
	return l.rows[n-l.deleted:], nil
}

// changed collects what a transaction has changed: at most one row of each kind.
type changed struct {
	schedules map[string]bool
	buckets   []int // of the schedules
	runs      map[int]map[schedule.Key]int
}

func (t *tx) noteRun(kind int, r *schedule.Run) {
	if t.silent {
		return
	}
	if t.changed.runs == nil {
		t.changed.runs = make(map[int]map[schedule.Key]int)
	}
	if t.changed.runs[kind] == nil {
		t.changed.runs[kind] = make(map[schedule.Key]int)
	}
	t.changed.runs[kind][r.Key] = t.bucket(r.OverlapKey)
}

// noteSchedule names a schedule that was changed, with the buckets of its old and
// new overlap key.
func (t *tx) noteSchedule(before, after *schedule.Schedule) {
	if t.changed.schedules == nil {
		t.changed.schedules = make(map[string]bool)
	}
	t.changed.schedules[after.ScheduleID] = true
	for _, s := range []*schedule.Schedule{before, after} {
		if s != nil {
			t.changed.buckets = append(t.changed.buckets, t.bucket(s.QualifiedOverlapKey()))
		}
	}
}

// noteDropped is for a planned row that a change of its schedule deletes: the
// schedule is named, for the bucket of the row as well.
func (t *tx) noteDropped(r *schedule.Run) {
	if s := t.schedules[r.ScheduleID]; s != nil {
		t.noteSchedule(s, s)
	}
	t.changed.buckets = append(t.changed.buckets, t.bucket(r.OverlapKey))
}

// noteMove notes how a row was changed, if the judge needs to know.
func (t *tx) noteMove(before, after *schedule.Run) {
	switch {
	case before.Status.Terminal():
	case after.Status.Terminal():
		t.noteRun(runEnded, after)
	case before.CancelRequestedAt.IsZero() && !after.CancelRequestedAt.IsZero():
		t.noteRun(cancelRequested, after)
	case after.Status == schedule.StatusPlanned && ledger.RunOf(before) != ledger.RunOf(after),
		after.Status == schedule.StatusLaunching && !after.ClaimedUntil.Equal(before.ClaimedUntil):
		t.noteRun(runInserted, after)
	}
}

// rows are the changes of a transaction, by kind.
func (c *changed) rows() (rows []change) {
	if len(c.schedules) > 0 {
		row := change{kind: scheduleChanged, first: slices.Min(c.buckets), last: slices.Max(c.buckets)}
		for id := range c.schedules {
			row.schedules = append(row.schedules, id)
		}
		rows = append(rows, row)
	}
	for kind := runInserted; kind <= cancelRequested; kind++ {
		if len(c.runs[kind]) == 0 {
			continue
		}
		row := change{kind: kind, first: schedule.Buckets}
		for key, bucket := range c.runs[kind] {
			row.keys = append(row.keys, key)
			row.first, row.last = min(row.first, bucket), max(row.last, bucket)
		}
		rows = append(rows, row)
	}
	return rows
}

// sortChanges makes an answer the same each time.
func sortChanges(c *ledger.Changes) {
	byKey := func(a, b ledger.Run) int { return slices.Compare(a.Key[:], b.Key[:]) }
	slices.SortFunc(c.Ended, func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) })
	slices.SortFunc(c.Runs, byKey)
	slices.SortFunc(c.Schedules, func(a, b ledger.ScheduleNow) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
	for i := range c.Schedules {
		slices.SortFunc(c.Schedules[i].Planned, byKey)
	}
}
