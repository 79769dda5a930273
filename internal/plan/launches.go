package plan

import (
	"iter"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// Cost of counting launches, in steps of package work.
const (
	countSteps     = 3 * work.PerMicrosecond / 2 // to count the slots of a range
	beginSteps     = 3 * work.PerMicrosecond / 2 // to find the first launch of a range
	launchSteps    = 1
	jitteredSteps  = 4 // a launch whose jitter is drawn
	launchesAtOnce = 1024
)

// Meter counts steps and reports whether the work may continue. nil: it may.
type Meter func(steps int) bool

func (m Meter) spend(steps int) bool { return m == nil || m(steps) }

// Load is a timetable that launches, from After on.
type Load struct {
	Timetable *Timetable
	After     time.Time // last second of a pause that ends by itself
	Since     time.Time // only later slots count: an edit plans none before itself
}

// Group is schedules that launch at the same instants.
type Group struct {
	Load    Load
	Members []Member
}

// cadence decides the launches of a schedule without jitter in a window. Schedules with equal
// cadences launch at the same instants.
type cadence struct {
	cron, zone                             string
	dst                                    schedule.DST
	interval                               uint32
	anchor, once, start, end, after, since int64 // Unix microseconds
}

// Groups groups schedules that launch at the same instants from from on, so that each rule is
// walked once. A schedule with jitter is its own group.
func Groups(members []Member, from time.Time) (groups []Group) {
	at := make(map[cadence]int)
	for _, m := range members {
		if m.Load.Timetable.jitter > 0 {
			groups = append(groups, Group{Load: m.Load, Members: []Member{m}})
			continue
		}
		key := m.cadence(from)
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, Group{Load: m.Load})
		}
		groups[i].Members = append(groups[i].Members, m)
	}
	return groups
}

func (m *Member) cadence(from time.Time) cadence {
	d := &m.Schedule.Definition
	c := cadence{
		cron: d.CronExpr, zone: d.Timezone, dst: d.DST, interval: d.IntervalMS,
		once: d.OnceAt.UnixMicro(), start: d.StartAt.UnixMicro(), end: d.EndAt.UnixMicro(), after: m.Load.After.UnixMicro(),
	}
	if d.IntervalMS > 0 {
		c.anchor = m.Schedule.CreatedAt.UnixMicro()
	}
	if m.Load.Since.After(from) {
		c.since = m.Load.Since.UnixMicro()
	}
	return c
}

// Launches are the instants in [from, until) at which the load launches, in order. Jitter reaches
// at most half way to the neighbouring slots, so only the last slot before from and the first one
// after until may move in.
func (l Load) Launches(from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		w := l.begin(from)
		for ; w.ok && (w.at.Before(until) || w.previous.Before(until)); w.step() {
			fires := w.fires()
			if fires.Before(w.notBefore) {
				fires = w.notBefore
			}
			if !fires.Before(from) && fires.Before(until) && !yield(fires) {
				return
			}
		}
	}
}

// walk goes from slot to slot and keeps the neighbours, which jitter needs; searching for them
// again would take twice as long.
type walk struct {
	*Timetable
	at, previous, next time.Time // previous and next zero: there is none, or it is too far to matter
	ok                 bool
	notBefore          time.Time // end of a pause; nothing fires before it
}

func (l Load) begin(from time.Time) (w walk) {
	w.Timetable = l.Timetable
	after := from.Add(-1)
	if w.jitter > 0 {
		if last, ok := w.last(from.Add(-w.jitter), schedule.CeilSecond(from)); ok {
			after = last.Add(-time.Second)
		}
	}
	after = latest(after, l.Since)
	if l.After.After(from) { // slots in the pause do not exist, and nothing fires before its end
		after, w.notBefore = latest(after, l.After), l.After.Add(time.Second)
	}
	if w.at, w.ok = w.Next(after); w.ok && w.jitter > 0 {
		w.previous, w.next = w.before(w.at), w.behind(w.at)
	}
	return w
}

func (w *walk) step() {
	if w.jitter == 0 {
		w.previous = w.at
		w.at, w.ok = w.Next(w.at)
		return
	}
	w.previous, w.at = w.at, w.next
	if w.ok = !w.at.IsZero() && (w.end.IsZero() || !w.at.After(w.end)); w.ok {
		w.next = w.behind(w.at)
	}
}

// fires is Slot(at).FireAt with known neighbours.
func (w *walk) fires() time.Time {
	if w.jitter == 0 {
		return w.at
	}
	return w.moved(schedule.SlotKey(w.scheduleID, w.at), w.at, w.previous, w.next)
}

// Minutes counts launches per minute: Count[i] is the i-th minute from From.
type Minutes struct {
	From  time.Time
	Count []int
	Meter Meter // meters Add; if it stops the work, the counts are meaningless
}

// NewMinutes are the minutes that [from, until) touches, all zero.
func NewMinutes(from, until time.Time) *Minutes {
	first := from.Truncate(time.Minute)
	return &Minutes{From: first, Count: make([]int, int((until.Sub(first)+time.Minute-1)/time.Minute))}
}

// At is the start of the i-th minute.
func (m *Minutes) At(i int) time.Time { return m.From.Add(time.Duration(i) * time.Minute) }

func (m *Minutes) index(at time.Time) int { return int(at.Sub(m.From) / time.Minute) }

// Add counts the launches of a load in [from, until), n for each, and returns the number of
// launches. The range must be inside m.
func (m *Minutes) Add(l Load, from, until time.Time, n int) (launches int) {
	if !m.Meter.spend(beginSteps) {
		return 0
	}
	each := l.steps()
	for at := range l.Launches(from, until) {
		m.Count[m.index(at)] += n
		if launches++; launches%launchesAtOnce == 0 && !m.Meter.spend(launchesAtOnce*each) {
			return launches
		}
	}
	m.Meter.spend(launches % launchesAtOnce * each)
	return launches
}

// steps is the cost of one launch of the load.
func (l Load) steps() int {
	if l.Timetable.jitter > 0 {
		return jitteredSteps
	}
	return launchSteps
}

// Busiest is the first of the minutes with the most launches; n = 0: no launches.
func (m *Minutes) Busiest() (i, n int) {
	for at, count := range m.Count {
		if count > n {
			i, n = at, count
		}
	}
	return i, n
}

// Peaks are up to n of the busiest minutes, busiest first, none within apart minutes of a busier
// one.
func (m *Minutes) Peaks(n, apart int) (peaks []int) {
	left := append([]int(nil), m.Count...)
	rest := Minutes{Count: left}
	for range n {
		i, count := rest.Busiest()
		if count == 0 {
			break
		}
		peaks = append(peaks, i)
		clear(left[max(0, i-apart):min(len(left), i+apart+1)])
	}
	return peaks
}
