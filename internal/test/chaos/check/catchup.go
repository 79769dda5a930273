package check

import (
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// onTimeBound is how late a slot may be that falls due while a backlog is
// worked off.
const onTimeBound = time.Second

// catchup is I11: missed slots are caught up in portions, and on-time slots do not wait
// for them.
func (c *checker) catchup() {
	var backlogs []window
	for _, rows := range c.rows {
		var fires []record.Run
		for _, r := range rows {
			if r.Trigger == "catchup" {
				fires = append(fires, r)
			}
		}
		if len(fires) == 0 {
			continue
		}
		slices.SortFunc(fires, func(a, b record.Run) int { return a.FireAt.Compare(b.FireAt) })
		c.report.Counts.CaughtUp += len(fires)
		c.portions(fires)
		for _, r := range fires {
			if e := c.effects[r.Key]; e != nil {
				backlogs = append(backlogs, window{r.FireAt.Add(-c.Settings.Tick), e.first()})
			}
		}
	}
	c.meanwhile(joined(backlogs))
}

// portions: a limited number fires in a tick. The next portion may come half a tick
// early, and a new leader has its own ticks.
func (c *checker) portions(fires []record.Run) {
	most, tick := c.Settings.MaxCatchup, c.Settings.Tick
	c.atMost(fires, tick/2-tolerance, most)
	c.atMost(fires, 4*tick-tolerance, 5*most)
	l := c.lives[fires[0].ScheduleID]
	spread := func(r record.Run) bool {
		return l != nil && l.revisions[r.Revision] != nil && l.revisions[r.Revision].CatchupPolicy == "spread"
	}
	if !slices.ContainsFunc(fires, func(r record.Run) bool { return !spread(r) }) {
		c.atMost(fires, c.Settings.Lookahead-tolerance, most+1) // evenly; portions of two sizes may touch
	}
}

// atMost reports the first time in which more fire than may.
func (c *checker) atMost(fires []record.Run, within time.Duration, most int) {
	for i, first := range fires {
		n := i
		for n < len(fires) && fires[n].FireAt.Sub(first.FireAt) < within {
			n++
		}
		during := window{first.FireAt, first.FireAt.Add(within)}
		allowed := most
		for _, t := range c.Terms {
			if t.Shard == c.shardOf(first.Bucket) && during.has(t.At) {
				allowed += c.Settings.MaxCatchup
			}
		}
		if n-i > allowed {
			c.violate("I11", first, "%d missed slots fire within %s; MAX_CATCHUP_PER_TICK is %d and TICK %s", n-i, within, c.Settings.MaxCatchup, c.Settings.Tick)
			return
		}
	}
}

// joined are times without overlaps, sorted.
func joined(times []window) []window {
	slices.SortFunc(times, func(a, b window) int { return a.from.Compare(b.from) })
	var all []window
	for _, t := range times {
		if n := len(all); n > 0 && !t.from.After(all[n-1].until) {
			all[n-1].until = later(all[n-1].until, t.until)
			continue
		}
		all = append(all, t)
	}
	return all
}

// meanwhile: on-time slots are sent on time during a catch-up, except for delays by a fault
// or the machine.
func (c *checker) meanwhile(backlogs []window) {
	bound := onTimeBound + c.rose + c.stall
	for _, r := range c.Runs {
		e := c.effects[r.Key]
		if r.Trigger != "schedule" || r.Overlap != "allow" || e == nil || !slices.ContainsFunc(backlogs, func(w window) bool { return w.has(r.FireAt) }) {
			continue
		}
		if strings.HasPrefix(r.ScheduleID, Probe) {
			c.report.Counts.Meanwhile++
		}
		if late := e.first().Sub(r.FireAt); late > bound && c.broken(r.FireAt, e.first()) == 0 {
			c.violate("I11", r, "it was sent %s late while a backlog was worked off; an on-time slot may be %s late", late, bound)
		}
	}
}
