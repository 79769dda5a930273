package main

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// notes says what daylight saving does to slots of one rule.
type notes struct {
	zone     *time.Location
	literal  bool               // gap skipped, fold twice: by policy, or by a wildcard expression
	readings *cronexpr.Timeline // what the wall clock is to show; nil for a rule that no clock governs
}

func newNotes(d *schedule.Definition, zone *time.Location) (*notes, error) {
	n := &notes{zone: zone}
	if d.CronExpr == "" {
		return n, nil
	}
	expr, err := cronexpr.Parse(d.CronExpr)
	if err != nil {
		return nil, err
	}
	n.literal = expr.Wildcard() || d.DST == schedule.DSTLiteral
	// In UTC every reading exists once, so the timeline there is the timeline
	// of readings, whatever the zone does with them.
	n.readings = expr.In(time.UTC, cronexpr.Literal)
	return n, nil
}

// of is the note on the slot at run, the first one after before; mostly empty.
func (n *notes) of(before, run time.Time) string {
	if n.readings == nil {
		return ""
	}
	local := run.In(n.zone)
	began, ends := local.ZoneBounds()
	offset := offsetOf(local)
	if !began.IsZero() {
		last := offsetOf(began.Add(-time.Second))
		shown := func(change time.Time, offset time.Duration) time.Time { return change.UTC().Add(offset) }
		switch from, to := shown(began, last), shown(began, offset); {
		case from.Before(to) && began.After(before): // a gap between the slot before and this one
			if skipped, ok := n.skipped(from, to); ok && n.literal {
				return fmt.Sprintf("%s did not exist: the clock went from %s to %s", skipped, clock(from), clock(to))
			} else if ok && began.Equal(run) {
				return fmt.Sprintf("in place of %s: the clock goes from %s to %s", skipped, clock(from), clock(to))
			}
		case to.Before(from) && shown(run, offset).Before(from):
			return fmt.Sprintf("second %s: the clock went back from %s to %s", clock(local), clock(from), clock(to))
		}
	}
	if !ends.IsZero() {
		from := ends.UTC().Add(offset)
		to := ends.UTC().Add(offsetOf(ends.In(n.zone)))
		if to.Before(from) && !run.UTC().Add(offset).Before(to) {
			return fmt.Sprintf("first %s: the clock goes back from %s to %s", clock(local), clock(from), clock(to))
		}
	}
	return ""
}

// skipped is the first matching reading in [from, to), readings being kept as
// if the clock showed UTC.
func (n *notes) skipped(from, to time.Time) (string, bool) {
	first, ok := n.readings.Next(from.Add(-time.Second))
	return clock(first), ok && first.Before(to)
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// clock is the time of day, with seconds where there are any.
func clock(t time.Time) string {
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05")
}
