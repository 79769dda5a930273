package cronexpr_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

var policies = []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal}

// place is a zone with an instant near one of its changes.
type place struct {
	zone string
	near int64
}

// places lists the changes of the odd decades.
var places = sync.OnceValue(func() []place {
	var all []place
	for _, d := range decades {
		loc, err := cronexpr.LoadLocation(d.zone)
		if err != nil {
			panic(err)
		}
		from := time.Date(d.firstYear, time.January, 1, 0, 0, 0, 0, time.UTC)
		for _, change := range append(changes(loc, from, from.AddDate(10, 0, 0)), from.Unix()) {
			all = append(all, place{d.zone, change})
		}
	}
	return all
})

func TestRandomExpressionsAgreeWithBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(places()).Draw(t, "place")
		loc, _ := cronexpr.LoadLocation(p.zone)
		w := observe(loc, p.near-20*3600, p.near+30*3600, 60)
		for range 20 {
			text := minuteExpr().Draw(t, "expr")
			dst := rapid.SampledFrom(policies).Draw(t, "dst")
			e, err := cronexpr.Parse(text)
			if err != nil {
				t.Fatalf("Parse(%q): %v", text, err)
			}
			o := newOracle(text)
			if e.Wildcard() != o.wildcard {
				t.Fatalf("%q: Wildcard() = %v", text, e.Wildcard())
			}
			got, want := firing(e.In(loc, dst), w), o.slots(w, dst)
			if !slices.Equal(got, want) {
				t.Fatalf("%s %q (%s):\n got%s\nwant%s", p.zone, text, dst, show(loc, got), show(loc, want))
			}
		}
	})
}

func TestSlotsDoNotDependOnWhoAsks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(places()).Draw(t, "place")
		loc, _ := cronexpr.LoadLocation(p.zone)
		text := anyExpr().Draw(t, "expr")
		e, err := cronexpr.Parse(text)
		if err != nil {
			t.Fatalf("Parse(%q): %v", text, err)
		}
		tl := e.In(loc, rapid.SampledFrom(policies).Draw(t, "dst"))
		from := time.Unix(p.near+rapid.Int64Range(-90000, 90000).Draw(t, "shift"), 0)
		slots := take(tl, from, 30)
		previous := from
		for i, slot := range slots {
			if !slot.After(previous) {
				t.Fatalf("slot %v follows %v", slot, previous)
			}
			between := time.Unix(rapid.Int64Range(previous.Unix(), slot.Unix()-1).Draw(t, "between"), 999_999_999)
			if again, _ := tl.Next(between); !again.Equal(slot) {
				t.Fatalf("Next(%v) = %v, but Next(%v) = %v", between, again, previous, slot)
			}
			if back, ok := tl.Prev(slot.Add(time.Nanosecond), slot.Sub(from)); !ok || !back.Equal(slot) {
				t.Fatalf("Prev just after %v = %v, %v", slot, back, ok)
			}
			if back, ok := tl.Prev(slot, slot.Sub(from)-time.Second); ok != (i > 0) || ok && !back.Equal(previous) {
				t.Fatalf("Prev(%v) = %v, %v; want %v", slot, back, ok, previous)
			}
			if n, more := tl.Count(from.Add(time.Second), slot, 100); n != i || more {
				t.Fatalf("Count until slot %d = %d, %v", i, n, more)
			}
			previous = slot
		}
		if len(slots) == 30 {
			if n, more := tl.Count(from.Add(time.Second), previous.Add(1), 29); n != 29 || !more {
				t.Fatalf("Count up to 29 of 30 = %d, %v", n, more)
			}
		}
	})
}

func take(tl *cronexpr.Timeline, after time.Time, n int) []time.Time {
	var slots []time.Time
	for range n {
		next, ok := tl.Next(after)
		if !ok {
			break
		}
		slots = append(slots, next)
		after = next
	}
	return slots
}

func TestDailyScheduleRunsOncePerLocalDate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(decades).Draw(t, "decade")
		loc, _ := cronexpr.LoadLocation(d.zone)
		at := rapid.SampledFrom([]string{
			"0 00", "1 00", "30 00", "0 01", "30 01", "15 02", "30 02", "0 03", "30 23", "59 23", "0 12",
		}).Draw(t, "at")
		e, err := cronexpr.Parse(at + " * * *")
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(d.firstYear, time.January, 1, 12, 0, 0, 0, loc)
		until := from.AddDate(10, 0, 0)
		tl := e.In(loc, cronexpr.Vixie)
		onDate := map[string]int{}
		for slot, _ := tl.Next(from); slot.Before(until); slot, _ = tl.Next(slot) {
			onDate[nominalDate(slot.In(loc), at)]++
		}
		dates := map[string]bool{} // the dates that the wall clock shows, Apia's missing one not among them
		for noon := from.Add(12 * time.Hour); noon.Before(until.Add(-24 * time.Hour)); noon = noon.Add(12 * time.Hour) {
			dates[noon.In(loc).Format(time.DateOnly)] = true
		}
		for date := range dates {
			if date != from.Format(time.DateOnly) && onDate[date] != 1 {
				t.Fatalf("%s %q runs %d times on %s", d.zone, at, onDate[date], date)
			}
		}
	})
}

// nominalDate returns the date that a daily slot is for. In a gap across
// midnight (Nuuk, 23:00 to 00:00) that is the day before the slot's own date.
func nominalDate(slot time.Time, minuteAndHour string) string {
	if slot.Format("4 15") != minuteAndHour {
		_, offsetBefore := slot.Add(-time.Second).Zone()
		return slot.UTC().Add(time.Duration(offsetBefore) * time.Second).Format(time.DateOnly)
	}
	return slot.Format(time.DateOnly)
}

func TestMinutelyScheduleRunsOncePerRealMinute(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		tl := mustParse(t, "* * * * *").In(mustZone(t, p.zone), cronexpr.Vixie)
		at := time.Unix(p.near-4*3600, 0)
		for range 8 * 60 {
			next, ok := tl.Next(at)
			if !ok || next.Sub(at) != time.Minute {
				t.Fatalf("%s: after %v comes %v", p.zone, at, next)
			}
			at = next
		}
	}
}

func TestPrevHonoursItsLimit(t *testing.T) {
	t.Parallel()
	tl := mustParse(t, "0 9 * * *").In(time.UTC, cronexpr.Vixie)
	nine := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		before time.Time
		limit  time.Duration
		want   bool
	}{
		{"the limit is inclusive", nine.Add(time.Hour), time.Hour, true},
		{"a nanosecond short of the slot", nine.Add(time.Hour), time.Hour - 1, false},
		{"before is exclusive", nine, time.Hour, false},
		{"a fraction after the slot", nine.Add(1), time.Second, true},
		{"no limit at all", nine.Add(1), 0, false},
		{"a negative limit", nine.Add(time.Hour), -2 * time.Hour, false},
	} {
		got, ok := tl.Prev(c.before, c.limit)
		if ok != c.want || ok && !got.Equal(nine) {
			t.Errorf("%s: %v, %v", c.name, got, ok)
		}
	}
}
