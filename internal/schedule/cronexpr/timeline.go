package cronexpr

import (
	"math/bits"
	"time"
)

// DST is what a fixed-time expression does when the clock changes.
type DST string

// The policies of the rules in the package comment.
const (
	Vixie   DST = "vixie"   // R5: once after a gap, once in a fold; the default
	Literal DST = "literal" // R4 for every expression: not in a gap, twice in a fold
)

const (
	secondsPerYear = 31_557_600 // 365.25 days
	horizon        = 50 * secondsPerYear
	foldReach      = 26 * 3600 // how far back a reading counts as already shown
)

// LongestGap is the longest clock change after which a skipped fixed time still
// fires. A longer one is a change of calendar.
const LongestGap = 3 * time.Hour

// Slots lie in the years 1 to 9999, the range of RFC 3339.
var (
	firstInstant = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastInstant  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// Timeline is the set of slots of an expression in a zone. It is immutable and
// safe for concurrent use.
type Timeline struct {
	expr     *Expr
	zone     *zoneTable
	realTime bool // rule R4 rather than R5
}

// In binds the expression to a zone, normally one from LoadLocation; nil is
// UTC. Every policy except Literal, the empty one included, is Vixie.
func (e *Expr) In(loc *time.Location, dst DST) *Timeline {
	return &Timeline{expr: e, zone: tableOf(loc), realTime: e.wildcard || dst == Literal}
}

// Next returns the least slot later than after, in UTC, whose fraction of a
// second is dropped. It returns false when there is none within 50 years.
func (t *Timeline) Next(after time.Time) (time.Time, bool) {
	second := after.Unix()
	if second > lastInstant {
		return time.Time{}, false
	}
	slot, ok := t.first(second+1, min(second, lastInstant-horizon)+horizon+1)
	return instant(slot, ok)
}

// Prev returns the greatest slot earlier than before and not earlier than
// before - limit. Its cost grows with the logarithm of limit.
func (t *Timeline) Prev(before time.Time, limit time.Duration) (time.Time, bool) {
	until := ceilSecond(before)
	found, ok := t.first(ceilSecond(before.Add(-limit)), until)
	if !ok {
		return time.Time{}, false
	}
	// Bisect for the greatest start from which a slot still follows.
	for nothingFrom := until; nothingFrom-found > 1; {
		middle := found + (nothingFrom-found)/2
		if slot, ok := t.first(middle, nothingFrom); ok {
			found = slot
		} else {
			nothingFrom = middle
		}
	}
	return instant(found, true)
}

// Count returns the number of slots in [from, until), but at most limit; more
// reports that there are others. Whole days, hours and minutes count at once,
// so that a year of seconds takes about a millisecond.
func (t *Timeline) Count(from, until time.Time, limit int) (n int, more bool) {
	begin, end := ceilSecond(from), ceilSecond(until)
	spans := t.expr.spans()
	for {
		slot, ok := t.first(begin, end)
		if !ok || n >= limit {
			return n, ok
		}
		slots, after := 1, slot+1
		for _, s := range spans {
			if s.slots == 1 || n+s.slots > limit {
				continue
			}
			if until, whole := t.whole(s.length, begin, slot, end); whole {
				slots, after = s.slots, until
				break
			}
		}
		n, begin = n+slots, after
	}
}

// clockSpan is a stretch of the clock's face and how many slots it holds if it
// holds any.
type clockSpan struct {
	length int64
	slots  int
}

func (e *Expr) spans() [3]clockSpan {
	perMinute := bits.OnesCount64(e.second)
	perHour := perMinute * bits.OnesCount64(e.minute)
	return [3]clockSpan{{secondsPerDay, perHour * bits.OnesCount64(e.hour)}, {3600, perHour}, {60, perMinute}}
}

// whole returns the end of the day, hour or minute of a slot, by the clock. It
// reports whether all of it lies in [begin, end) and out of reach of a change
// of the clock, so that every reading that matches is one slot.
func (t *Timeline) whole(length, begin, slot, end int64) (after int64, ok bool) {
	p := t.zone.at(slot)
	reading := slot + p.offset
	start := slot - ((reading%length)+length)%length
	quiet := p.start
	if !t.realTime {
		quiet += foldReach
	}
	after = start + length
	return after, max(begin, quiet) <= start && after <= min(p.end, end)
}

// CheckFires returns ErrNeverFires when no slot lies within 50 years of after.
func (t *Timeline) CheckFires(after time.Time) error {
	if _, ok := t.Next(after); !ok {
		return ErrNeverFires
	}
	return nil
}

// first returns the least slot in [from, until), period by period.
func (t *Timeline) first(from, until int64) (int64, bool) {
	from, until = max(from, firstInstant), min(until, lastInstant+1)
	for from < until {
		p := t.zone.at(from)
		if slot, ok := t.firstWithin(p, from, min(p.end, until)); ok {
			return slot, true
		}
		from = p.end
	}
	return 0, false
}

// firstWithin is first for a range inside the period p.
func (t *Timeline) firstWithin(p period, from, until int64) (int64, bool) {
	if !t.realTime && from == p.start && t.catchesUp(p) {
		return from, true
	}
	reading, ok := t.expr.nextReading(from+p.offset, until+p.offset)
	if t.realTime {
		return reading - p.offset, ok
	}
	for ok {
		shownUntil, shown := t.shownBefore(p, reading)
		if !shown {
			return reading - p.offset, true
		}
		reading, ok = t.expr.nextReading(shownUntil, until+p.offset)
	}
	return 0, false
}

// catchesUp reports whether the gap at the start of p skipped a matching reading.
func (t *Timeline) catchesUp(p period) bool {
	if p.start == beginningOfTime {
		return false
	}
	old := t.zone.before(p).offset
	if jump := p.offset - old; jump <= 0 || jump > int64(LongestGap/time.Second) {
		return false
	}
	_, skipped := t.expr.nextReading(p.start+old, p.start+p.offset)
	return skipped
}

// shownBefore reports whether the clock showed a reading of period p before p,
// within the last 26 hours, and if so until which reading that earlier period
// went on. It looks at every period in reach, so that two changes of the clock
// within a day are told apart.
func (t *Timeline) shownBefore(p period, reading int64) (until int64, shown bool) {
	if reading-p.offset-foldReach >= p.start {
		return 0, false // the reach lies inside p, which repeats nothing
	}
	for q := p; q.start > p.start-foldReach; {
		q = t.zone.before(q)
		back := q.offset - p.offset // how much earlier q showed the same reading
		if back <= foldReach && q.start+q.offset <= reading && reading < q.end+q.offset {
			return q.end + q.offset, true
		}
	}
	return 0, false
}

// ceilSecond returns the first whole second not earlier than a time.
func ceilSecond(at time.Time) int64 {
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

func instant(second int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(second, 0).UTC(), true
}
