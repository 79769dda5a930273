package simulate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

// A scenario takes some tenths of a second: unless asked otherwise, a few.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("20"); err != nil {
			panic(err)
		}
	}
	leaks.Main(m)
}

var mute = slog.New(slog.DiscardHandler)

// real is the product itself in a synctest bubble: registrar, launcher and worker
// over a SQLite file, with an executor that takes as long as a scenario assumes.
type real struct {
	t         testing.TB
	path      string
	store     *sqlite.Store
	registrar *registrar.Registrar
	config    worker.Config
	runs      *assumed
	processes int
	waited    sync.Map // the keys that the worker ever let wait
}

func newReal(t testing.TB, config worker.Config) *real {
	t.Helper()
	r := &real{t: t, path: migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), config: config}
	store, err := sqlite.Open(t.Context(), "sqlite:"+r.path, sqlite.Options{Logger: mute, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.store = store
	r.registrar = registrar.New(registrar.Options{
		Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Now: store.Now, Logger: mute, Config: registrar.Config{CanCancel: true},
		Simulator: simulate.New(config),
	})
	r.runs = &assumed{real: r, of: make(map[string]registrar.AssumedRun), open: make(map[schedule.Key]context.CancelFunc)}
	return r
}

func (r *real) close() {
	r.runs.cut()
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

// process is one start of a worker. Once it is dead nothing that it still does
// reaches the ledger or the executor.
type process struct {
	*sqlite.Store
	real *real
	dead atomic.Bool
	end  context.CancelFunc
	done sync.WaitGroup
}

var errDead = errors.New("the process is dead")

func (r *real) start() *process {
	p := &process{Store: r.store, real: r}
	r.processes++
	holder := fmt.Sprint("worker-", r.processes)
	launch := launcher.New(launcher.Options{
		Store: p, Workflows: workflow.None{}, Executor: mortal{p, r.runs}, Now: r.store.Now, Logger: mute, Config: launcher.Config{Feedback: true},
	})
	elector := leader.New(leader.Options{
		Lease: p, Lock: solo.New(r.path+".lock", mute), Shards: 1, Holder: holder, Now: r.store.Now, Logger: mute,
	})
	w := worker.New(worker.Options{
		ID: holder, Plans: p, Fires: p, Launcher: launch, Electors: []worker.Elector{elector}, Waker: r.store, Now: r.store.Now, Logger: mute, Config: r.config,
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	p.end = cancel
	p.done.Go(func() {
		if err := w.Run(ctx); err != nil && !p.dead.Load() {
			r.t.Errorf("worker ended with %v", err)
		}
	})
	return p
}

// die is a kill: the goroutines of the process go on, but into the void.
func (p *process) die() {
	p.dead.Store(true)
	p.end()
}

func (p *process) stop() {
	p.end()
	p.done.Wait()
}

func alive[T any](p *process, call func() (T, error)) (T, error) {
	if p.dead.Load() {
		var none T
		return none, errDead
	}
	return call()
}

func (p *process) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	return alive(p, func() (schedule.PlanResult, error) { return p.Store.Plan(ctx, req, decide) })
}

func (p *process) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	return alive(p, func() (ledger.Claimed, error) {
		claimed, err := p.Store.Claim(ctx, req, claim)
		for _, w := range claimed.Verdicts.Waits {
			if err == nil {
				p.real.waited.Store(w.Key, true)
			}
		}
		return claimed, err
	})
}

func (p *process) Settle(ctx context.Context, term schedule.Term, now time.Time, s []schedule.Settlement) ([]schedule.Moved, error) {
	return alive(p, func() ([]schedule.Moved, error) { return p.Store.Settle(ctx, term, now, s) })
}

func (p *process) Sweep(ctx context.Context, req schedule.SweepRequest) (ledger.Swept, error) {
	return alive(p, func() (ledger.Swept, error) { return p.Store.Sweep(ctx, req) })
}

func (p *process) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	return alive(p, func() ([]schedule.BeginResult, error) { return p.Store.Begin(ctx, reqs, now) })
}

func (p *process) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	return alive(p, func() ([]schedule.Finished, error) { return p.Store.Finish(ctx, done, now) })
}

func (p *process) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	_, err := alive(p, func() (struct{}, error) { return struct{}{}, p.Store.Release(ctx, releases, now) })
	return err
}

func (p *process) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	_, err := alive(p, func() (struct{}, error) { return struct{}{}, p.Store.Resign(ctx, term, r) })
	return err
}

// mortal is the executor as a process reaches it.
type mortal struct {
	p *process
	launcher.Executor
}

func (m mortal) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	return alive(m.p, func() (schedule.Outcome, error) { return m.Executor.Run(ctx, call) })
}

// assumed is an executor whose runs go as a scenario assumes.
type assumed struct {
	*real
	of      map[string]registrar.AssumedRun
	seed    uint32
	reports sync.WaitGroup

	mu   sync.Mutex
	open map[schedule.Key]context.CancelFunc
}

func (a *assumed) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	if now := time.Now(); now.Before(call.FireAt) {
		a.t.Errorf("the executor was called %s before fire_at of %s", call.FireAt.Sub(now), call.ScheduleID)
	}
	took, fails := simulate.Assumed(a.of[call.ScheduleID], a.seed, call.Key)
	status := schedule.StatusSuccess
	if fails {
		status = schedule.StatusFailed
	}
	ctx, cancel := context.WithTimeout(context.Background(), took)
	a.mu.Lock()
	a.open[call.Key] = cancel
	a.mu.Unlock()
	a.reports.Go(func() {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return // cancelled
		}
		if err := a.registrar.ReportOutcome(context.Background(), schedule.ExecutorReport{Key: call.Key, Status: status, ErrorCode: "simulated"}); err != nil {
			a.t.Errorf("report: %v", err)
		}
	})
	return schedule.Outcome{Status: schedule.StatusEnqueued}, nil
}

func (a *assumed) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel := a.open[ref.Key]; cancel != nil {
		cancel()
	}
	return nil
}

func (a *assumed) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, schedule.ErrNotFound
}

// cut ends all runs unheard.
func (a *assumed) cut() {
	a.mu.Lock()
	for _, cancel := range a.open {
		cancel()
	}
	a.mu.Unlock()
	a.reports.Wait()
}
