package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	no          int64 // of its transaction
	kind        int
	first, last int
	schedules   []string
	keys        []schedule.Key
}

func (c *change) concerns(t schedule.Term) bool {
	first, last := t.Buckets()
	return first <= c.last && c.first <= last
}

// changeLog is the last changes, in the order of their commits. As on Postgres,
// transactions are numbered when they begin, so a number can come late.
type changeLog struct {
	rows    []change
	deleted int64 // how many were deleted from the front
	most    int
	next    int64 // number of the next transaction
	open    []int64
	read    int64 // the greatest next that a reader has as its position
}

func (l *changeLog) last() int64 { return l.deleted + int64(len(l.rows)) }

// begin draws the number of a transaction.
func (l *changeLog) begin() int64 {
	l.next++
	return l.next - 1
}

// position is a snapshot, as on Postgres: how many rows there are, the number of the next
// transaction, and those that are open.
func (l *changeLog) position() ledger.Position {
	l.read = l.next
	return snapshot{l.last(), l.next, l.open}.position()
}

// snapshot is a read position.
type snapshot struct {
	rows, next int64
	open       []int64
}

func (s snapshot) position() ledger.Position {
	text := fmt.Sprint(s.rows, " ", s.next)
	for _, no := range s.open {
		text += fmt.Sprint(" ", no)
	}
	return ledger.Position(text)
}

// saw reports whether the transaction had committed.
func (s snapshot) saw(no int64) bool { return no < s.next && !slices.Contains(s.open, no) }

func snapshotOf(p ledger.Position) (s snapshot, err error) {
	var numbers []int64
	for _, field := range strings.Fields(string(p)) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return s, fmt.Errorf("read position %q: %w", string(p), ledger.ErrPositionLost)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < 2 {
		return s, fmt.Errorf("read position %q: %w", string(p), ledger.ErrPositionLost)
	}
	return snapshot{numbers[0], numbers[1], numbers[2:]}, nil
}

// Earlier is a position that many rows before another, from which changes are read again.
func Earlier(p ledger.Position, rows int64) ledger.Position {
	s, err := snapshotOf(p)
	if err != nil {
		return p
	}
	return snapshot{rows: max(0, s.rows-rows)}.position()
}

func (l *changeLog) add(no int64, rows []change) {
	for i := range rows {
		rows[i].no = no
	}
	if l.rows = append(l.rows, rows...); len(l.rows) >= 2*l.most {
		drop := len(l.rows) - l.most
		l.rows, l.deleted = slices.Clone(l.rows[drop:]), l.deleted+int64(drop)
	}
}

// after are the changes after a position.
func (l *changeLog) after(p ledger.Position) ([]change, error) {
	s, err := snapshotOf(p)
	if err != nil {
		return nil, err
	}
	n := s.rows
	if n < l.deleted || n > l.last() {
		return nil, fmt.Errorf("read changes after %q: kept are %d to %d: %w", string(p), l.deleted+1, l.last(), ledger.ErrPositionLost)
	}
	rows := slices.Clone(l.rows[n-l.deleted:])
	return slices.DeleteFunc(rows, func(c change) bool { return s.saw(c.no) }), nil
}

// opened is a transaction that has begun, and openTx its key in a context.
type (
	opened struct {
		no int64
		at time.Time
	}
	openTx struct{}
)

// Open returns a context whose next transaction has begun already: others commit before
// it, and readers that have passed its number must find its changes all the same. end is
// for one that does not commit.
func (s *Store) Open(ctx context.Context) (begun context.Context, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no := s.changes.begin()
	s.changes.open = append(s.changes.open, no)
	return context.WithValue(ctx, openTx{}, opened{no, time.Now()}), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes.end(no)
	}
}

// commit adds the changes of a transaction.
func (s *Store) commit(ctx context.Context, rows []change) {
	l := &s.changes
	t, there := ctx.Value(openTx{}).(opened)
	if !there || !l.end(t.no) {
		t = opened{l.begin(), time.Now()}
	}
	if late := len(rows) > 0 && t.no < l.read; late && s.opts.Watch.Late != nil {
		s.opts.Watch.Late(time.Since(t.at))
	}
	l.add(t.no, rows)
}

// end reports whether the transaction was open.
func (l *changeLog) end(no int64) (was bool) {
	i := slices.Index(l.open, no)
	if i >= 0 {
		l.open = slices.Delete(slices.Clone(l.open), i, i+1)
	}
	return i >= 0
}

// changed collects what a transaction has changed: at most one row of each kind.
type changed struct {
	schedules map[string]bool
	buckets   []int // of the schedules
	runs      map[int]map[schedule.Key]int
}

func (t *tx) noteRun(kind int, r *schedule.Run) {
	if r.Queue.In() {
		t.queued = true
	}
	if r.IsJob() { // nobody leads it
		return
	}
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
