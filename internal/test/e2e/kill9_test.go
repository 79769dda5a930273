package e2e_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// TestLongSlotsSurviveKill9 kills the process, or the one that leads, again and
// again under a load of every policy and a misbehaving executor.
func TestLongSlotsSurviveKill9(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	t.Run("one process on SQLite", func(t *testing.T) {
		t.Parallel()
		surviveKills(t, siteOptions{processes: 1, grace: 2 * time.Second})
	})
	t.Run("one process on Postgres", func(t *testing.T) {
		t.Parallel()
		database := services.Postgres(t, nil)
		surviveKills(t, siteOptions{database: database, processes: 1, grace: 2 * time.Second})
	})
	t.Run("two processes on Postgres, and the leader is killed", func(t *testing.T) {
		t.Parallel()
		database := services.Postgres(t, nil)
		c := surviveKills(t, siteOptions{database: database, processes: 2, grace: time.Minute})
		if c.missed > 0 {
			t.Errorf("%d slots were missed although another process stood by", c.missed)
		}
	})
}

const kills = 8

// surviveKills is one such life: most are registered before the first kill,
// some between, some are edited, one is paused for a while.
func surviveKills(t *testing.T, o siteOptions) *checker {
	s := newSite(t, o)
	for _, p := range s.processes[1:] {
		p.startReady()
	}
	all := workload(time.Now())
	s.registerAll(all[:24])
	late := all[24:]
	for n := range kills {
		s.live(1500*time.Millisecond, 4*time.Second)
		victim := s.victim()
		victim.kill()
		since := time.Now()
		s.journal.note("kill %d: %s", n, victim.name)
		if len(s.processes) == 1 && n%4 == 2 {
			s.live(s.grace+2*time.Second, s.grace+4*time.Second) // an outage beyond the grace
		}
		victim.start()
		if len(late) > 0 { // while it starts
			s.journal.register(s.api, late[0])
			late = late[1:]
		}
		s.change(n)
		victim.awaitReady()
		s.journal.outage(victim.name, since)
	}
	s.live(2*time.Second, 3*time.Second)
	s.stopAll()
	s.drain()
	c := s.audit()
	c.eventful()
	return c
}

// eventful fails a test that proved nothing: a life without what it is about.
func (c *checker) eventful() {
	c.t.Helper()
	redelivered := len(c.oracle.calls) - len(c.oracle.effects)
	if len(c.ledger) < 200 || redelivered < 5 || c.ended["SKIPPED(overlap)"] == 0 || c.ended["CANCELLED(replaced)"] == 0 {
		c.t.Errorf("too little happened: %d redeliveries; %s", redelivered, c.summary())
	}
}

// live lets the deployment run for a random while: the moment of the next blow
// is what is random.
func (s *site) live(least, most time.Duration) {
	time.Sleep(least + time.Duration(s.random.Int64N(int64(most-least))))
}

// victim is the process that leads; while nobody does, any.
func (s *site) victim() *process {
	if p := s.leader(); p != nil {
		return p
	}
	return s.processes[s.random.IntN(len(s.processes))]
}

// change is what people do meanwhile.
func (s *site) change(n int) {
	s.t.Helper()
	for _, id := range []string{"edited-allow", "edited-skip"} {
		if known := s.journal.schedules[id]; known != nil {
			createdAt := known.createdAt
			edited := known.definition
			edited.Input = map[string]any{"edit": n}
			s.journal.register(s.api, edited)
			if !s.journal.schedules[id].createdAt.Equal(createdAt) {
				s.t.Errorf("created_at of %s moved with an edit", id)
			}
		}
	}
	if s.journal.schedules["paused-in-between"] != nil {
		verb := []string{"pause", "resume"}[n%2]
		s.api.do("POST", "/v1/schedules/paused-in-between:"+verb, `{"note": "for a while"}`, nil)
		s.journal.note("paused-in-between: %s", verb)
	}
}
