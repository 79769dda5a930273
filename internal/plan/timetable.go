package plan

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// rule is the timing rule of a spec: a fixed, strictly increasing set of instants, without
// start_at and end_at.
type rule interface {
	// Next is the least slot later than after.
	Next(after time.Time) (time.Time, bool)
	// Prev is the greatest slot earlier than before, at most limit back.
	Prev(before time.Time, limit time.Duration) (time.Time, bool)
	// Count is the number of slots in [from, until); it stops at limit.
	Count(from, until time.Time, limit int) (n int, more bool)
}

// Timetable computes the instants of one revision of a schedule.
type Timetable struct {
	rule       rule
	scheduleID string
	start, end time.Time // inclusive window; zero = open
	jitter     time.Duration
	floor      time.Time // earliest fire: the latest of start_at and the creation of schedule and revision
}

// NewTimetable reads a definition. createdAt is the schedule's creation, revisedAt the revision's.
// It fails as cronexpr does: on a zone missing from the embedded data or an expression that is no
// longer accepted.
func NewTimetable(d *schedule.Definition, createdAt, revisedAt time.Time) (*Timetable, error) {
	r, err := newRule(d, createdAt)
	if err != nil {
		return nil, err
	}
	return &Timetable{
		rule: r, scheduleID: d.ScheduleID, start: d.StartAt, end: d.EndAt,
		jitter: d.Jitter(), floor: latest(d.StartAt, createdAt, revisedAt),
	}, nil
}

func newRule(d *schedule.Definition, createdAt time.Time) (rule, error) {
	switch {
	case d.CronExpr != "":
		expr, err := expressions.parse(d.CronExpr)
		if err != nil {
			return nil, err
		}
		loc, err := cronexpr.LoadLocation(d.Timezone)
		if err != nil {
			return nil, err
		}
		return expr.In(loc, cronexpr.DST(d.DST)), nil
	case d.IntervalMS > 0:
		return newInterval(d, createdAt)
	case !d.OnceAt.IsZero():
		return once(d.OnceAt), nil
	}
	return never{}, nil
}

// Next is the first slot later than after and inside the window.
func (t *Timetable) Next(after time.Time) (time.Time, bool) {
	if !t.start.IsZero() && after.Before(t.start) {
		after = t.start.Add(-time.Second) // start_at itself is a slot if the rule says so
	}
	next, ok := t.rule.Next(after)
	if !ok || (!t.end.IsZero() && next.After(t.end)) {
		return time.Time{}, false
	}
	return next, true
}

// From is the first slot at or after at.
func (t *Timetable) From(at time.Time) (time.Time, bool) {
	return t.Next(schedule.CeilSecond(at).Add(-time.Second))
}

// last is the newest slot in [from, until).
func (t *Timetable) last(from, until time.Time) (time.Time, bool) {
	if !t.end.IsZero() && until.After(t.end) {
		until = t.end.Add(time.Second)
	}
	from = latest(from, t.start)
	if !from.Before(until) {
		return time.Time{}, false
	}
	return t.rule.Prev(until, until.Sub(from))
}

// count is the number of slots in [from, until), stopping at limit.
func (t *Timetable) count(from, until time.Time, limit int) (int, bool) {
	if !t.end.IsZero() && until.After(t.end) {
		until = t.end.Add(time.Second)
	}
	from = schedule.CeilSecond(latest(from, t.start))
	if !from.Before(until) {
		return 0, false
	}
	return t.rule.Count(from, until, limit)
}

// maxCount is more slots than thirty years of seconds hold.
const maxCount = 1_000_000_000

// Count is the number of slots in [from, until); more: it stopped at maxCount. Long ranges are
// cheap: slots are not counted one by one.
func (t *Timetable) Count(from, until time.Time) (n int, more bool) {
	return t.count(from, until, maxCount)
}

// Stretch is a range [From, Until) and its number of slots.
type Stretch struct {
	From, Until time.Time
	Count       int
}

// Without are the stretches of [from, until) that hold slots, minus planned, which must be sorted.
func (t *Timetable) Without(from, until time.Time, planned []time.Time) []Stretch {
	var holding []Stretch
	for _, x := range Between(from, until, planned) {
		if x.Count, _ = t.Count(x.From, x.Until); x.Count > 0 {
			holding = append(holding, x)
		}
	}
	return holding
}

// Between are the gaps that planned, which must be sorted, leaves in [from, until), uncounted.
func Between(from, until time.Time, planned []time.Time) []Stretch {
	var stretches []Stretch
	for _, at := range planned {
		if at.Before(from) || !at.Before(until) {
			continue
		}
		if from.Before(at) {
			stretches = append(stretches, Stretch{From: from, Until: at})
		}
		from = at.Add(time.Second)
	}
	if from.Before(until) {
		stretches = append(stretches, Stretch{From: from, Until: until})
	}
	return stretches
}

// interval counts real elapsed time from its anchor.
type interval struct {
	anchor time.Time
	step   time.Duration
	first  int64 // 0: the anchor is a slot; 1: the first slot is one step later
}

var errInterval = errors.New("interval_ms is not a multiple of 1000")

func newInterval(d *schedule.Definition, createdAt time.Time) (rule, error) {
	if d.IntervalMS%1000 != 0 {
		return nil, errInterval
	}
	if !d.StartAt.IsZero() {
		return interval{anchor: d.StartAt, step: d.Interval()}, nil
	}
	return interval{anchor: schedule.CeilSecond(createdAt), step: d.Interval(), first: 1}, nil
}

func (i interval) Next(after time.Time) (time.Time, bool) {
	n := i.first
	if elapsed := after.Sub(i.anchor); elapsed >= 0 {
		n = max(n, int64(elapsed/i.step)+1)
	}
	return i.at(n), true
}

// Prev ignores the anchor on purpose: an interval's neighbours are one step away on both sides, so
// that its first slot is jittered like the others.
func (i interval) Prev(before time.Time, limit time.Duration) (time.Time, bool) {
	n := int64(before.Sub(i.anchor) / i.step)
	for !i.at(n).Before(before) {
		n--
	}
	prev := i.at(n)
	return prev, before.Sub(prev) <= limit
}

func (i interval) Count(from, until time.Time, limit int) (int, bool) {
	first, _ := i.Next(from.Add(-time.Second))
	if !first.Before(until) {
		return 0, false
	}
	n := int64((until.Sub(first)-time.Second)/i.step) + 1
	if n > int64(limit) {
		return limit, true
	}
	return int(n), false
}

func (i interval) at(n int64) time.Time { return i.anchor.Add(time.Duration(n) * i.step).UTC() }

// once is a single instant.
type once time.Time

func (o once) Next(after time.Time) (time.Time, bool) {
	return time.Time(o), time.Time(o).After(after)
}

func (o once) Prev(before time.Time, limit time.Duration) (time.Time, bool) {
	at := time.Time(o)
	return at, at.Before(before) && before.Sub(at) <= limit
}

func (o once) Count(from, until time.Time, limit int) (int, bool) {
	if at := time.Time(o); at.Before(from) || !at.Before(until) {
		return 0, false
	}
	return min(1, limit), limit < 1
}

// never is the rule of a schedule that is only started manually.
type never struct{}

func (never) Next(time.Time) (time.Time, bool)                { return time.Time{}, false }
func (never) Prev(time.Time, time.Duration) (time.Time, bool) { return time.Time{}, false }
func (never) Count(_, _ time.Time, _ int) (int, bool)         { return 0, false }

func latest(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}
