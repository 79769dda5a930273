package launchqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// store is either store.
type store interface {
	worker.PlanStore
	worker.FireStore
	launcher.Store
	launchqueue.Store
	registrar.ScheduleStore
	registrar.RunStore
	registrar.WorkflowStore
	registrar.ShareStore
	registrar.GrantStore
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error)
	Now() time.Time
}

// rig is a deployment in pieces: its ledger, its Redis, an executor, and a test
// that does by hand what the leader does.
type rig struct {
	*testing.T
	store     store
	url       string
	redis     *redis.Client
	registrar *registrar.Registrar
	executor  *launchertest.Executor
	publisher *launchqueue.Publisher
	term      schedule.Term
}

var quiet = slog.New(slog.DiscardHandler)

// onBoth runs test on either store.
func onBoth(t *testing.T, test func(*rig)) {
	t.Helper()
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(newRig(t, openSQLite(t))) })
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); test(newRig(t, openPostgres(t))) })
}

func openSQLite(t *testing.T) store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openPostgres(t *testing.T) store {
	t.Helper()
	s, err := postgres.Open(t.Context(), migrated.Postgres(t), postgres.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newRig(t *testing.T, s store) *rig {
	t.Helper()
	r := &rig{
		T: t, store: s, url: services.Redis(t), executor: launchertest.New(),
		registrar: registrar.New(registrar.Options{
			Schedules: s, Runs: s, Workflows: s, Shares: s, Grants: s, Now: s.Now, Logger: quiet, Config: registrar.Config{CanCancel: true},
		}),
	}
	r.redis = r.open()
	r.publisher = launchqueue.NewPublisher(r.open(), nil)
	var won bool
	var err error
	r.term, won, err = s.Takeover(t.Context(), schedule.TakeoverRequest{Shards: 1, Holder: "test", TTL: time.Hour, LockHeld: true, Now: s.Now()})
	if err != nil || !won {
		t.Fatalf("lead: %t, %v", won, err)
	}
	in := registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", OverlapPolicy: schedule.OverlapAllow,
	}}
	if _, err := r.registrar.Upsert(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return r
}

// open is a client of this test's Redis.
func (r *rig) open() *redis.Client {
	client, err := launchqueue.Open(r.url)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = client.Close() })
	return client
}

// claim asks for n runs, and claims them.
func (r *rig) claim(n int) []schedule.Launch {
	r.Helper()
	for i := range n {
		if _, err := r.registrar.Trigger(r.Context(), registrar.TriggerInput{ScheduleID: "s", RequestID: fmt.Sprintf("%s-%d", rnd(), i)}); err != nil {
			r.Fatal(err)
		}
	}
	result, err := storetest.ClaimOnce(r.Context(), r.store, r.term, r.store.Now(), storetest.Times{
		Grace: time.Minute, ClaimAhead: 950 * time.Millisecond, Lease: claimLease, RetryFor: time.Hour,
	})
	if err != nil || len(result.Launches) != n {
		r.Fatalf("claimed %d runs, want %d: %v", len(result.Launches), n, err)
	}
	return result.Launches
}

// again claims what is to be sent again, as soon as there is something.
func (r *rig) again(n int) []schedule.Launch {
	r.Helper()
	var launches []schedule.Launch
	r.eventually("runs are sent again", func() error {
		some, err := storetest.ReclaimOnce(r.Context(), r.store, r.term, r.store.Now(), claimLease)
		if launches = append(launches, some...); err != nil || len(launches) >= n {
			return err
		}
		return fmt.Errorf("%d runs, want %d", len(launches), n)
	})
	return launches
}

// claimLease is as short as a test likes it.
const claimLease = 1500 * time.Millisecond

// publish puts launches into the queue, all at once.
func (r *rig) publish(launches ...schedule.Launch) {
	r.Helper()
	reqs := make([]schedule.StartRequest, len(launches))
	for i := range launches {
		reqs[i] = launches[i].StartRequest()
	}
	r.publisher.StartAll(r.Context(), reqs, func(_ int, reply schedule.StartReply, err error) {
		if err != nil || !reply.Queued {
			r.Errorf("publish: %+v, %v", reply, err)
		}
	})
}

// consumer is one process that takes runs out of the queue.
type consumer struct {
	redis  *redis.Client
	stop   context.CancelFunc
	ended  chan struct{}
	mu     sync.Mutex
	called int
	ends   map[schedule.Status]int
}

func (c *consumer) RunLaunched(*schedule.Run, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called++
}

func (c *consumer) RunEnded(to schedule.Status, _ schedule.Reason, _ bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[to]++
}

func (c *consumer) launched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.called
}

// consume starts a consumer with a launcher of its own.
func (r *rig) consume(maxLaunches int) *consumer {
	r.Helper()
	return r.consumeWith(r.launcher(), maxLaunches)
}

func (r *rig) launcher() *launcher.Launcher {
	return launcher.New(launcher.Options{
		Store: r.store, Workflows: workflow.None{}, Executor: r.executor, Now: r.store.Now, Logger: quiet,
		Config: launcher.Config{Feedback: true, CallTimeout: 5 * time.Second},
	})
}

func (r *rig) consumeWith(l launchqueue.Launcher, maxLaunches int) *consumer {
	r.Helper()
	return r.run(launchqueue.Options{Redis: r.open(), Launcher: l, MaxLaunches: maxLaunches, Logger: quiet})
}

// run runs a consumer until the test ends.
func (r *rig) run(o launchqueue.Options) *consumer {
	r.Helper()
	ctx, stop := context.WithCancel(r.Context())
	c := &consumer{redis: o.Redis, stop: stop, ended: make(chan struct{}), ends: make(map[schedule.Status]int)}
	o.Store, o.Now, o.Observer = r.store, r.store.Now, c
	taker := launchqueue.New(o)
	go func() {
		defer close(c.ended)
		if err := taker.Run(ctx); err != nil {
			r.Errorf("the consumer ended with %v", err)
		}
	}()
	r.Cleanup(func() { stop(); <-c.ended })
	return c
}

// settled waits until every run has the status.
func (r *rig) settled(launches []schedule.Launch, status schedule.Status) {
	r.Helper()
	r.eventually("every run is "+string(status), func() error {
		for i := range launches {
			run, err := r.store.GetRun(r.Context(), launches[i].Run.Key)
			if err != nil {
				return err
			}
			if run.Status != status {
				return fmt.Errorf("run %d of %d is %s(%s)", i+1, len(launches), run.Status, run.Reason)
			}
		}
		return nil
	})
}

// once demands that each run had one effect.
func (r *rig) once(launches []schedule.Launch) {
	r.Helper()
	for i := range launches {
		if n := r.executor.Effects.Of(launches[i].Run.Key); n != 1 {
			r.Errorf("run %s had %d effects, want 1", launches[i].Run.Key, n)
		}
	}
}

// empty waits until nothing is in any stream.
func (r *rig) empty() {
	r.Helper()
	r.eventually("the queue is empty", func() error {
		for _, stream := range []string{"carillon:launches", "carillon:catchup", "carillon:cancels"} {
			n, err := r.redis.XLen(r.Context(), stream).Result()
			if err != nil {
				return err
			}
			if n > 0 {
				return fmt.Errorf("%s holds %d entries", stream, n)
			}
		}
		return nil
	})
}

// eventually calls check until it answers nil.
func (r *rig) eventually(what string, check func() error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Fatalf("not in time: %s: %v", what, errors.Join(err, ctx.Err()))
		}
	}
}
