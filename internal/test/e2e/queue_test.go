package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/test/services"
)

// TestLongLaunchQueue hands launches over through Redis to two launchers, kills
// or ends them in turns, and the leader once, and lets Redis forget everything
// twice.
func TestLongLaunchQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	s, forget := newQueued(t)
	leader, launchers := s.processes[0], s.processes[1:]
	all := workload(time.Now())
	s.registerAll(all[:20])
	for n := range 7 {
		s.live(1500*time.Millisecond, 3*time.Second)
		victim := launchers[n%2]
		if n == 4 {
			victim = leader
		}
		since := time.Now()
		if n == 3 || n == 6 {
			victim.terminate(10 * time.Second)
		} else {
			victim.kill()
		}
		s.journal.note("end %d: %s", n, victim.name)
		if n == 2 || n == 5 {
			forget()
			s.journal.note("Redis forgets everything")
		}
		s.live(500*time.Millisecond, 4*time.Second) // what it had in hand may be taken over by then
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
	for _, p := range launchers {
		queued(t, p)
	}
}

// queued demands that the queue is in use and empty at the end.
func queued(t *testing.T, p *process) {
	t.Helper()
	eventually(t, 15*time.Second, "the launch queue is empty at "+p.name, func() error {
		for _, stream := range []string{"launches", "catchup", "cancels"} {
			depth, err := strconv.ParseFloat(metric(p, `carillon_launch_queue_depth{stream="`+stream+`"}`), 64)
			if err != nil {
				return err
			}
			if depth != 0 {
				return fmt.Errorf("%s holds %v entries", stream, depth)
			}
		}
		return nil
	})
}

// newQueued starts a leader and two launchers that know nothing of each other
// but Redis. forget empties it.
func newQueued(t *testing.T) (s *site, forget func()) {
	t.Helper()
	url := services.Redis(t)
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	forget = func() {
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	chosen := seed(t)
	s = &site{
		t: t, random: rand.New(rand.NewPCG(chosen, 1)), oracle: newOracle(t, chosen, false), journal: newJournal(), grace: time.Minute,
	}
	env := append(settings(services.Postgres(t, nil), s.grace), s.oracle.env()...)
	env = append(env, "LAUNCH_QUEUE=redis", "REDIS_URL="+url)
	leader := newProcess(t, "registrar and worker", []string{"serve", "--migrate", "--roles", "registrar,worker"}, env)
	s.processes = []*process{leader}
	for _, name := range []string{"launcher a", "launcher b"} {
		p := newProcess(t, name, []string{"serve", "--roles", "launcher"}, env)
		// Reports go where a launcher that was killed is not needed for them.
		p.env = append(p.env, "PUBLIC_URL=http://"+leader.httpAddr)
		s.processes = append(s.processes, p)
	}
	if _, errs, code := leader.command("", "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d: %s", code, errs)
	}
	for _, p := range s.processes { // the worker is ready when a launcher reads the queue
		p.start()
	}
	for _, p := range s.processes {
		p.awaitReady()
	}
	s.api = newREST(t, leader)
	s.watched = watchRuns(t, leader)
	return s, forget
}
