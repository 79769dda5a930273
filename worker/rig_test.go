package worker_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

// rig is one machine in a synctest bubble: a real SQLite file, the registrar,
// the launcher and a worker over them, with an executor that answers as told.
type rig struct {
	*testing.T
	path      string
	store     *sqlite.Store
	registrar *registrar.Registrar
	executor  *executor
	config    worker.Config
	launcher  launcher.Config
	began     time.Time
	options   sqlite.Options
	log       *slog.Logger                                         // the worker's
	over      func(*sqlite.Store) ledger                           // wraps the store
	through   func(worker.Launcher, *sqlite.Store) worker.Launcher // wraps the launcher
	reach     func(context.Context) error                          // of the next worker that is started
	waker     worker.Waker                                         // nil: the store
	worker    *worker.Worker                                       // the last that was started
	heart     *heartbeat.Heart
	metrics   *worker.Metrics
	shards    int
}

// ledger is what a worker and its elector need of a store.
type ledger interface {
	worker.PlanStore
	worker.FireStore
	worker.BackfillStore
	leader.LeaseStore
	leader.Roster
	heartbeat.Store
}

// inBubble runs test on a rig of its own in virtual time, with bounds that are
// short: each virtual second costs some real milliseconds.
func inBubble(t *testing.T, test func(*rig), prepare ...func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			T: t, path: filepath.Join(t.TempDir(), "carillon.db"), began: time.Now(), log: quiet, shards: 1,
			over:     func(s *sqlite.Store) ledger { return s },
			through:  func(l worker.Launcher, _ *sqlite.Store) worker.Launcher { return l },
			launcher: launcher.Config{Feedback: true, CallTimeout: 2 * time.Second},
			config: worker.Config{
				Lookahead: 10 * time.Second, ClaimLease: 5 * time.Second, RetryFor: 20 * time.Second, CancelWait: 4 * time.Second,
			},
		}
		r.executor = &executor{T: t, answer: success}
		r.options = sqlite.Options{Logger: quiet, MaxConns: 1}
		for _, p := range prepare {
			p(r)
		}
		migrated.SQLite(t, r.path)
		r.store = r.open()
		t.Cleanup(func() { r.close(r.store) })
		r.registrar = registrar.New(registrar.Options{
			Schedules: r.store, Runs: r.store, Backfills: r.store, Workflows: r.store, Shares: r.store, Grants: r.store, Events: r.store, Now: r.store.Now, Logger: quiet,
			Config: registrar.Config{CanCancel: true},
		})
		r.deploy("w", 1)
		test(r)
		r.executor.reports.Wait()
	})
}

var quiet = slog.New(slog.DiscardHandler)

func (r *rig) open() *sqlite.Store {
	r.Helper()
	store, err := sqlite.Open(r.Context(), "sqlite:"+r.path, r.options)
	if err != nil {
		r.Fatal(err)
	}
	return store
}

func (r *rig) close(store *sqlite.Store) {
	if err := store.Close(); err != nil {
		r.Error(err)
	}
}

// start runs a worker as a process would; the function it returns ends it and
// waits for it.
func (r *rig) start() (stop func()) { return r.startOn(r.store) }

// startOn runs a worker over a store of its own on the rig's file.
func (r *rig) startOn(store *sqlite.Store) (stop func()) {
	launch := launcher.New(launcher.Options{
		Store: store, Workflows: workflow.NewOwned(workflow.Options{Versions: store, AccessStore: store}), Executor: r.executor, Now: store.Now, Logger: quiet, Config: r.launcher,
	})
	over, holder := r.over(store), rand.Text()
	electors := make([]*leader.Elector, r.shards)
	all := make([]worker.Elector, r.shards)
	var self *worker.Worker
	balancer := leader.NewBalancer(leader.BalancerOptions{
		Store: over, Holder: holder, Shards: r.shards, Now: store.Now, Logger: quiet,
		Resign: func(shard int, why schedule.TermEnd) { electors[shard].ResignBecause(why) }, Unhealthy: func() string { return self.Unhealthy() },
	})
	for shard := range electors {
		electors[shard] = leader.New(leader.Options{
			Lease: over, Lock: solo.New(fmt.Sprint(r.path, ".lock.", shard), quiet), Shard: shard, Shards: r.shards, Holder: holder,
			Now: store.Now, Logger: quiet, Defer: balancer.Defer(shard),
		})
		all[shard] = electors[shard]
	}
	self = worker.New(worker.Options{
		ID: holder, Host: "box:" + holder[:4], Reach: r.reach, Plans: over, Fires: over, Backfills: over, Launcher: r.through(launch, store), Electors: all, Balancer: balancer, Waker: r.wakerOr(store),
		Now: store.Now, Logger: r.log, Metrics: r.metrics, Config: r.config,
	})
	r.worker = self
	heart := heartbeat.New(heartbeat.Options{
		Store: over, Unhealthy: self.Unhealthy, Changed: self.HealthChanged(), Logger: r.log,
		Self: schedule.Instance{ID: holder, Host: "box:" + holder[:4], Roles: []string{"worker"}, StartedAt: store.Now()},
	})
	r.heart = heart
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	var beating sync.WaitGroup
	beating.Go(func() { heart.Run(ctx) }) // not r.heart: another start may replace it
	go func() { done <- self.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		defer beating.Wait()
		if err := <-done; err != nil {
			r.Errorf("worker ended with %v", err)
		}
	})
	r.Cleanup(stop) // after r.Fatal: a bubble that ends before its goroutines panics
	return stop
}

func (r *rig) wakerOr(store *sqlite.Store) worker.Waker {
	if r.waker != nil {
		return r.waker
	}
	return store
}

// work runs a worker for so long.
func (r *rig) work(d time.Duration) {
	stop := r.start()
	time.Sleep(d)
	stop()
}

// at is an instant so long after the bubble began.
func (r *rig) at(d time.Duration) time.Time { return r.began.Add(d).UTC() }

// until sleeps to such an instant.
func (r *rig) until(d time.Duration) { time.Sleep(time.Until(r.at(d))) }

func (r *rig) deploy(workflowID string, version int32) {
	r.Helper()
	if _, err := r.registrar.PutWorkflow(r.Context(), registrar.WorkflowInput{WorkflowID: workflowID, Version: version, DAG: json.RawMessage(`{"steps":[]}`)}); err != nil {
		r.Fatal(err)
	}
}

// every registers a schedule of owner u and workflow w with a slot every step;
// more says what else it is.
func (r *rig) every(id string, step time.Duration, more ...func(*registrar.UpsertInput)) *schedule.Schedule {
	r.Helper()
	in := registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: id, WorkflowID: "w", Version: 1, UserID: "u", IntervalMS: uint32(step.Milliseconds()),
	}}
	for _, change := range more {
		change(&in)
	}
	result, err := r.registrar.Upsert(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	return result.Schedule
}

// byHand makes a schedule that is only started by hand.
func byHand(in *registrar.UpsertInput) { in.Definition.IntervalMS = 0 }

func overlap(p schedule.OverlapPolicy) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = p }
}

func catchup(p schedule.CatchupPolicy) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.CatchupPolicy = p }
}

func runTimeout(d time.Duration) func(*registrar.UpsertInput) {
	ms := uint32(d.Milliseconds())
	return func(in *registrar.UpsertInput) { in.RunTimeoutMS = &ms }
}

func (r *rig) trigger(scheduleID, requestID string) schedule.Run {
	r.Helper()
	run, err := r.registrar.Trigger(r.Context(), registrar.TriggerInput{ScheduleID: scheduleID, RequestID: requestID})
	if err != nil {
		r.Fatal(err)
	}
	return run
}

func (r *rig) pause(scheduleID string, until time.Time) {
	r.Helper()
	if _, err := r.registrar.Pause(r.Context(), registrar.PauseInput{ScheduleID: scheduleID, Until: until}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) report(key schedule.Key, status schedule.Status) {
	r.Helper()
	if err := r.registrar.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: key, Status: status}); err != nil {
		r.Errorf("report %s: %v", status, err)
	}
}

// runs are the schedule's rows, oldest first, without mere plans.
func (r *rig) runs(scheduleID string) []schedule.Run {
	r.Helper()
	var all []schedule.Run
	f := schedule.RunFilter{ScheduleID: scheduleID, Limit: schedule.MaxPageSize}
	for {
		page, err := r.registrar.ListRuns(r.Context(), f)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < f.Limit {
			slices.Reverse(all)
			return all
		}
		f.AfterRunAt, f.AfterKey = page[len(page)-1].RunAt, page[len(page)-1].Key
	}
}

func (r *rig) run(key schedule.Key) schedule.Run {
	r.Helper()
	run, err := r.registrar.GetRun(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return *run
}

func (r *rig) slot(scheduleID string, at time.Duration) schedule.Run {
	r.Helper()
	return r.run(schedule.SlotKey(scheduleID, r.at(at)))
}

// is holds one slot to its status and reason.
func (r *rig) is(run schedule.Run, status schedule.Status, reason schedule.Reason) {
	r.Helper()
	if run.Status != status || run.Reason != reason {
		r.Errorf("the run of %s at +%s is %s(%s), want %s(%s)", run.ScheduleID, run.RunAt.Sub(r.began), run.Status, run.Reason, status, reason)
	}
}

func (r *rig) events(scheduleID string, kinds ...schedule.EventKind) []schedule.Event {
	r.Helper()
	all, err := r.registrar.Events(r.Context(), scheduleID, 0, schedule.MaxPageSize)
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e schedule.Event) bool { return !slices.Contains(kinds, e.Kind) })
}

// upsertAgain sends a definition that was changed.
func (r *rig) upsertAgain(s *schedule.Schedule) {
	r.Helper()
	jitter, queued, window, timeout := s.JitterMS, s.MaxQueued, s.CatchupWindowMS, s.RunTimeoutMS
	_, err := r.registrar.Upsert(r.Context(), registrar.UpsertInput{
		Definition: s.Definition, JitterMS: &jitter, MaxQueued: &queued, CatchupWindowMS: &window, RunTimeoutMS: &timeout,
	})
	if err != nil {
		r.Fatal(err)
	}
}
