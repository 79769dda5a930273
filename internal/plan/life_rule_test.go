package plan_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

// lifeRule is a timing rule that can be checked second by second: the oracle of
// TestNoSlotIsLostOrDoubled. It shares no code with the planner.
type lifeRule struct {
	kind string // "interval", "seconds", "minutes" or "once"
	n    int    // every n seconds or minutes
	once time.Time
}

func drawRule(t *rapid.T, now time.Time) lifeRule {
	r := lifeRule{kind: rapid.SampledFrom([]string{"interval", "interval", "seconds", "minutes", "once"}).Draw(t, "kind")}
	switch r.kind {
	case "interval":
		r.n = rapid.IntRange(1, 90).Draw(t, "interval")
	case "seconds":
		r.n = rapid.SampledFrom([]int{1, 2, 7, 15, 30}).Draw(t, "every")
	case "minutes":
		r.n = rapid.IntRange(1, 8).Draw(t, "every")
	case "once":
		r.once = now.Truncate(time.Second).Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "once")) * time.Second)
	}
	return r
}

func (r lifeRule) applyTo(d *schedule.Definition) {
	d.CronExpr, d.IntervalMS, d.OnceAt = "", 0, time.Time{}
	switch r.kind {
	case "interval":
		d.IntervalMS = uint32(r.n) * 1000
	case "seconds":
		d.CronExpr = fmt.Sprintf("*/%d * * * * *", r.n)
	case "minutes":
		d.CronExpr = fmt.Sprintf("*/%d * * * *", r.n)
	case "once":
		d.OnceAt = r.once
	}
}

// rings reports whether the rule has a slot at this whole second.
func (r lifeRule) rings(at time.Time, d *schedule.Definition, createdAt time.Time) bool {
	if !d.StartAt.IsZero() && at.Before(d.StartAt) || !d.EndAt.IsZero() && at.After(d.EndAt) {
		return false
	}
	switch r.kind {
	case "interval":
		anchor, first := d.StartAt.Unix(), int64(0)
		if d.StartAt.IsZero() {
			anchor, first = createdAt.Add(time.Second-time.Nanosecond).Unix(), int64(r.n)
		}
		since := at.Unix() - anchor
		return since >= first && since%int64(r.n) == 0
	case "seconds":
		return at.Second()%r.n == 0
	case "minutes":
		return at.Second() == 0 && at.Minute()%r.n == 0
	}
	return at.Equal(r.once)
}

type lifeRevision struct {
	rule       lifeRule
	definition schedule.Definition
	made       time.Time
}

func drawRevision(t *rapid.T, now time.Time) lifeRevision {
	r := lifeRevision{rule: drawRule(t, now), made: now}
	s := scheduled(func(s *schedule.Schedule) {
		s.CatchupPolicy = rapid.SampledFrom(schedule.CatchupPolicies).Draw(t, "catchup")
		s.CatchupWindowMS = 1000 * rapid.SampledFrom([]uint32{5, 60, 3600}).Draw(t, "window")
		s.JitterMS = rapid.SampledFrom([]uint32{0, 0, 700, 20_000, 90_000}).Draw(t, "jitter")
		if rapid.IntRange(0, 3).Draw(t, "starts") == 0 {
			s.StartAt = now.Truncate(time.Second).Add(time.Duration(rapid.IntRange(-60, 60).Draw(t, "start")) * time.Second)
		}
		if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
			s.EndAt = now.Truncate(time.Second).Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "end")) * time.Second)
		}
	})
	r.definition = s.Definition
	r.rule.applyTo(&r.definition)
	return r
}

// slots lists the seconds in [from, until] at which the revision rings.
func (r lifeRevision) slots(from, until, createdAt time.Time) []time.Time {
	var out []time.Time
	for at := from.Truncate(time.Second); !at.After(until); at = at.Add(time.Second) {
		if !at.Before(from) && r.rule.rings(at, &r.definition, createdAt) {
			out = append(out, at)
		}
	}
	return out
}

// fireAt searches for the neighbours of a slot second by second, as far as jitter reaches, and
// applies the formula.
func (r lifeRevision) fireAt(at, createdAt time.Time) time.Time {
	open := r.definition // neighbours outside the window count too
	open.StartAt, open.EndAt = time.Time{}, time.Time{}
	near := func(direction time.Duration) time.Time {
		if r.rule.kind == "interval" {
			return at.Add(direction * time.Duration(r.rule.n))
		}
		for n := time.Duration(1); n*time.Second <= 2*r.definition.Jitter(); n++ {
			if r.rule.rings(at.Add(n*direction), &open, createdAt) {
				return at.Add(n * direction)
			}
		}
		return time.Time{}
	}
	s := schedule.Schedule{Definition: r.definition, CreatedAt: createdAt, RevisedAt: r.made}
	return expectedFireAt(&s, near(-time.Second), at, near(time.Second))
}
