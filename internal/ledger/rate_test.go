package ledger_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestNoWindowHasMoreStartsThanItsRateAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := ledger.Rate{
			Starts: rapid.IntRange(1, 50).Draw(t, "starts"),
			Per:    time.Duration(rapid.IntRange(1, 100_000).Draw(t, "per µs")) * time.Microsecond,
		}
		rate.Burst = rapid.IntRange(1, rate.Starts).Draw(t, "burst")
		now := time.Unix(1_700_000_000, 0)
		var starts []time.Time
		for range rapid.IntRange(1, 30).Draw(t, "visits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2*int(rate.Per.Microseconds())).Draw(t, "pause")) * time.Microsecond)
			v := ledger.Visit{Now: now, Free: 8, MaxInFlight: 1000, Rate: rate, Heads: []ledger.Head{{Runs: make([]ledger.WaitingRun, 8)}}}
			for i := range v.Heads[0].Runs {
				v.Heads[0].Runs[i].Key = schedule.Key{byte(i)}
			}
			for _, a := range ledger.Admit(&v).Runs {
				if a.StartAt.Before(now) || a.StartAt.After(now.Add(250*time.Millisecond)) {
					t.Fatalf("a run starts at %s, %s after the visit", a.StartAt, a.StartAt.Sub(now))
				}
				starts = append(starts, a.StartAt)
			}
			rate = v.Rate
		}
		most := rate.Starts + rate.Burst - 1
		for i := range starts {
			if j := i + most; j < len(starts) && starts[j].Sub(starts[i]) < rate.Per {
				t.Fatalf("%d starts in %s, the window of the rate is %s: %v", most+1, starts[j].Sub(starts[i]), rate.Per, starts[i:j+1])
			}
		}
	})
}

func TestARateThatNothingElseBoundsIsUsed(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rate := ledger.Rate{Starts: 10, Burst: 1, Per: time.Second}
	began, n := now, 0
	for now.Sub(began) < 10*time.Second {
		v := ledger.Visit{Now: now, Free: 100, MaxInFlight: 1000, Rate: rate, Heads: []ledger.Head{{Runs: make([]ledger.WaitingRun, 8)}}}
		for i := range v.Heads[0].Runs {
			v.Heads[0].Runs[i].Key = schedule.Key{byte(i)}
		}
		n += len(ledger.Admit(&v).Runs)
		rate, now = v.Rate, now.Add(50*time.Millisecond)
	}
	if n < 100 || n > 103 { // the last visits admit up to 250 ms ahead
		t.Errorf("%d starts in 10 s at 10 a second", n)
	}
}
