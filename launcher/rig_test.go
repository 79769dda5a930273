package launcher_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// rig is a launcher in a synctest bubble over a real SQLite file, with an
// executor that answers as told.
type rig struct {
	*testing.T
	store     *sqlite.Store
	registrar *registrar.Registrar
	workflows *workflows
	executor  *executor
	launcher  *launcher.Launcher
}

// inBubble runs test on a rig of its own in virtual time.
func inBubble(t *testing.T, config launcher.Config, test func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		r := &rig{
			T: t, store: store, workflows: &workflows{}, executor: &executor{run: accept},
			registrar: registrar.New(registrar.Options{Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Now: store.Now, Logger: quiet}),
		}
		r.launcher = launcher.New(launcher.Options{
			Store: store, Workflows: r.workflows, Executor: r.executor, Now: store.Now, Logger: quiet, Config: config,
		})
		test(r)
	})
}

// request asks for a run of schedule "s" at now.
func (r *rig) request() schedule.StartRequest {
	at := r.store.Now().Truncate(time.Second)
	return schedule.StartRequest{
		Key: schedule.SlotKey("s", at), ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u",
		ScheduledFor: at, FireAt: at, Trigger: schedule.TriggerSchedule, Attempt: 1, Input: json.RawMessage(`{"n":1}`),
	}
}

func (r *rig) start(req schedule.StartRequest) (schedule.StartReply, error) {
	return r.launcher.Start(r.Context(), req)
}

// must is start where only a definite outcome will do.
func (r *rig) must(req schedule.StartRequest) schedule.StartReply {
	r.Helper()
	reply, err := r.start(req)
	if err != nil {
		r.Fatalf("start: %v", err)
	}
	return reply
}

func (r *rig) schedule() {
	r.Helper()
	in := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "0 0 * * *"}}
	if _, err := r.registrar.Upsert(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) pause() {
	r.Helper()
	if _, err := r.registrar.Pause(r.Context(), registrar.PauseInput{ScheduleID: "s"}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) resume() {
	r.Helper()
	if _, err := r.registrar.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "s"}); err != nil {
		r.Fatal(err)
	}
}

// isOutcome compares what a reply says with what it should.
func (r *rig) isOutcome(got schedule.StartReply, status schedule.Status, reason schedule.Reason) {
	r.Helper()
	if got.Outcome.Status != status || got.Outcome.Reason != reason {
		r.Errorf("the outcome is %s(%s), want %s(%s)", got.Outcome.Status, got.Outcome.Reason, status, reason)
	}
}

func (r *rig) wantCalls(runs, asks int) {
	r.Helper()
	if len(r.executor.runs()) != runs || r.executor.asked() != asks {
		r.Errorf("the executor was called %d times and asked %d times, want %d and %d", len(r.executor.runs()), r.executor.asked(), runs, asks)
	}
}

// workflows answers a small DAG, the first time after a while if told so, as a
// store does that has a cache.
type workflows struct {
	mu   sync.Mutex
	took time.Duration
	err  error
	load func(ctx context.Context) ([]byte, error) // instead, if there is one
}

func (w *workflows) LoadDAG(ctx context.Context, _, _ string, _ int32) ([]byte, error) {
	if w.load != nil {
		return w.load(ctx)
	}
	w.mu.Lock()
	timer := time.NewTimer(w.took)
	w.took = 0
	w.mu.Unlock()
	defer timer.Stop()
	select {
	case <-timer.C:
		return []byte(`{"steps":[]}`), w.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// executor answers as told and counts. A nil ask or cancel is unsupported.
type executor struct {
	run    func(ctx context.Context, call launcher.Call) (schedule.Outcome, error)
	ask    func(key schedule.Key) (schedule.Outcome, error)
	cancel func(ref schedule.CancelRequest) error

	mu   sync.Mutex
	seen []called
	asks int
}

// called is one call with the instant at which it came.
type called struct {
	launcher.Call
	at time.Time
}

func accept(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "run-" + call.Key.String()[:8]}, nil
}

func (e *executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	e.mu.Lock()
	e.seen = append(e.seen, called{call, time.Now()})
	run := e.run
	e.mu.Unlock()
	return run(ctx, call)
}

// will changes what the next call is answered, also while one is open.
func (e *executor) will(run func(context.Context, launcher.Call) (schedule.Outcome, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run = run
}

func (e *executor) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	if e.cancel == nil {
		return launcher.ErrUnsupported
	}
	return e.cancel(ref)
}

func (e *executor) GetByKey(_ context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	e.mu.Lock()
	e.asks++
	e.mu.Unlock()
	if e.ask == nil {
		return schedule.Outcome{}, launcher.ErrUnsupported
	}
	return e.ask(ref.Key)
}

func (e *executor) runs() []called {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]called(nil), e.seen...)
}

func (e *executor) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asks
}
