package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Reading is what the clock of a zone shows, and when it does: mostly once; never
// where it is set forward past it, twice where it is set back.
type Reading struct {
	Shown time.Time // kept as if the clock showed UTC
	Zone  string
	// First is when it is shown, of two passes the first; where it never is, the
	// instant at which the clock is set forward past it.
	First  time.Time
	Second time.Time // the second pass; zero: there is none
	// From and To are what the clock shows as it is set forward, kept as Shown;
	// zero: it shows the reading.
	From, To time.Time
}

// readingLayouts are the ways to write a reading.
var readingLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"}

// ParseReading reads a time without an offset, as a clock shows it.
func ParseReading(s string) (shown time.Time, ok bool) {
	for _, layout := range readingLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return shown, false
}

// ReadingOf is when the clock of a schedule shows something: its clock is that
// of the rule that was in force then.
func ReadingOf(f schedule.SlotFacts, shown time.Time) Reading {
	r := readingIn(shown, f.Schedule.Timezone)
	i := slices.IndexFunc(f.Revisions, func(rev schedule.Revision) bool { return rev.CreatedAt.Before(r.First) })
	if i >= 0 && f.Revisions[i].Definition.Timezone != f.Schedule.Timezone {
		r = readingIn(shown, f.Revisions[i].Definition.Timezone)
	}
	return r
}

// offsetsWithin is how far from a reading, taken as UTC, the zone is looked at: no
// offset, and no change of one, is as long.
const offsetsWithin = 26 * time.Hour

func readingIn(shown time.Time, timezone string) Reading {
	zone, err := cronexpr.LoadLocation(timezone)
	if err != nil {
		zone, timezone = time.UTC, "UTC" // a rule that cannot be read has other troubles
	}
	r := Reading{Shown: shown, Zone: timezone}
	var offsets []time.Duration // in force around it, in their order
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

// setForward finds the instant at which the clock is set forward past the
// reading, of which one offset holds before and the other from then on.
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

// Skipped reports whether the clock never shows it.
func (r *Reading) Skipped() bool { return !r.To.IsZero() }

// words is what is to be said of the reading itself; mostly nothing.
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

// onDay is how to show an instant beside another one.
func onDay(from, to time.Time) string {
	if from.YearDay() == to.YearDay() {
		return time.TimeOnly
	}
	return time.DateTime
}

// skippedReading reports whether the question is of a reading that the clock
// never showed, and that no slot stands in for.
func (j *judge) skippedReading() bool {
	if j.Reading == nil || !j.Reading.Skipped() || j.rule == nil || j.rule.problem != "" {
		return false
	}
	return j.clock == nil || !j.clock.StandsIn(j.Reading.Shown) || !j.isSlot()
}

// gap says why nothing runs for a reading that the clock never showed.
func (j *judge) gap() {
	d := &j.rule.Definition
	j.out.Run, j.out.Slot, j.out.Others = nil, nil, nil // those of the instant after the gap
	j.notASlot()
	if j.out.Why == WhyByHand || j.out.Why == WhyBeforeStart || j.out.Why == WhyAfterEnd {
		return
	}
	j.say(VerdictNotASlot, WhyGap)
	j.out.Detail = ""
	if d.CronExpr == "" {
		return
	}
	if fields := describe.Mismatch(d.CronExpr, j.Reading.Shown); len(fields) > 0 {
		j.out.Detail = fields[0]
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

// reading is what the clock has to do with an answer of a reading.
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
