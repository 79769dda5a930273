package worker_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

var races = flag.Int("races", 0, "how many revocations, and how many pauses, race with a fire on each store; 0: a few (make stops: 10000)")

// Each race is one schedule with one slot, and a revocation of its grant, or a
// pause of it, that comes somewhere between a good time before the slot is
// armed and a little after its call has begun; or, of those whose first calls
// the executor answers with 503, around the third. Some come so early that a check at
// the claim only, or no check, would be too late.
const (
	raceFrom, raceUntil = -500 * time.Millisecond, 60 * time.Millisecond
	// A heat is so many races within two seconds; so many heats are under way at
	// once, most of them in wait for their slots.
	racesInHeat, heatsAtOnce = 500, 6
	raceEarly                = -2200 * time.Millisecond
	// again is when a key is sent for the third time that had no answer before: a
	// second after the first, and two after the second.
	again = 3 * time.Second
	// stopped is how long after a stop is answered a call may still begin.
	stopped = time.Second
	// delivery is how long a request may take to reach the executor once it is
	// sent, on a busy machine.
	delivery = 250 * time.Millisecond
)

// TestStopsRacingFires is the promise of revocation and pause on the real
// stores, checked by what the executor has seen: each slot is called
// once or skipped with the reason, never both and never neither, and no call
// begins more than a second after its stop was answered.
func TestStopsRacingFires(t *testing.T) {
	n := *races
	if n == 0 {
		n = 250
	}
	for name, url := range map[string]func(*testing.T) string{
		"SQLite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "carillon.db") },
		"Postgres": func(t *testing.T) string { return migrated.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes seconds of real time")
			}
			if *races == 0 {
				t.Parallel()
			}
			newTrack(t, url(t)).race(n)
		})
	}
}

// track is a deployment on a real store whose executor is a server that notes
// when it is called.
type track struct {
	*testing.T
	store     app.Store
	registrar *registrar.Registrar

	mu    sync.Mutex
	calls map[string][]time.Time // by key
}

// raced is one race.
type raced struct {
	id     string
	pauses bool // else it revokes
	run    schedule.Run
	acked  time.Time
}

func newTrack(t *testing.T, url string) *track {
	t.Helper()
	store, err := app.OpenStore(t.Context(), app.Config{DatabaseURL: app.Secret(url)}, quiet, app.OpenOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &track{T: t, store: store, calls: make(map[string][]time.Time)}
	r.registrar = registrar.New(registrar.Options{Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Now: store.Now, Logger: quiet})
	server := httptest.NewServer(http.HandlerFunc(r.called))
	t.Cleanup(server.Close)
	executor, err := httpexecutor.New(httpexecutor.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executor.Close)
	launch := launcher.New(launcher.Options{Store: store, Workflows: workflow.NewOwned(workflow.Options{Versions: store, AccessStore: store}), Executor: executor, Now: store.Now, Logger: quiet})
	w := worker.New(worker.Options{
		ID: "track", Plans: store, Fires: store, Launcher: launch, Waker: store, Now: store.Now, Logger: quiet,
		Electors: []worker.Elector{leader.New(leader.Options{
			Lease: store, Lock: solo.New(filepath.Join(t.TempDir(), "lock"), quiet), Holder: "track", Now: store.Now, Logger: quiet,
		})},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// called is the executor.
func (r *track) called(w http.ResponseWriter, req *http.Request) {
	at, key := time.Now(), req.Header.Get("Idempotency-Key")
	r.mu.Lock()
	r.calls[key] = append(r.calls[key], at)
	last := len(r.calls[key]) >= 3 || !stumbles(key)
	r.mu.Unlock()
	_, _ = io.Copy(io.Discard, req.Body)
	if !last {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
}

func (r *track) callsOf(x raced) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls[x.run.Key.String()])
}

// stumbles says of some keys that the executor answers their first two calls
// with nothing definite.
func stumbles(key string) bool { return key[0] < '3' }

// race holds n races of each kind, in heats, and checks them at the end.
func (r *track) race(n int) {
	heats := make([][]raced, (2*n+racesInHeat-1)/racesInHeat)
	var running sync.WaitGroup
	places := make(chan struct{}, heatsAtOnce)
	began := time.Now()
	for h := range heats {
		heats[h] = make([]raced, min(racesInHeat, 2*n-h*racesInHeat))
		for i := range heats[h] {
			heats[h][i] = raced{id: fmt.Sprintf("heat-%d.%d", h, i), pauses: i%2 == 0}
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			r.heat(fmt.Sprint("heat-", h), heats[h])
		})
	}
	running.Wait()
	<-time.After(stopped + delivery)
	var sum tally
	for _, heat := range heats {
		r.check(heat, &sum)
	}
	for kind, s := range sum {
		r.Logf("%d %s raced a fire within %.0f s: %d slots were called, of which %d not again for want of an answer, and %d after the stop was answered, by %s at most",
			s.n, []string{"revocations", "pauses"}[kind], time.Since(began).Seconds(), s.called, s.open, s.late, s.latest)
		if s.called < s.n/50 || s.called > s.n-s.n/50 {
			r.Errorf("of %d races of kind %d the fire has won %d: that was no race", s.n, kind, s.called)
		}
	}
}

// heat creates the schedules of one heat, each with its grant, waits until they
// are planned, and stops them.
func (r *track) heat(workflow string, heat []raced) {
	at := time.Now().Add(7 * time.Second).Truncate(time.Second) // time to be planned, on a busy machine
	jitter := uint32(1000)
	in := registrar.ApplyInput{Set: workflow}
	for i := range heat {
		in.Fields = append(in.Fields, fmt.Sprintf("schedules[%d].", i))
		in.Schedules = append(in.Schedules, registrar.UpsertInput{
			Definition: schedule.Definition{
				ScheduleID: heat[i].id, WorkflowID: workflow, Version: 1, UserID: fmt.Sprint("u", i%7), OnceAt: at,
				OverlapPolicy: []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue}[i%3],
			},
			JitterMS: &jitter,
			Grant:    &registrar.GrantInput{GrantID: heat[i].id, BillingAccountID: "acme", Scopes: []string{"graph:execute:" + workflow}},
		})
	}
	in.Workflows = []registrar.WorkflowInput{{WorkflowID: workflow, Version: 1, DAG: []byte(`{}`), Field: "workflows[0]."}}
	if _, err := r.registrar.ApplySchedules(r.Context(), in); err != nil {
		r.Errorf("create the schedules of %s: %v", workflow, err)
		return
	}
	if !r.until(workflow, func(runs map[string]schedule.Run) bool {
		for i := range heat {
			heat[i].run = runs[heat[i].id]
		}
		return len(runs) == len(heat)
	}) {
		r.Errorf("the slots of %s are not planned", workflow)
		return
	}
	r.stopAll(heat)
	if !r.until(workflow, func(runs map[string]schedule.Run) bool {
		return !slices.ContainsFunc(heat, func(x raced) bool {
			run, there := runs[x.id]
			return there && !run.Status.Terminal() && (len(r.callsOf(x))%3 == 0 || !stumbles(x.run.Key.String()) || time.Since(x.acked) < again)
		})
	}) {
		r.Errorf("the slots of %s do not end", workflow)
	}
}

// until looks at the rows of a workflow, by schedule, until they are as told.
func (r *track) until(workflow string, so func(map[string]schedule.Run) bool) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		if so(r.rows(workflow)) {
			return true
		}
	}
	return false
}

// rows are the runs of a workflow's schedules; each has one.
func (r *track) rows(workflow string) map[string]schedule.Run {
	f := schedule.RunFilter{WorkflowID: workflow, Now: r.store.Now(), Limit: racesInHeat + 1, Statuses: schedule.Statuses}
	runs, err := r.store.ListRuns(r.Context(), f)
	if err != nil {
		r.Errorf("list the runs of %s: %v", workflow, err)
	}
	of := make(map[string]schedule.Run, len(runs))
	for _, run := range runs {
		of[run.ScheduleID] = run
	}
	return of
}

// stopAll revokes and pauses, several at once, each at its instant.
func (r *track) stopAll(heat []raced) {
	when := func(x raced) time.Time {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(x.id))
		from := raceFrom
		if sum.Sum32()%3 == 0 {
			from = raceEarly
		}
		at := x.run.FireAt.Add(from + time.Duration(sum.Sum32()%1000)*(raceUntil-from)/1000)
		if stumbles(x.run.Key.String()) {
			return at.Add(again)
		}
		return at
	}
	slices.SortFunc(heat, func(a, b raced) int { return cmp.Compare(when(a).UnixNano(), when(b).UnixNano()) })
	var stopping sync.WaitGroup
	next := make(chan *raced)
	for range 8 {
		stopping.Go(func() {
			for x := range next {
				<-time.After(time.Until(when(*x)))
				var err error
				if x.pauses {
					_, err = r.registrar.Pause(r.Context(), registrar.PauseInput{ScheduleID: x.id})
				} else {
					_, err = r.registrar.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: x.id}})
				}
				if x.acked = time.Now(); err != nil {
					r.Errorf("stop %s: %v", x.id, err)
				}
			}
		})
	}
	for i := range heat {
		next <- &heat[i]
	}
	close(next)
	stopping.Wait()
}

// tally is what came of the revocations, then of the pauses.
type tally [2]struct {
	n, called, late int
	open            int // called, and not again, though it has not answered
	latest          time.Duration
}

// check compares each race with what the executor has seen.
func (r *track) check(heat []raced, sum *tally) {
	if len(heat) == 0 || r.Failed() {
		return
	}
	rows := r.rows(heat[0].run.WorkflowID)
	for i := range heat {
		x, s, reason := &heat[i], &sum[0], schedule.ReasonGrantRevoked
		if x.pauses {
			s, reason = &sum[1], schedule.ReasonPaused
		}
		s.n++
		run, there := rows[x.id]
		calls := r.callsOf(*x)
		// What was called and has not answered, and may not be called again, is lost
		// when its time is over.
		end := schedule.StatusSuccess
		if len(calls) < 3 && stumbles(x.run.Key.String()) {
			end = schedule.StatusLaunching
			s.open++
		}
		switch {
		case len(calls) == 0 && there && run.Status == schedule.StatusSkipped && run.Reason == reason:
			continue
		case len(calls) == 0 && !there && x.pauses:
			continue // it was only a plan
		case len(calls) == 0, len(calls) > 3, len(calls) > 1 && !stumbles(x.run.Key.String()), run.Status != end:
			r.Errorf("%s was called %d times and is %s(%s) %s", x.id, len(calls), run.Status, run.Reason, run.ErrorMessage)
			continue
		}
		s.called++
		after := calls[len(calls)-1].Sub(x.acked)
		if after > 0 {
			s.late++
		}
		if s.latest = max(s.latest, after); after > stopped+delivery {
			r.Errorf("%s was called %s after its stop was answered", x.id, after)
		}
	}
}
