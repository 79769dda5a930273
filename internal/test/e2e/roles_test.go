package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// TestLongRolesApart runs each role in a process of its own, reports going to the
// launcher, and kills the launcher and the worker.
func TestLongRolesApart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	s := newApart(t)
	registrar, worker, launcher := s.processes[0], s.processes[1], s.processes[2]
	s.api = newREST(t, registrar)
	s.watched = watchRuns(t, registrar)
	all := workload(time.Now())
	s.registerAll(all[:20])
	for n := range 6 {
		s.live(2*time.Second, 4*time.Second)
		victim := []*process{launcher, worker}[n%2]
		victim.kill()
		since := time.Now()
		s.journal.note("kill %d: %s", n, victim.name)
		if n >= 4 { // now and then it takes a while until somebody looks
			s.live(time.Second, 2*time.Second)
		}
		victim.startReady()
		s.journal.outage(victim.name, since)
		s.journal.register(s.api, all[20+n])
	}
	s.live(2*time.Second, 3*time.Second)
	s.stopAll()
	s.drain()
	c := s.audit()
	c.eventful()
	if c.missed > 0 {
		t.Errorf("%d slots were missed within the grace", c.missed)
	}
}

// newApart starts registrar, worker and launcher, in this order: none may need
// another one to start. The worker is ready when the launcher is there.
func newApart(t *testing.T) *site {
	t.Helper()
	chosen := seed(t)
	s := &site{
		t: t, random: rand.New(rand.NewPCG(chosen, 1)), oracle: newOracle(t, chosen, false), journal: newJournal(), grace: time.Minute,
	}
	env := append(settings(services.Postgres(t, nil), s.grace), s.oracle.env()...)
	registrar := newProcess(t, "registrar", []string{"serve", "--migrate", "--roles", "registrar"}, env)
	worker := newProcess(t, "worker", []string{"serve", "--roles", "worker"}, env)
	launcher := newProcess(t, "launcher", []string{"serve", "--roles", "launcher"}, env)
	worker.args = append(worker.args, "--launcher-addr", launcher.grpcAddr)
	s.processes = []*process{registrar, worker, launcher}
	registrar.startReady() // which migrates
	worker.start()
	launcher.startReady()
	worker.awaitReady()
	return s
}
