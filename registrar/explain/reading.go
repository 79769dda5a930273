package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Reading is a local time in a zone and its instants: usually one; none if the
// clock is set forward past it, two if the clock is set back.
type Reading struct {
	Shown time.Time // the local time, stored as UTC
	Zone  string
	// First is its instant, or the first of two. If it has none, the instant at
	// which the clock is set forward past it.
	First  time.Time
	Second time.Time // the second instant; zero: none
	// From and To are the local times between which the clock is set forward, stored
	// like Shown; zero: the reading exists.
	From, To time.Time
}

// readingLayouts are the accepted formats.
var readingLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"}

// ParseReading parses a local time without an offset.
func ParseReading(s string) (shown time.Time, ok bool) {
	for _, layout := range readingLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return shown, false
}

// ReadingOf finds the instants of a local time in the zone of the rule that was in
// force then.
func ReadingOf(f schedule.SlotFacts, shown time.Time) Reading {
	r := readingIn(shown, f.Schedule.Timezone)
	i := slices.IndexFunc(f.Revisions, func(rev schedule.Revision) bool { return rev.CreatedAt.Before(r.First) })
	if i >= 0 && f.Revisions[i].Definition.Timezone != f.Schedule.Timezone {
		r = readingIn(shown, f.Revisions[i].Definition.Timezone)
	}
	return r
}

// offsetsWithin is the search range around a reading taken as UTC. It is longer
// than any offset plus any change of one.
const offsetsWithin = 26 * time.Hour

func readingIn(shown time.Time, timezone string) Reading {
	zone, err := cronexpr.LoadLocation(timezone)
	if err != nil {
		zone, timezone = time.UTC, "UTC" // an unreadable rule is reported elsewhere
	}
	r := Reading{Shown: shown, Zone: timezone}
	var offsets []time.Duration // in force around it, in order of time
	for d := -offsetsWithin; d <= offsetsWithin; d += time.Hour {
		if o := offsetOf(shown.Add(d).In(zone)); !slices.Contains(offsets, o) {
			offsets = append(offsets, o)
		}
	}
	var at []time.Time
	for _, o := range offsets {
		if t := shown.Add(-o); offsetOf(t.In(zone)) == o {
			at = append(at, t)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	switch len(at) {
	case 0:
		r.setForward(zone, slices.Min(offsets), slices.Max(offsets))
	case 1:
		r.First = at[0]
	default:
		r.First, r.Second = at[0], at[1]
	}
	return r
}

// setForward finds the instant at which the clock is set forward past the reading: the
// offset is before until then, and after from then on.
func (r *Reading) setForward(zone *time.Location, before, after time.Duration) {
	still, over := r.Shown.Add(-after), r.Shown.Add(-before)
	for over.Sub(still) > time.Second {
		middle := still.Add(over.Sub(still) / 2).Truncate(time.Second)
		if offsetOf(middle.In(zone)) == before {
			still = middle
		} else {
			over = middle
		}
	}
	r.First, r.From, r.To = over, over.Add(before), over.Add(after)
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// Skipped reports whether the local time does not exist.
func (r *Reading) Skipped() bool { return !r.To.IsZero() }

// words describes the reading if it is special, else it is empty.
func (r *Reading) words() string {
	shown := r.Shown.Format(time.DateTime)
	switch {
	case r.Skipped():
		return fmt.Sprintf("%[2]s does not exist in %[1]s: at %[3]s the clock goes from %[4]s to %[5]s", r.Zone, shown,
			describe.Instant(r.First), r.From.Format(time.TimeOnly), r.To.Format(onDay(r.From, r.To)))
	case !r.Second.IsZero():
		return fmt.Sprintf("%[2]s occurs twice in %[1]s: at %[3]s (this answer) and again at %[4]s", r.Zone, shown,
			describe.Instant(r.First), describe.Instant(r.Second))
	}
	return ""
}

// onDay formats an instant next to another one.
func onDay(from, to time.Time) string {
	if from.YearDay() == to.YearDay() {
		return time.TimeOnly
	}
	return time.DateTime
}

// skippedReading reports whether the request is for a local time that does not
// exist and that has no slot in its place.
func (x *derivation) skippedReading() bool {
	if x.Reading == nil || !x.Reading.Skipped() || x.rule == nil || x.rule.problem != "" {
		return false
	}
	return x.clock == nil || !x.clock.StandsIn(x.Reading.Shown) || !x.isSlot()
}

// gap explains why nothing runs for a local time that does not exist.
func (x *derivation) gap() {
	d := &x.rule.Definition
	x.out.Run, x.out.Slot, x.out.Others = nil, nil, nil // those of the instant after the gap
	x.notASlot()
	if x.out.Why == WhyByHand || x.out.Why == WhyEventDriven || x.out.Why == WhyBeforeStart || x.out.Why == WhyAfterEnd {
		return
	}
	x.say(VerdictNotASlot, WhyGap)
	x.out.Detail = ""
	if d.CronExpr == "" {
		return
	}
	if fields := describe.Mismatch(d.CronExpr, x.Reading.Shown); len(fields) > 0 {
		x.out.Detail = fields[0]
	}
}

// gapWords is the same as a sentence.
func (t *text) gapWords() string {
	d, r := t.Rule.Definition, t.Reading
	s := r.words() + "; "
	switch {
	case !d.OnceAt.IsZero():
		return s + "the only slot is at " + describe.Instant(d.OnceAt)
	case d.IntervalMS > 0:
		return s + "the slots are every " + describe.Span(d.Interval()) + " of real time, regardless of clock changes"
	case t.Detail != "":
		return fmt.Sprintf("%sand it does not match %q: %s", s, d.CronExpr, t.Detail)
	case d.DST == schedule.DSTLiteral:
		return s + "dst: literal skips times that do not exist"
	case r.To.Sub(r.From) > cronexpr.LongestGap:
		return s + "times in a gap of more than " + describe.Span(cronexpr.LongestGap) + " are skipped"
	}
	return s + "an expression with * in second, minute or hour follows the clock and has no slot there"
}

// reading tells how the local time of the request relates to the answer.
func (t *text) reading() {
	r := t.Reading
	if r == nil || t.Why == WhyGap {
		return
	}
	s := r.words()
	if r.Skipped() && t.Slot != nil {
		s += "; a fixed time in such a gap runs once, at the end of the gap: this is that slot"
	}
	if s != "" {
		t.say("%s", s)
	}
	if t.Second != nil {
		t.say("The second time: %s", t.Second.Sentences()[0])
	}
}
