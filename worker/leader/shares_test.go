package leader_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/worker/leader"
)

// of makes the shares of workers a, b, c and so on.
func of(shards ...int) []leader.Share {
	shares := make([]leader.Share, len(shards))
	for i, n := range shards {
		shares[i] = leader.Share{Worker: string(rune('a' + i)), Shards: n}
	}
	return shares
}

func TestWhoGivesAShardUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		shares []leader.Share
		give   []string
	}{
		{name: "nobody is there", shares: of()},
		{name: "a worker alone keeps all", shares: of(8)},
		{name: "one shard never moves, however many wait", shares: of(1, 0, 0)},
		{name: "a difference of one is fair", shares: of(3, 2, 3, 2)},
		{name: "a worker that joins gets one at a time from one that has most", shares: of(2, 2, 2, 2, 0), give: []string{"a"}},
		{name: "who has most gives, wherever it stands", shares: of(1, 4, 2), give: []string{"b"}},
		{name: "two that joined get one each, from two", shares: of(4, 4, 0, 0), give: []string{"a", "b"}},
		{name: "two that joined wait for one that has all", shares: of(8, 0, 0), give: []string{"a"}},
		{name: "whoever is in the middle does nothing", shares: of(5, 3, 1), give: []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var give []string
			for _, share := range c.shares {
				if leader.ShouldRelease(share.Worker, c.shares) {
					give = append(give, share.Worker)
				}
			}
			if !slices.Equal(give, c.give) {
				t.Errorf("got %v, want %v", give, c.give)
			}
		})
	}
}

func TestWhoLeavesAFreeShardToAnother(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		shares []leader.Share
		yield  []string
	}{
		{name: "alone: nobody else would take it", shares: of(3)},
		{name: "all are equal: whoever comes first", shares: of(1, 1, 1)},
		{name: "another has fewer", shares: of(2, 1, 1), yield: []string{"a"}},
		{name: "all but the poorest", shares: of(3, 0, 1), yield: []string{"a", "c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var yield []string
			for _, share := range c.shares {
				if leader.ShouldDefer(share.Worker, c.shares) {
					yield = append(yield, share.Worker)
				}
			}
			if !slices.Equal(yield, c.yield) {
				t.Errorf("got %v, want %v", yield, c.yield)
			}
		})
	}
	if leader.ShouldDefer("new", of(2, 1)) {
		t.Error("a worker that is not counted yet leads nothing and defers to no other")
	}
}

// fleet is a distribution of shards that moves as the rules say.
type fleet struct {
	led    map[string]int
	joined int
}

func (f *fleet) shares() (shares []leader.Share) {
	for worker, n := range f.led {
		shares = append(shares, leader.Share{Worker: worker, Shards: n})
	}
	slices.SortFunc(shares, func(a, b leader.Share) int { return b.Shards - a.Shards })
	return shares
}

func (f *fleet) unfair() int {
	shares := f.shares()
	return shares[0].Shards - shares[len(shares)-1].Shards
}

func (f *fleet) join() { f.joined++; f.led[fmt.Sprint("w", f.joined)] = 0 }

// take gives a shard that was given up to one of those that do not yield.
func (f *fleet) take(t *rapid.T) {
	var able []string
	for _, s := range f.shares() {
		if !leader.ShouldDefer(s.Worker, f.shares()) {
			able = append(able, s.Worker)
		}
	}
	if len(able) == 0 {
		t.Fatalf("every worker defers: %v", f.shares())
	}
	slices.Sort(able)
	f.led[rapid.SampledFrom(able).Draw(t, "taker")]++
}

// die lets the first worker take what another led.
func (f *fleet) die(t *rapid.T) {
	workers := make([]string, 0, len(f.led))
	for worker := range f.led {
		workers = append(workers, worker)
	}
	slices.Sort(workers)
	dead := rapid.SampledFrom(workers).Draw(t, "dead")
	free := f.led[dead]
	delete(f.led, dead)
	workers = slices.DeleteFunc(workers, func(w string) bool { return w == dead })
	for range free {
		f.led[rapid.SampledFrom(workers).Draw(t, "heir")]++
	}
}

// round is one second: everyone sees the same and decides alone.
func (f *fleet) round(t *rapid.T) (moved int) {
	shares := f.shares()
	for _, s := range shares {
		if leader.ShouldRelease(s.Worker, shares) {
			f.led[s.Worker]--
			moved++
		}
	}
	for range moved {
		f.take(t)
	}
	return moved
}

func TestSharesBecomeFairAndStaySo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{led: map[string]int{}}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 16), 1, 8).Draw(t, "shards") {
			f.join()
			f.led[fmt.Sprint("w", f.joined)] = n
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			if len(f.led) > 1 && rapid.Bool().Draw(t, "dies") {
				f.die(t)
			} else {
				f.join()
			}
			total := 0
			for _, n := range f.led {
				total += n
			}
			// At worst one worker has all, and gives one a round.
			for rounds := 0; f.unfair() > 1; rounds++ {
				before := f.unfair()
				if rounds > total {
					t.Fatalf("not fair after %d rounds: %v", rounds, f.shares())
				}
				if f.round(t) == 0 {
					t.Fatalf("nothing moves though the difference is %d: %v", before, f.shares())
				}
				if f.unfair() > before {
					t.Fatalf("the difference has grown from %d to %d", before, f.unfair())
				}
			}
			if moved := f.round(t); moved != 0 {
				t.Fatalf("%d shards move though all is fair: %v", moved, f.shares())
			}
		}
	})
}
