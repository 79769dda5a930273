package sim_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/carillon/carillon/internal/sim"
)

var (
	seeds = flag.Int("seeds", 300, "how many worlds TestWorlds makes")
	first = flag.Uint64("first", 1, "the seed of the first")
)

func run(t *testing.T, seed uint64, o sim.Options) (r sim.Result) {
	synctest.Test(t, func(*testing.T) { r = sim.Run(seed, o) })
	return r
}

func TestWorlds(t *testing.T) {
	c := new(sim.Coverage)
	bad := 0
	slots, effects, again, takeovers := 0, 0, 0, 0
	for n := range *seeds {
		r := run(t, *first+uint64(n), sim.Options{Coverage: c})
		slots += r.Slots
		effects += r.Effects
		again += r.Again
		takeovers += r.Takeovers
		if len(r.Violations) > 0 {
			bad++
			if bad < 10 {
				t.Errorf("seed %d: %d violations\n%s", r.Seed, len(r.Violations), r.Violations[0])
			}
		}
	}
	t.Logf("%d bad; %d calls; slots %d effects %d again %d takeovers %d; %s", bad, c.Calls(), slots, effects, again, takeovers, c.Faults())
	t.Log(c.Missing())
}

func TestTrace(t *testing.T) {
	if *seeds != 1 {
		t.Skip()
	}
	r := run(t, *first, sim.Options{Trace: true})
	for _, l := range r.Trace {
		t.Log(l)
	}
}
