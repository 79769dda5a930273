package cronexpr_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// countExprs are dense and sparse, wildcard and fixed-time.
var countExprs = []string{
	"* * * * * *", "*/7 * * * * *", "* * * * *", "*/15 * * * *", "0-59 0-59 0-23 * * *", "5 0-59 1-4 * * *",
	"0,30 0 2,3 * * *", "* 0 * * * 1-5", "*/5 * * * * 1,15 * *", "30 2 * * *", "* * L * *",
}

// TestCountAgreesWithSteps counts days and minutes at once where it may, so it
// is held to one step after the other, around the changes of the odd zones.
func TestCountAgreesWithSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(places()).Draw(t, "place")
		loc, _ := cronexpr.LoadLocation(p.zone)
		e, err := cronexpr.Parse(rapid.SampledFrom(countExprs).Draw(t, "expr"))
		if err != nil {
			t.Skip(err)
		}
		tl := e.In(loc, rapid.SampledFrom(policies).Draw(t, "dst"))
		from := time.Unix(p.near+rapid.Int64Range(-2*86_400, 86_400).Draw(t, "from"), 0)
		until := from.Add(time.Duration(rapid.Int64Range(0, 60*3600).Draw(t, "range")) * time.Second)
		limit := rapid.SampledFrom([]int{0, 1, 59, 60, 61, 5000, 90_000, 1_000_000}).Draw(t, "limit")
		want, more := 0, false
		for at, ok := tl.Next(from.Add(-time.Second)); ok && at.Before(until); at, ok = tl.Next(at) {
			if want == limit {
				more = true
				break
			}
			want++
		}
		if got, gotMore := tl.Count(from, until, limit); got != want || gotMore != more {
			t.Fatalf("%s %q from %s until %s, limit %d: got %d %v, want %d %v", p.zone, e, from.UTC(), until.UTC(), limit, got, gotMore, want, more)
		}
	})
}

func BenchmarkCountOfAYearOfSeconds(b *testing.B) {
	loc, _ := cronexpr.LoadLocation("Europe/Berlin")
	e, err := cronexpr.Parse("* * * * * *")
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2025, 6, 1, 12, 34, 56, 0, time.UTC)
	tl := e.In(loc, cronexpr.Vixie)
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := tl.Count(from, from.AddDate(1, 0, 0), 100_000_000); n != 365*86_400 {
			b.Fatalf("counted %d", n)
		}
	}
}
