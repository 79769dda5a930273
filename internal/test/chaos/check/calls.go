package check

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// leaseLife is how long a key is protected after its holder was last able to extend it,
// and what a process that has lost its presence lock needs to have another.
const leaseLife = 5 * time.Second

// calls is I18: a key has one open call at a time, unless its holder lives and can have
// lost the key.
func (c *checker) calls() {
	c.openCalls(c.effects, func(key string) record.Run { return c.ledger[key] })
}

func (c *checker) openCalls(effects map[string]*effect, shown func(key string) record.Run) {
	if c.stall > time.Second {
		return // leases can be lost at any time
	}
	for key, e := range effects {
		for i, next := range e.calls {
			for _, before := range e.calls[:i] {
				closed, known := e.closed[before.Number]
				if known && closed.After(next.At.Add(slack+c.stall)) && !c.leasesLost(before.At, next.At) {
					c.violate("I18", shown(key), "call %d came at %s, and call %d was open from %s to %s",
						next.Number, clock(next.At), before.Number, clock(before.At), clock(closed))
				}
			}
		}
	}
}

// leasesLost reports whether a process that lives can have lost its keys in that time.
func (c *checker) leasesLost(from, until time.Time) bool {
	return slices.ContainsFunc(c.Faults, func(f record.Fault) bool {
		over := later(f.Calm, f.Ended)
		return slices.Contains(record.LosesLeases, f.Kind) && f.Began.Before(until) && (over.IsZero() || over.Add(leaseLife).After(from))
	})
}

// once is I19: the view has each run once, at any instant.
func (c *checker) once() {
	for _, t := range c.Twice {
		r := c.ledger[t.Key]
		r.Key = t.Key
		c.violate("I19", r, "the view had it twice at %s", clock(t.At))
	}
}
