package check

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// launches is I15: a launch is given up in time and not before, and what the ledger says
// of it is what the executor saw.
func (c *checker) launches() {
	for _, r := range c.Runs {
		e, calls := c.effects[r.Key], 0
		if e != nil {
			calls = len(e.calls)
		}
		switch {
		case calls > 0 && r.Deliveries == 0 && (r.Status == "SUCCESS" || r.Reason == "workflow_failed"):
			c.violate("I15", r, "it has 0 deliveries, and the executor got %d calls", calls)
		case r.Reason == "launch_unavailable" && calls > 0:
			c.violate("I15", r, "it is FAILED(launch_unavailable), and the executor got %d calls", calls)
		}
		if unsure, counted := c.unsure(r); counted && r.Deliveries > calls+unsure {
			c.violate("I15", r, "it has %d deliveries, and the executor got %d calls", r.Deliveries, calls)
		}
		if r.Reason == "launch_unavailable" || r.Reason == "lost" {
			c.givenUpInTime(r)
		}
	}
}

// unsure is how many calls of a run a killed process may have counted and not made.
// Where a link is cut, a request can be written and lost: then nothing can be said.
func (c *checker) unsure(r record.Run) (n int, counted bool) {
	for _, f := range c.Faults {
		if later(f.Calm, f.Ended).Before(r.FireAt.Add(-arming)) || f.Began.After(r.CompletedAt) {
			continue
		}
		switch {
		case slices.Contains(record.Countable, f.Kind):
			n++
		case f.Kind != record.Clock && f.Kind != record.Stopped:
			return 0, false
		}
	}
	return n, true
}

// givingUp is how long after its time a launch may be given up on a busy machine: an
// open call, its lease, a tick.
const givingUp = 10 * time.Second

func (c *checker) givenUpInTime(r record.Run) {
	bound := later(r.FireAt, c.claimed[r.Key]).Add(c.Settings.RunTimeout) // LAUNCH_RETRY_FOR_MS is the same
	if early := bound.Sub(r.CompletedAt); early > sloppiness+c.fell {
		c.violate("I15", r, "it is given up %s before its time", early)
	}
	if late := r.CompletedAt.Sub(bound); late > givingUp+c.broken(bound, r.CompletedAt)+c.rose+c.stall {
		c.violate("I15", r, "it is given up %s after its time", late)
	}
}

// failures is I16: a schedule is shown as failing if and only if the newest of its runs
// that succeeded or failed has failed.
func (c *checker) failures() {
	for _, s := range c.Failing {
		var newest record.Run
		for _, r := range c.rows[s.ScheduleID] {
			if r.Status != "SUCCESS" && r.Status != "FAILED" || r.CompletedAt.Before(s.CreatedAt) {
				continue
			}
			same := r.RunAt.Equal(newest.RunAt)
			if r.RunAt.After(newest.RunAt) || same && r.CompletedAt.After(newest.CompletedAt) ||
				same && r.CompletedAt.Equal(newest.CompletedAt) && r.Status == "SUCCESS" {
				newest = r
			}
		}
		if fails := newest.Status == "FAILED"; fails != s.Failing {
			c.violate("I16", newest, "schedule %s is shown as failing: %t, and its newest run is %s", s.ScheduleID, s.Failing, newest.Status)
		}
	}
}

// reigns is I17: the recorded terms of a shard do not overlap, only the last one is
// open, and each rise of the epoch has one.
func (c *checker) reigns() {
	last := make(map[int]record.Reign)
	began := make(map[int64]time.Time)
	for _, t := range c.Reigns { // by shard and start
		if before, known := last[t.Shard]; known && (before.EndedAt.IsZero() || before.EndedAt.After(t.StartedAt.Add(tolerance))) {
			c.violate("I17", record.Run{RunAt: t.StartedAt}, "the term of epoch %d ends at %s, and that of epoch %d of shard %d begins at %s",
				before.Epoch, clock(before.EndedAt), t.Epoch, t.Shard, clock(t.StartedAt))
		}
		last[t.Shard] = t
		if _, known := began[t.Epoch]; !known {
			began[t.Epoch] = t.StartedAt
		}
	}
	for _, t := range c.Terms {
		if at, known := began[t.Epoch]; len(c.Reigns) > 0 && (!known || at.Sub(t.At).Abs() > sloppiness+c.rose+c.fell+c.stall) {
			c.violate("I17", record.Run{RunAt: t.At}, "epoch %d began at %s, and its recorded term at %s", t.Epoch, clock(t.At), clock(at))
		}
	}
}
