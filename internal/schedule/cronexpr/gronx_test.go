package cronexpr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// gronx is a further oracle for the calendar: on a clock without a zone it is
// reliable. Left out is what it does not know (LW) or reads in its own way (a
// day of week that begins with *, as the first item of a list).
func calendarKnownToGronx(t *rapid.T) string {
	return anyExpr().Filter(func(expr string) bool {
		return !strings.Contains(expr, "LW") && !weekdayListBeginsWithStar(expr)
	}).Draw(t, "expr")
}

func weekdayListBeginsWithStar(expr string) bool {
	texts := strings.Fields(expr)
	weekday := texts[len(texts)-1]
	return strings.HasPrefix(weekday, "*") && strings.Contains(weekday, ",")
}

func TestCalendarAgreesWithGronx(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := calendarKnownToGronx(t)
		e, err := cronexpr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(0, 5_000_000_000).Draw(t, "after"), 0).UTC()
		due := func(at time.Time) bool {
			is, err := gronx.New().IsDue(e.String(), at)
			if err != nil {
				t.Fatalf("gronx on %q: %v", e, err)
			}
			return is
		}
		tl := e.In(time.UTC, cronexpr.Vixie)
		for _, slot := range take(tl, after, 4) {
			if !due(slot) {
				t.Fatalf("%q is not due at the slot %v", text, slot)
			}
			for range 20 {
				step := rapid.SampledFrom([]int64{1, 60, 3600, 86400, 7 * 86400}).Draw(t, "step")
				back := time.Duration(rapid.Int64Range(1, 60).Draw(t, "steps")*step) * time.Second
				if at := slot.Add(-back); at.After(after) && due(at) {
					t.Fatalf("%q is due at %v, but the first slot after %v is %v", text, at, after, slot)
				}
			}
			after = slot
		}
	})
}

// The second opinion at Parse must not depend on the date, so gronx must find
// every item of accepted text valid on every date, not only up to the first
// item that is due.
func TestSecondOpinionIsTheSameOnEveryDate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, err := cronexpr.Parse(calendarKnownToGronx(t))
		if err != nil {
			t.Fatal(err)
		}
		segments, err := gronx.Segments(e.String())
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			var checker gronx.SegmentChecker
			checker.SetRef(time.Unix(rapid.Int64Range(0, 5_000_000_000).Draw(t, "date"), 0).UTC())
			for position, segment := range segments {
				if _, err := checker.CheckDue(segment, position); err != nil {
					t.Fatalf("%q at %v: %v", e, checker.GetRef(), err)
				}
			}
		}
	})
}
