package cronexpr

import (
	"slices"
	"time"
)

// The ends of time, far enough from the limits of int64 to add an offset.
const (
	beginningOfTime = -1 << 62
	endOfTime       = 1 << 62
)

// tableUntil is where a zone table stops: beyond the horizon of any schedule
// made in the next decades, and past every explicit transition in the data.
var tableUntil = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()

// period is a stretch of time in which a zone keeps one offset.
type period struct{ start, end, offset int64 }

// zoneTable answers which period contains an instant by a short binary search. Without
// it Go evaluates the daylight-saving rule of the zone again for most instants.
type zoneTable struct {
	loc     *time.Location
	until   int64 // the table answers before this instant, observe from there on
	starts  []int64
	offsets []int64
}

var utcTable = &zoneTable{loc: time.UTC, until: endOfTime, starts: []int64{beginningOfTime}, offsets: []int64{0}}

// tableOf returns the table of a location. One that LoadLocation did not make
// gets an empty table, which is slower but right.
func tableOf(loc *time.Location) *zoneTable {
	if loc == nil || loc == time.UTC {
		return utcTable
	}
	if table, ok := tables.Load(loc); ok {
		return table.(*zoneTable)
	}
	return &zoneTable{loc: loc, until: beginningOfTime}
}

// newZoneTable walks all periods until 2100 and joins those that differ in
// name only.
func newZoneTable(loc *time.Location) *zoneTable {
	table := &zoneTable{loc: loc}
	p := period{end: beginningOfTime}
	for p.end < tableUntil {
		start := p.end
		p = observe(loc, max(start, firstInstant))
		if last := len(table.offsets) - 1; last >= 0 && table.offsets[last] == p.offset {
			continue
		}
		table.starts = append(table.starts, start)
		table.offsets = append(table.offsets, p.offset)
	}
	table.until = p.end
	table.starts, table.offsets = slices.Clip(table.starts), slices.Clip(table.offsets)
	return table
}

// at returns the period that contains an instant. Two neighbouring periods may
// have the same offset.
func (z *zoneTable) at(instant int64) period {
	if instant >= z.until {
		return observe(z.loc, instant)
	}
	lo, hi := 0, len(z.starts) // starts[lo] <= instant < starts[hi]
	for hi-lo > 1 {
		if middle := int(uint(lo+hi) / 2); z.starts[middle] <= instant {
			lo = middle
		} else {
			hi = middle
		}
	}
	p := period{start: z.starts[lo], end: z.until, offset: z.offsets[lo]}
	if hi < len(z.starts) {
		p.end = z.starts[hi]
	}
	return p
}

// before returns the period that ends where p starts.
func (z *zoneTable) before(p period) period {
	q := z.at(p.start - 1)
	q.end = p.start
	return q
}

// observe asks Go for the period that contains an instant.
func observe(loc *time.Location, instant int64) period {
	local := time.Unix(instant, 0).In(loc)
	_, offset := local.Zone()
	start, end := local.ZoneBounds()
	p := period{start: beginningOfTime, end: endOfTime, offset: int64(offset)}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	// On 31 December of a leap year governed by a rule, Go 1.26 returns an end
	// before the instant (it takes 365 days for the year). No rule changes the
	// clock at that midnight, so it is a safe place to ask again.
	if p.end <= instant {
		p.end = (floorDay(instant) + 1) * secondsPerDay
	}
	return p
}
