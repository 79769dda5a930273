package plan

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// SameTimes reports whether two definitions of one schedule have the same slots with the same
// jitter.
func SameTimes(a, b *schedule.Definition) bool {
	return a.ScheduleID == b.ScheduleID && a.CronExpr == b.CronExpr && a.IntervalMS == b.IntervalMS && a.OnceAt.Equal(b.OnceAt) &&
		(a.CronExpr == "" || a.Timezone == b.Timezone && a.DST == b.DST) &&
		a.StartAt.Equal(b.StartAt) && a.EndAt.Equal(b.EndAt) && a.JitterMS == b.JitterMS
}

// Comparison compares the slots in (After, Until], at most Limit steps of the two timetables
// together, and lists the first Shown. Now is when the change is made.
type Comparison struct {
	Now, After, Until time.Time
	Limit, Shown      int
	Meter             Meter
}

// Difference lists the fires that a change removes and adds. A slot that only its jitter moves is
// in both.
type Difference struct {
	Added, Removed           int
	FirstAdded, FirstRemoved []Slot
	Until                    time.Time // the counts are exact up to here
	Steps                    int       // what it cost
}

// Cost of a comparison, in steps of package work.
const (
	comparedSteps = 15                      // a slot of two timetables
	shownSteps    = 2 * work.PerMicrosecond // a fire that is listed
)

// Compare compares two timetables of one schedule; nil has no slots. A slot already launched
// before Now because of its jitter is neither removed nor added: its key exists.
func Compare(before, after *Timetable, c Comparison) Difference {
	d := Difference{Until: c.Until}
	if !c.After.Before(c.Until) || !c.Meter.spend(2*beginSteps+2*c.Shown*shownSteps) {
		return d
	}
	switch {
	case before == nil && after == nil:
	case before == nil:
		d.Added, d.FirstAdded = after.whole(c)
	case after == nil:
		d.Removed, d.FirstRemoved = before.whole(c)
	default:
		d.walk(before, after, c)
	}
	return d
}

// whole counts a timetable's slots without a walk and lists the first of them.
func (t *Timetable) whole(c Comparison) (int, []Slot) {
	n, _ := t.Count(c.After.Truncate(time.Second).Add(time.Second), c.Until.Truncate(time.Second).Add(time.Second))
	first := t.Preview(c.After, c.Until, c.Shown+1)
	for len(first) > 0 && !first[0].FireAt.After(c.Now) {
		first, n = first[1:], n-1
	}
	return n, first[:min(len(first), c.Shown)]
}

// walk goes through both timetables at once. At the limit it records how far it came.
func (d *Difference) walk(before, after *Timetable, c Comparison) {
	old, hasOld := before.Next(c.After)
	next, hasNew := after.Next(c.After)
	for {
		hasOld, hasNew = hasOld && !old.After(c.Until), hasNew && !next.After(c.Until)
		if !hasOld && !hasNew {
			return
		}
		at := next
		if hasOld && (!hasNew || old.Before(next)) {
			at = old
		}
		if d.Steps++; d.Steps > c.Limit || d.Steps%launchesAtOnce == 0 && !c.Meter.spend(launchesAtOnce*comparedSteps) {
			d.Until = at.Add(-time.Second)
			return
		}
		inOld, inNew := hasOld && old.Equal(at), hasNew && next.Equal(at)
		d.compareAt(before, after, at, inOld, inNew, c)
		if inOld {
			old, hasOld = before.Next(at)
		}
		if inNew {
			next, hasNew = after.Next(at)
		}
	}
}

func (d *Difference) compareAt(before, after *Timetable, at time.Time, inOld, inNew bool, c Comparison) {
	var was, will time.Time
	if inOld {
		if was = before.fires(at); !was.After(c.Now) {
			return
		}
	}
	if inNew {
		will = after.fires(at)
	}
	if inOld && inNew && was.Equal(will) {
		return
	}
	if inOld {
		if d.Removed++; len(d.FirstRemoved) < c.Shown {
			d.FirstRemoved = append(d.FirstRemoved, before.Slot(at))
		}
	}
	if inNew {
		if d.Added++; len(d.FirstAdded) < c.Shown {
			d.FirstAdded = append(d.FirstAdded, after.Slot(at))
		}
	}
}

// fires is Slot(at).FireAt, but computes no key if there is no jitter.
func (t *Timetable) fires(at time.Time) time.Time {
	if t.jitter == 0 {
		return at
	}
	return t.Slot(at).FireAt
}
