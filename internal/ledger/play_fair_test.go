package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// fairly makes the queue fair. Its waiting runs have drawn one turn after the other for key a.
func (c *copied) fairly(waiting int) {
	c.Queue.Fair = schedule.FairKey
	for n := 1; n <= waiting; n++ {
		r := c.wait(n)
		r.FairKey, r.Order.FairOrder = "a", int64(n)<<20
	}
	c.took("w", 10*time.Second)
}

func (c *copied) delay(n int, key string, by time.Duration) {
	r := c.wait(n)
	r.FairKey, r.State, r.Ready = key, schedule.QueueDelayed, estimatedAt.Add(by)
}

// A delayed run has drawn nothing: it must not pass the runs of its priority for that.
func TestARunThatBeginsToWaitInAPlayedFairQueueTakesItsTurn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(c *copied)
		of   int
		want time.Duration
	}{
		"a run before its turn":                                 {make: func(c *copied) { c.fairly(3); c.delay(9, "a", time.Second) }, of: 3, want: 20 * time.Second},
		"behind those of its key":                               {make: func(c *copied) { c.fairly(3); c.delay(9, "a", time.Second) }, of: 9, want: 30 * time.Second},
		"a key without runs comes after what was admitted last": {make: func(c *copied) { c.fairly(5); c.delay(9, "b", 15*time.Second) }, of: 9, want: 30 * time.Second},
		"and before those of the other key":                     {make: func(c *copied) { c.fairly(5); c.delay(9, "b", 15*time.Second) }, of: 5, want: 50 * time.Second},
		"with its weight": {make: func(c *copied) {
			c.fairly(5)
			c.Queue.Weights = map[string]uint32{"b": 2}
			c.delay(8, "b", 15*time.Second)
			c.delay(9, "b", 15*time.Second)
		}, of: 9, want: 40 * time.Second},
		"with a place that it has drawn before": {make: func(c *copied) {
			c.fairly(3)
			c.delay(9, "a", time.Second)
			c.Runs[3].Order.FairOrder = 3 << 19
		}, of: 9, want: 10 * time.Second},
		"behind runs in flight": {make: func(c *copied) {
			c.fairly(3)
			for i := range c.Runs {
				c.Runs[i].Order.FairOrder += 100 << 20
			}
			f := c.fly(7, 5*time.Second)
			f.FairKey, f.Order.FairOrder = "a", 100<<20
			c.delay(9, "b", time.Second)
		}, of: 9, want: 15 * time.Second},
		"a queue that is not fair": {make: func(c *copied) {
			c.fairly(0)
			c.Queue.Fair = schedule.FairNone
			c.wait(1)
			c.wait(2)
			c.delay(9, "a", time.Second)
		}, of: 9, want: 20 * time.Second},
	} {
		c := newCopied(1)
		tc.make(c)
		if got := c.of(tc.of); !got.P50.Equal(estimatedAt.Add(tc.want)) {
			t.Errorf("%s: it starts after %s, want %s (%v)", name, got.P50.Sub(estimatedAt), tc.want, got.Assumes)
		}
	}
}
