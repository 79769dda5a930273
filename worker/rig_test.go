package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

// rig is one machine in a synctest bubble: a real SQLite file, the registrar,
// the launcher and a worker over them, with an executor that answers as told.
type rig struct {
	t         *testing.T
	path      string
	store     *sqlite.Store
	registrar *registrar.Registrar
	executor  *executor
	config    worker.Config
}

func newRig(t *testing.T, path string) *rig {
	t.Helper()
	store, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &rig{
		t: t, path: path, store: store, executor: &executor{answer: success},
		registrar: registrar.New(registrar.Options{
			Schedules: store, Runs: store, Workflows: store, Now: store.Now, Logger: slog.New(slog.DiscardHandler),
			Config: registrar.Config{CanCancel: true},
		}),
	}
}

func (r *rig) close() {
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

// start runs a worker as a process would; the function it returns ends it and
// waits for it.
func (r *rig) start() (stop func()) {
	log := slog.New(slog.DiscardHandler)
	launch := launcher.New(launcher.Options{
		Store: r.store, Workflows: r.store, Executor: r.executor, Now: r.store.Now, Logger: log,
		Config: launcher.Config{Feedback: true},
	})
	elector := leader.New(leader.Options{Lease: r.store, Lock: solo.New(r.path + ".lock"), Now: r.store.Now, Logger: log})
	w := worker.New(worker.Options{
		ID: elector.Holder(), Plans: r.store, Fires: r.store, Launcher: launch, Elector: elector, Waker: r.store,
		Now: r.store.Now, Logger: log, Config: r.config,
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("worker ended with %v", err)
		}
	}
}

func (r *rig) deploy(workflowID string, version int32) {
	r.t.Helper()
	if _, err := r.registrar.PutWorkflow(r.t.Context(), workflowID, version, json.RawMessage(`{"steps":[]}`)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) upsert(in registrar.UpsertInput) registrar.UpsertResult {
	r.t.Helper()
	result, err := r.registrar.Upsert(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// runs are the schedule's rows, oldest first, without mere plans.
func (r *rig) runs(scheduleID string) []schedule.Run {
	r.t.Helper()
	var all []schedule.Run
	f := schedule.RunFilter{ScheduleID: scheduleID, Limit: schedule.MaxPageSize}
	for {
		page, err := r.registrar.ListRuns(r.t.Context(), f)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, run := range page {
			all = append([]schedule.Run{run}, all...)
		}
		if len(page) < f.Limit {
			return all
		}
		f.AfterRunAt, f.AfterKey = page[len(page)-1].RunAt, page[len(page)-1].Key
	}
}

// executor answers as told and remembers every call.
type executor struct {
	mu     sync.Mutex
	seen   []launcher.Call
	answer func(call launcher.Call) (schedule.Outcome, error)
	took   time.Duration
}

func success(call launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r-" + call.Key.String()[:8]}, nil
}

func (e *executor) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	e.mu.Lock()
	e.seen = append(e.seen, call)
	answer := e.answer
	e.mu.Unlock()
	time.Sleep(e.took)
	return answer(call)
}

func (e *executor) Cancel(context.Context, schedule.CancelRequest) error { return nil }

func (e *executor) GetByKey(context.Context, schedule.Key) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

func (e *executor) calls() []launcher.Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]launcher.Call(nil), e.seen...)
}
