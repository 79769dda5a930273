package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// drainBound is how long a process may take to end after SIGTERM: the drain of
// open launches, then that of open requests.
const drainBound = 20 * time.Second

// latest is how late a slot may be while one process takes over from another.
const latest = 2 * time.Second

// TestSigtermDrains deploys again and again, as people do: the new process
// starts, the old one is told to end. Nobody notices.
func TestSigtermDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	// Not in parallel: it measures how late slots are.
	database := services.Postgres(t, nil)
	s := newSite(t, siteOptions{database: database, processes: 2, grace: time.Minute, tame: true})
	s.registerAll(slices.DeleteFunc(workload(time.Now()), func(d definition) bool { return d.ScheduleID == "paused-in-between" }))
	old, young := s.processes[0], s.processes[1]
	for range 4 {
		s.live(1500*time.Millisecond, 3*time.Second)
		young.startReady()
		s.live(500*time.Millisecond, time.Second)
		s.journal.note("%s is told to end", old.name)
		took := old.terminate(drainBound)
		s.journal.note("%s has ended after %s", old.name, took)
		t.Logf("%s ended %s after SIGTERM", old.name, took)
		old, young = young, old
	}
	s.live(time.Second, 2*time.Second)
	s.stopAll()
	s.drain()
	c := s.audit()
	if c.missed > 0 {
		t.Errorf("%d slots were missed in a rolling restart", c.missed)
	}
	c.punctual(latest)
	if old.terminate(drainBound) > 5*time.Second {
		t.Error("an idle process takes more than five seconds to end")
	}
}

// punctual holds what nothing had to wait for to its fire_at, and every key to
// a single delivery.
func (c *checker) punctual(latest time.Duration) {
	c.t.Helper()
	worst := time.Duration(0)
	before := len(c.violations)
	for _, r := range c.ledger {
		e := c.oracle.effects[r.Key]
		if e == nil {
			continue
		}
		if e.calls > 1 {
			c.violate(r, "it was sent %d times although nothing crashed", e.calls)
		}
		if !r.WaitingSince.IsZero() || r.OverlapPolicy == "queue" || r.OverlapPolicy == "replace" {
			continue
		}
		late := e.first.Sub(laterOf(r.FireAt, c.journal.schedules[r.ScheduleID].createdAt))
		worst = max(worst, late)
		if late > latest+c.steadiness.rose {
			c.violate(r, "its first call came %s after fire_at", late)
		}
	}
	c.t.Logf("the latest of the slots that had not to wait came %s after fire_at", worst)
	c.violations = c.violations[before:]
	if len(c.violations) > 0 {
		c.report()
	}
}
