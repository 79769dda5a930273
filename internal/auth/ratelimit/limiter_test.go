package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth/ratelimit"
)

// clock is a test's own time.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)} }

func TestABurstPassesAndAFloodIsHeldToTheRate(t *testing.T) {
	c := newClock()
	l := ratelimit.New(ratelimit.Limits{ReadsPerS: 100, WritesPerS: 20}, c.now)
	passed := 0
	for range 1000 {
		if l.Take("ada", ratelimit.Write, 1) == 0 {
			passed++
		}
	}
	if passed != 40 {
		t.Errorf("%d of a thousand writes at once passed, want 40", passed)
	}
	for range 10_000 { // ten seconds of a thousand a second
		c.at = c.at.Add(time.Millisecond)
		if l.Take("ada", ratelimit.Write, 1) == 0 {
			passed++
		}
	}
	if passed < 40+199 || passed > 40+201 {
		t.Errorf("%d passed in ten seconds more, want 200", passed-40)
	}
	if l.Take("ada", ratelimit.Read, 1) != 0 {
		t.Error("writes used up the limit of reads")
	}
	if l.Take("bob", ratelimit.Write, 1) != 0 {
		t.Error("an owner was refused for the sake of another")
	}
}

func TestACallAfterTheWaitPasses(t *testing.T) {
	c := newClock()
	l := ratelimit.New(ratelimit.Limits{WritesPerS: 3}, c.now)
	refusals := 0
	for range 100 {
		wait := l.Take("ada", ratelimit.Write, 1)
		if wait == 0 {
			continue
		}
		refusals++
		c.at = c.at.Add(wait)
		if again := l.Take("ada", ratelimit.Write, 1); again != 0 {
			t.Fatalf("told to wait %s, then refused for %s more", wait, again)
		}
	}
	if refusals == 0 {
		t.Error("nothing was refused")
	}
}

func TestALargeCallCountsAsManyAndIsNeverImpossible(t *testing.T) {
	c := newClock()
	l := ratelimit.New(ratelimit.Limits{WritesPerS: 10}, c.now)
	if l.Take("ada", ratelimit.Write, 1000) != 0 {
		t.Error("a call larger than the bucket is never admitted")
	}
	if l.Take("ada", ratelimit.Write, 1) == 0 {
		t.Error("nothing was counted")
	}
}

func TestNoLimitLimitsNothing(t *testing.T) {
	l := ratelimit.New(ratelimit.Limits{}, time.Now)
	for range 10_000 {
		if l.Take("ada", ratelimit.Read, 1) != 0 || l.Take("ada", ratelimit.Write, 1) != 0 {
			t.Fatal("refused")
		}
		if _, ok := l.Open("ada"); !ok {
			t.Fatal("refused")
		}
	}
}

func TestStreamsAreBoundedWhileTheyAreOpen(t *testing.T) {
	l := ratelimit.New(ratelimit.Limits{Streams: 2}, time.Now)
	first, ok1 := l.Open("ada")
	_, ok2 := l.Open("ada")
	if _, ok3 := l.Open("ada"); !ok1 || !ok2 || ok3 {
		t.Errorf("opened %v %v %v, want two", ok1, ok2, ok3)
	}
	if _, ok := l.Open("bob"); !ok {
		t.Error("an owner was refused for the sake of another")
	}
	first()
	if _, ok := l.Open("ada"); !ok {
		t.Error("a permit that was given back is not free")
	}
}

func TestMemoryIsBoundedAndActiveOwnersAreKept(t *testing.T) {
	c := newClock()
	l := ratelimit.New(ratelimit.Limits{WritesPerS: 1, ReadsPerS: 1, Streams: 1}, c.now)
	if _, ok := l.Open("watcher"); !ok {
		t.Fatal("refused")
	}
	for range 2 {
		l.Take("hostile", ratelimit.Write, 1)
	}
	for i := range 50_000 {
		l.Take(fmt.Sprint("owner-", i), ratelimit.Read, 1)
		if l.Take("hostile", ratelimit.Write, 1) == 0 {
			t.Fatal("the hostile owner was forgotten while it was calling")
		}
	}
	if n := l.Owners(); n > 10_000 {
		t.Errorf("%d owners are remembered", n)
	}
	if _, ok := l.Open("watcher"); ok {
		t.Error("an owner was forgotten while its stream was open")
	}
}
