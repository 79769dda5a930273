package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/launchqueue"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/pglock"
	"github.com/carillon/carillon/worker/leader/solo"
)

// rig is a registrar, a worker and a launcher in this process.
type rig struct {
	store     app.Store
	name      string
	registrar *registrar.Registrar
	executor  *nullExecutor
	stop      func() error
	folder    string
}

func newRig(ctx context.Context, url, queueURL string) (*rig, error) {
	folder, err := os.MkdirTemp("", "carillon-herd-")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := app.Config{DatabaseURL: app.Secret(url), DataDir: folder, LookaheadMS: 60_000}
	store, err := app.OpenStore(ctx, cfg, log, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	r := &rig{store: store, name: "sqlite", executor: newNullExecutor(), folder: folder}
	var lock leader.Lock = solo.New(filepath.Join(folder, "lock"), log)
	if cfg.OnPostgres() {
		r.name, lock = "postgres", pglock.New(url, 0)
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.registrar = registrar.New(registrar.Options{Schedules: store, Runs: store, Workflows: store, Grants: store, Now: store.Now, Logger: log})
	if _, err := r.registrar.PutWorkflow(ctx, "herd", 1, json.RawMessage(`{"steps":[]}`)); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if err := r.startWorker(ctx, lock, queueURL, log); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) startWorker(ctx context.Context, lock leader.Lock, queueURL string, log *slog.Logger) error {
	var g errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	r.stop = func() error { cancel(); return g.Wait() }
	here := launcher.New(launcher.Options{
		Store: r.store, Workflows: r.store, Executor: r.executor, Now: r.store.Now, Logger: log,
		Config: launcher.Config{Feedback: true},
	})
	var launch worker.Launcher = here
	if queueURL != "" {
		client, err := launchqueue.Open(queueURL)
		if err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
		launch = launchqueue.NewPublisher(client, nil)
		r.name += ", launch queue"
		consumer := launchqueue.New(launchqueue.Options{Redis: client, Launcher: here, Store: r.store, Now: r.store.Now, Logger: log})
		g.Go(func() error { defer client.Close(); return consumer.Run(ctx) })
	}
	elector := leader.New(leader.Options{Lease: r.store, Lock: lock, Now: r.store.Now, Logger: log})
	w := worker.New(worker.Options{
		ID: elector.Holder(), Plans: r.store, Fires: r.store, Launcher: launch, Electors: []worker.Elector{elector}, Waker: r.store,
		Now: r.store.Now, Logger: log,
	})
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error { app.WatchClock(ctx, r.store, func(time.Duration) {}); return nil })
	return nil
}

func (r *rig) close() error {
	var err error
	if r.stop != nil {
		err = r.stop()
	}
	return errors.Join(err, r.store.Close(), os.RemoveAll(r.folder))
}

// herd registers n schedules for one instant, waits until every run has ended
// and sums up.
func (r *rig) herd(ctx context.Context, round, n int) (result, error) {
	due := time.Now().Add(10*time.Second + time.Duration(n)*2*time.Millisecond).Truncate(time.Second).UTC()
	prefix := fmt.Sprintf("herd-%d-%d-", due.Unix(), round)
	if err := r.register(ctx, prefix, n, due); err != nil {
		return result{}, err
	}
	r.executor.reset()
	settled, open, err := r.awaitAll(ctx, n, due)
	if err != nil {
		return result{}, err
	}
	out := r.executor.sum(due)
	out.Store, out.N, out.Lost = r.name, n, n-out.Lost
	out.Settled, out.Unsettled = millis(settled.Sub(due)), open
	return out, nil
}

func (r *rig) register(ctx context.Context, prefix string, n int, due time.Time) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error {
			_, err := r.registrar.Upsert(ctx, registrar.UpsertInput{Definition: schedule.Definition{
				ScheduleID: fmt.Sprintf("%s%d", prefix, i), WorkflowID: "herd", Version: 1, UserID: "bench", OnceAt: due,
			}})
			return err
		})
	}
	return g.Wait()
}

// awaitAll waits until n runs at due are SUCCESS, at most a minute.
func (r *rig) awaitAll(ctx context.Context, n int, due time.Time) (last time.Time, open int, err error) {
	deadline := due.Add(time.Minute)
	timer := time.NewTimer(time.Until(due.Add(2 * time.Second))) // looking costs the database something too
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return last, n, ctx.Err()
		case <-timer.C:
		}
		done, newest, err := r.succeeded(ctx, due)
		if err != nil {
			return last, n, err
		}
		if done >= n || time.Now().After(deadline) {
			return newest, n - done, nil
		}
		timer.Reset(time.Second)
	}
}

// succeeded counts the SUCCESS runs at due and finds when the last was written.
func (r *rig) succeeded(ctx context.Context, due time.Time) (n int, newest time.Time, err error) {
	f := schedule.RunFilter{
		From: due, To: due.Add(time.Second), Statuses: []schedule.Status{schedule.StatusSuccess},
		Limit: schedule.MaxPageSize,
	}
	for {
		page, err := r.registrar.ListRuns(ctx, f)
		if err != nil {
			return n, newest, err
		}
		for i := range page {
			n++
			if page[i].UpdatedAt.After(newest) {
				newest = page[i].UpdatedAt
			}
		}
		if len(page) < f.Limit {
			return n, newest, nil
		}
		f.AfterRunAt, f.AfterKey = page[len(page)-1].RunAt, page[len(page)-1].Key
	}
}

// nullExecutor answers SUCCESS at once and notes when it was called.
type nullExecutor struct {
	mu   sync.Mutex
	seen map[schedule.Key][]time.Time
}

func newNullExecutor() *nullExecutor {
	return &nullExecutor{seen: make(map[schedule.Key][]time.Time)}
}

func (e *nullExecutor) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.seen)
}

func (e *nullExecutor) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	now := time.Now()
	e.mu.Lock()
	e.seen[call.Key] = append(e.seen[call.Key], now)
	e.mu.Unlock()
	return schedule.Outcome{Status: schedule.StatusSuccess}, nil
}

// Cancel and GetByKey are never asked for here.
func (*nullExecutor) Cancel(context.Context, schedule.CancelRequest) error {
	return launcher.ErrUnsupported
}

func (*nullExecutor) GetByKey(context.Context, schedule.Key) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

// sum is the lateness of the first call of each key; Lost holds how many keys
// were called, for the caller to subtract.
func (e *nullExecutor) sum(due time.Time) result {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out result
	var late []time.Duration
	for _, calls := range e.seen {
		late = append(late, calls[0].Sub(due))
		if calls[0].Before(due) {
			out.Early++
		}
		out.Doubled += len(calls) - 1
	}
	out.Lost = len(late)
	if len(late) == 0 {
		return out
	}
	slices.Sort(late)
	at := func(q float64) float64 { return millis(late[min(len(late)-1, int(q*float64(len(late))))]) }
	out.P50, out.P99, out.Max = at(.5), at(.99), at(1)
	return out
}
