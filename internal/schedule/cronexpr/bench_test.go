package cronexpr_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

var benchExprs = []string{
	"* * * * *", "*/5 * * * *", "*/10 * * * * *", "0 9 * * 1-5", "30 2 1 * *", "0 0 L * *", "0 0 1 1 *",
	"0 0 29 2 *", "0 0 15W * FRI#2",
}

func BenchmarkNext(b *testing.B) {
	for _, zone := range []string{"UTC", "America/New_York"} {
		loc := mustZone(b, zone)
		for _, text := range benchExprs {
			b.Run(zone+"/"+text, func(b *testing.B) {
				tl := mustParse(b, text).In(loc, cronexpr.Vixie)
				start := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
				at := start
				b.ReportAllocs()
				for b.Loop() {
					next, ok := tl.Next(at)
					if at = next; !ok || at.Year() > 2090 {
						at = start
					}
				}
			})
		}
	}
}

func BenchmarkNeverFires(b *testing.B) {
	for _, zone := range []string{"UTC", "America/New_York"} {
		tl := mustParse(b, "0 0 30 2 *").In(mustZone(b, zone), cronexpr.Vixie)
		b.Run(zone, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := tl.CheckFires(time.Unix(1_800_000_000, 0)); err == nil {
					b.Fatal("it fires")
				}
			}
		})
	}
}

func BenchmarkPrevWithinTwoHours(b *testing.B) {
	loc := mustZone(b, "America/New_York")
	for _, text := range []string{"* * * * * *", "*/5 * * * *", "0 9 * * 1-5"} {
		tl := mustParse(b, text).In(loc, cronexpr.Vixie)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tl.Prev(time.Unix(1_800_000_000, 0), 2*time.Hour)
			}
		})
	}
}

func BenchmarkCountOfADay(b *testing.B) {
	tl := mustParse(b, "* * * * *").In(mustZone(b, "America/New_York"), cronexpr.Vixie)
	from := time.Unix(1_800_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := tl.Count(from, from.Add(24*time.Hour), 2000); n != 1440 {
			b.Fatal(n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, text := range []string{"*/5 * * * *", "0 0 1,15W,L * MON-FRI/2,SUN#2"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustParse(b, text)
			}
		})
	}
}

func BenchmarkLoadLocationAgain(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustZone(b, "America/New_York")
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York"} {
		for _, text := range benchExprs {
			tl := mustParse(t, text).In(mustZone(t, zone), cronexpr.Vixie)
			at := time.Date(2024, time.March, 9, 0, 0, 0, 0, time.UTC)
			if n := testing.AllocsPerRun(50, func() { at, _ = tl.Next(at) }); n != 0 {
				t.Errorf("%s in %s: %v allocations", text, zone, n)
			}
		}
	}
}

func TestNeverFiringIsFoundQuickly(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Africa/Casablanca"} {
		for _, text := range []string{"0 0 30 2 *", "59 59 23 31 4,6,9,11 *", "* * * 30W 2 *"} {
			tl := mustParse(t, text).In(mustZone(t, zone), cronexpr.Vixie)
			fastest := time.Hour
			for range 5 { // the machine may pause once, not five times
				began := time.Now()
				if err := tl.CheckFires(began); err == nil {
					t.Errorf("%s fires", text)
				}
				fastest = min(fastest, time.Since(began))
			}
			if fastest > time.Millisecond {
				t.Errorf("%s in %s took %v", text, zone, fastest)
			}
		}
	}
}
