package describe

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// Clock says what changes of the clock do to the slots of one rule.
type Clock struct {
	zone     *time.Location
	literal  bool               // gap skipped, fold twice: by policy, or by a wildcard expression
	readings *cronexpr.Timeline // what the wall clock is to show; nil for a rule that no clock governs
}

// NewClock reads a definition; zone is its zone. The errors are cronexpr's.
func NewClock(d *schedule.Definition, zone *time.Location) (*Clock, error) {
	c := &Clock{zone: zone}
	if d.CronExpr == "" {
		return c, nil
	}
	expr, err := cronexpr.Parse(d.CronExpr)
	if err != nil {
		return nil, err
	}
	c.literal = expr.Wildcard() || d.DST == schedule.DSTLiteral
	// In UTC every reading exists once, so the timeline there is the timeline
	// of readings, whatever the zone does with them.
	c.readings = expr.In(time.UTC, cronexpr.Literal)
	return c, nil
}

// Note is what a change of the clock does to the slot at run, the first one
// after before; mostly nothing.
func (c *Clock) Note(before, run time.Time) string {
	if c.readings == nil {
		return ""
	}
	local := run.In(c.zone)
	began, ends := local.ZoneBounds()
	offset := offsetOf(local)
	if !began.IsZero() {
		last := offsetOf(began.Add(-time.Second))
		shown := func(change time.Time, offset time.Duration) time.Time { return change.UTC().Add(offset) }
		switch from, to := shown(began, last), shown(began, offset); {
		case from.Before(to) && began.After(before): // a gap between the slot before and this one
			if skipped, ok := c.skipped(from, to); ok && c.literal {
				return fmt.Sprintf("%s did not exist: the clock went from %s to %s", skipped, timeOfDay(from), timeOfDay(to))
			} else if ok && began.Equal(run) {
				return fmt.Sprintf("in place of %s: the clock goes from %s to %s", skipped, timeOfDay(from), timeOfDay(to))
			}
		case to.Before(from) && shown(run, offset).Before(from):
			return fmt.Sprintf("second %s: the clock went back from %s to %s", timeOfDay(local), timeOfDay(from), timeOfDay(to))
		}
	}
	if !ends.IsZero() {
		from := ends.UTC().Add(offset)
		to := ends.UTC().Add(offsetOf(ends.In(c.zone)))
		if to.Before(from) && !run.UTC().Add(offset).Before(to) {
			return fmt.Sprintf("first %s: the clock goes back from %s to %s", timeOfDay(local), timeOfDay(from), timeOfDay(to))
		}
	}
	return ""
}

// skipped is the first matching reading in [from, to), readings being kept as
// if the clock showed UTC.
func (c *Clock) skipped(from, to time.Time) (string, bool) {
	first, ok := c.readings.Next(from.Add(-time.Second))
	return timeOfDay(first), ok && first.Before(to)
}

// Repeated reports whether at shows a reading that the rule asks for and that
// the clock has shown before: a fixed time runs at the first pass only.
func (c *Clock) Repeated(at time.Time) bool {
	return c.fixed(at.UTC().Add(offsetOf(at.In(c.zone))))
}

// StandsIn reports whether a slot at the end of a gap is there for a reading that
// the gap left out, kept as if the clock showed UTC.
func (c *Clock) StandsIn(reading time.Time) bool { return c.fixed(reading) }

// fixed reports whether the rule asks for a reading as a fixed time: one that
// runs once, however often the clock shows it.
func (c *Clock) fixed(reading time.Time) bool {
	if c.readings == nil || c.literal {
		return false
	}
	shown, ok := c.readings.Next(reading.Add(-time.Second))
	return ok && shown.Equal(reading)
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// timeOfDay has seconds where there are any.
func timeOfDay(t time.Time) string {
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05")
}
