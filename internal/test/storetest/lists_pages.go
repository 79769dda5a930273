package storetest

import (
	"cmp"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// listAnyPages asks for the pages of random filters and compares them with what Go
// filters and sorts.
func listAnyPages(r *rig) {
	l := listing{rig: r, rand: rand.New(rand.NewPCG(20_260_302, 1))} //nolint:gosec // must repeat
	l.fill()
	for range 200 {
		l.compare(l.filter())
	}
}

// listing has runs of every status. Few instants make ties, in both tables.
type listing struct {
	*rig
	rand      *rand.Rand
	schedules []schedule.Schedule
	keys      []schedule.Key
	runs      []schedule.Run // as GetRun answers
}

var endReasons = map[schedule.Status]schedule.Reason{
	schedule.StatusFailed: schedule.ReasonTimeout, schedule.StatusSkipped: schedule.ReasonOverlap, schedule.StatusCancelled: schedule.ReasonCancelled,
}

func (l *listing) fill() {
	l.lead()
	for i, owner := range []string{"o1", "o2", "o1", "o2"} {
		l.schedules = append(l.schedules, l.create("s"+strconv.Itoa(i), func(s *schedule.Schedule) {
			s.UserID, s.WorkflowID, s.OverlapPolicy = l.id(owner), l.id("w"+strconv.Itoa(i/2)), schedule.OverlapAllow
		}))
	}
	statuses := slices.DeleteFunc(slices.Clone(schedule.Statuses), func(s schedule.Status) bool { return s == schedule.StatusPlanned })
	for i := range 40 {
		if l.rand.IntN(3) == 0 {
			l.now = l.at(time.Second)
		}
		run, to := l.run(i, l.instant()), statuses[l.rand.IntN(len(statuses))]
		l.keys = append(l.keys, l.bring(run, to, func(e *schedule.Settlement) {
			e.Reason = endReasons[to]
			if to != schedule.StatusSkipped && l.rand.IntN(2) == 0 {
				e.RunID = "r" + strconv.Itoa(l.rand.IntN(3))
			}
		}).Key)
	}
	queue := l.create("queue", func(s *schedule.Schedule) { s.OverlapPolicy, s.MaxQueued = schedule.OverlapQueue, 5 })
	first, second := l.manual(queue, "first", l.instant()), l.manual(queue, "second", l.instant())
	l.add(first, second)
	l.claim(func(req *claimRequest) { req.Grace = 1000 * time.Hour })
	l.keys = append(l.keys, first.Key, second.Key)
	for i := range 12 { // due, and ahead
		run := l.run(100+i, l.instant().Add(time.Duration(l.rand.IntN(2))*time.Hour))
		l.add(run)
		l.keys = append(l.keys, run.Key)
	}
	for _, key := range l.keys {
		l.runs = append(l.runs, l.ledger(key))
	}
}

func (l *listing) instant() time.Time {
	return noon.Add(-time.Duration(1+l.rand.IntN(4)) * time.Minute)
}

func (l *listing) run(i int, runAt time.Time) schedule.Run {
	s := l.schedules[l.rand.IntN(len(l.schedules))]
	edit := func(run *schedule.Run) {
		if l.rand.IntN(2) == 0 {
			run.TraceID = l.trace()
		}
	}
	slot := l.slot(s, runAt, edit)
	if slices.Contains(l.keys, slot.Key) || l.rand.IntN(3) > 0 {
		return l.manual(s, strconv.Itoa(i), runAt, edit)
	}
	return slot
}

func (l *listing) trace() string {
	return hex.EncodeToString(slices.Repeat([]byte{byte(1 + l.rand.IntN(3))}, 16))
}

// filter draws a filter with a few conditions.
func (l *listing) filter() schedule.RunFilter {
	f := schedule.RunFilter{Now: l.now, Limit: 1 + l.rand.IntN(9), Ascending: l.rand.IntN(2) == 0}
	one := &l.runs[l.rand.IntN(len(l.runs))]
	for range l.rand.IntN(4) {
		l.narrow(&f, one)
	}
	if l.rand.IntN(5) == 0 {
		f.UpdatedAfter, f.Ascending = l.instant(), false
	}
	return f
}

// narrow adds a condition, mostly one that a run meets.
func (l *listing) narrow(f *schedule.RunFilter, one *schedule.Run) {
	switch l.rand.IntN(12) {
	case 0:
		f.ScheduleID = one.ScheduleID
	case 1:
		f.UserID = one.UserID
	case 2:
		f.WorkflowID = one.WorkflowID
	case 3:
		f.Statuses = append(f.Statuses, one.Status, schedule.Statuses[l.rand.IntN(len(schedule.Statuses))])
	case 4:
		f.Reason = one.Reason
	case 5:
		f.Trigger = one.Trigger
	case 6:
		f.RunID = one.RunID
	case 7:
		f.TraceID = l.trace()
		if l.rand.IntN(2) == 0 {
			f.TraceID = hex.EncodeToString(one.Key[:16])
		}
	case 8:
		f.From = one.RunAt
	case 9:
		f.To = one.RunAt
	case 10:
		f.DueBefore = one.FireAt.Add(time.Microsecond)
	case 11:
		f.Keys = schedule.KeyRange{First: one.Key, Last: one.Key}
		f.Keys.Last[0] |= 0x7f
	}
}

// compare reads all pages of a filter.
func (l *listing) compare(f schedule.RunFilter) {
	l.Helper()
	var want []schedule.Run
	for i := range l.runs {
		if listed(&l.runs[i], &f) {
			want = append(want, l.runs[i])
		}
	}
	slices.SortFunc(want, func(a, b schedule.Run) int { return inList(&a, &b, &f) })
	asked, got := f, []schedule.Run(nil)
	for range len(l.runs) + 1 {
		page, err := l.ListRuns(l.ctx, f)
		l.ok(err, "list runs")
		l.hold(len(page) <= f.Limit, "%d runs in a page of %d", len(page), f.Limit)
		if got = append(got, page...); len(page) < f.Limit {
			break
		}
		last := &page[len(page)-1]
		if f.UpdatedAfter.IsZero() {
			f.AfterRunAt, f.AfterKey = last.RunAt, last.Key
		} else {
			f.UpdatedAfter, f.UpdatedKey = last.UpdatedAt, last.Key
		}
	}
	if !slices.Equal(keysOf(got), keysOf(want)) {
		l.Logf("filter %+v", asked)
		equal(l.rig, "keys of the pages", keysOf(got), keysOf(want))
	}
	equal(l.rig, "runs of the pages", got, want)
}

// inList orders two runs of a list.
func inList(a, b *schedule.Run, f *schedule.RunFilter) int {
	if !f.UpdatedAfter.IsZero() {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), compareKeys(a.Key, b.Key))
	}
	order := cmp.Or(a.RunAt.Compare(b.RunAt), compareKeys(a.Key, b.Key))
	if f.Ascending {
		return order
	}
	return -order
}

// listed reports whether a run meets a filter, as schedule.RunFilter says.
func listed(run *schedule.Run, f *schedule.RunFilter) bool {
	late := run.FireAt.Before(f.DueBefore) && (run.Status == schedule.StatusLaunching || run.Status == schedule.StatusPlanned && run.WaitingSince.IsZero())
	ofTrace := run.TraceID == f.TraceID || hex.EncodeToString(run.Key[:16]) == f.TraceID
	ahead := run.Status == schedule.StatusPlanned && run.RunAt.After(f.Now)
	for _, met := range []bool{
		f.ScheduleID == "" || run.ScheduleID == f.ScheduleID,
		f.UserID == "" || run.UserID == f.UserID,
		f.WorkflowID == "" || run.WorkflowID == f.WorkflowID,
		len(f.Statuses) == 0 || slices.Contains(f.Statuses, run.Status),
		f.Reason == "" || run.Reason == f.Reason,
		f.Trigger == "" || run.Trigger == f.Trigger,
		f.RunID == "" || run.RunID == f.RunID,
		f.TraceID == "" || ofTrace,
		f.From.IsZero() || !run.RunAt.Before(f.From),
		f.To.IsZero() || run.RunAt.Before(f.To),
		f.DueBefore.IsZero() || late,
		f.Keys.IsZero() || compareKeys(f.Keys.First, run.Key) <= 0 && compareKeys(run.Key, f.Keys.Last) <= 0,
		f.UpdatedAfter.IsZero() || run.UpdatedAt.After(f.UpdatedAfter),
		!ahead || slices.Contains(f.Statuses, schedule.StatusPlanned),
	} {
		if !met {
			return false
		}
	}
	return true
}
