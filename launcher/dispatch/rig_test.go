package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/registrar"
)

// rig is a launcher with a dispatcher in a synctest bubble over a real SQLite file, with an
// executor that answers as told. Its queue is "q", of one slot.
type rig struct {
	*testing.T
	store      *sqlite.Store
	registrar  *registrar.Registrar
	executor   *launchertest.Executor
	queueNo    int32
	entered    int
	calls      int    // MaxCalls; 0: the default
	open       int    // MaxCalls of the launcher; 0: the default
	admitted   func() // called after an admission that has taken runs; nil: nothing
	dispatcher *dispatch.Dispatcher
	stop       context.CancelFunc
	stopped    chan struct{}
}

// inBubble runs test on a rig of its own in virtual time. The dispatcher runs meanwhile.
func inBubble(t *testing.T, test func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{
			T: t, store: store, executor: launchertest.New(),
			registrar: registrar.New(registrar.Options{Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Queues: store, Now: store.Now, Logger: quiet}),
		}
		r.upsert(1)
		in := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "jobs", WorkflowID: "w", Version: 1, UserID: "ana", CronExpr: "0 0 1 1 *"}}
		if _, err := r.registrar.Upsert(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		r.run()
		defer func() {
			r.end()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(r)
	})
}

// run starts a process with the role launcher; end stops it.
func (r *rig) run() {
	quiet := slog.New(slog.DiscardHandler)
	begun := dispatch.NewBegun(r.store)
	l := launcher.New(launcher.Options{
		Store: begun, Workflows: anyWorkflow{}, Executor: r.executor, Now: r.store.Now, Logger: quiet, Config: launcher.Config{Feedback: true, MaxCalls: r.open},
	})
	d := dispatch.New(dispatch.Options{
		Store: admissions{r.store, r.admitted}, Begun: begun, Launcher: l, Now: r.store.Now, Logger: quiet, RetryFor: 10 * time.Minute, CancelWait: 30 * time.Second, MaxCalls: r.calls,
	})
	r.dispatcher = d
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.stopped = stop, make(chan struct{})
	go func() {
		defer close(r.stopped)
		if err := d.Run(ctx); err != nil {
			r.Error(err)
		}
	}()
}

// admissions is a store that tells of admissions.
type admissions struct {
	dispatch.Store
	admitted func()
}

func (a admissions) Admit(ctx context.Context, req schedule.AdmitRequest) (ledger.Dispatched, error) {
	out, err := a.Store.Admit(ctx, req)
	if a.admitted != nil && len(out.Dispatches) > 0 {
		a.admitted()
	}
	return out, err
}

func (r *rig) end() {
	r.stop()
	<-r.stopped
}

// anyWorkflow has every workflow.
type anyWorkflow struct{}

func (anyWorkflow) LoadDAG(context.Context, string, string, int32) ([]byte, error) {
	return []byte(`{}`), nil
}

func (r *rig) upsert(maxInFlight uint32, edits ...func(*schedule.QueueDefinition)) {
	r.Helper()
	in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ana", MaxInFlight: maxInFlight}}
	for _, edit := range edits {
		edit(&in.QueueDefinition)
	}
	q, err := r.registrar.UpsertQueue(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	if q.No == 0 {
		if q, err = r.store.GetQueue(r.Context(), "q"); err != nil {
			r.Fatal(err)
		}
	}
	r.queueNo = q.No
}

// enqueue puts runs into the queue, one request each, and returns their keys.
func (r *rig) enqueue(n int, edit func(i int, run *schedule.Run, req *schedule.EnqueueRequest)) (keys []schedule.Key) {
	r.Helper()
	for i := range n {
		now := r.store.Now().UTC().Truncate(time.Microsecond)
		run := schedule.Run{
			Key: schedule.ManualKey("job", string(rune('a'+r.entered))), ScheduleID: "jobs", Revision: 1, RunAt: now, FireAt: now, Trigger: schedule.TriggerJob,
			OverlapKey: "ana/jobs", OverlapPolicy: schedule.OverlapAllow, Attempt: 1, MaxAttempts: 1, Input: json.RawMessage(`{}`),
			Queue: schedule.QueuePlace{No: r.queueNo, State: schedule.QueueWaiting, EnqueuedAt: now},
		}
		r.entered++
		req := schedule.EnqueueRequest{QueueID: "q", UserID: "ana"}
		if edit != nil {
			edit(i, &run, &req)
		}
		run.Queue.Priority = schedule.QueuePriority(run.Priority)
		if run.FireAt.After(now) {
			run.Queue.State = schedule.QueueDelayed
		}
		err := r.store.Enqueue(r.Context(), req, func(schedule.EnqueueFacts) (schedule.Enqueue, error) {
			return schedule.Enqueue{Runs: []schedule.Run{run}, Now: now}, nil
		})
		if err != nil {
			r.Fatal(err)
		}
		keys = append(keys, run.Key)
	}
	return keys
}

// settle lets virtual time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) get(key schedule.Key) *schedule.Run {
	r.Helper()
	run, err := r.store.GetRun(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return run
}

// called are the keys of the calls in their order.
func (r *rig) called() (keys []schedule.Key) {
	for _, call := range r.executor.Calls() {
		keys = append(keys, call.Key)
	}
	return keys
}

func (r *rig) wantCalls(what string, want ...schedule.Key) {
	r.Helper()
	if got := r.called(); !slices.Equal(got, want) {
		r.Errorf("%s: called %s, want %s", what, short(got), short(want))
	}
}

func short(keys []schedule.Key) (out []string) {
	for _, k := range keys {
		out = append(out, k.String()[:4])
	}
	return out
}

func (r *rig) wantStatus(key schedule.Key, status schedule.Status, state schedule.QueueState) *schedule.Run {
	r.Helper()
	run := r.get(key)
	if run.Status != status || run.Queue.State != state || run.Queue.No != r.queueNo {
		r.Errorf("run %s is %s(%s) %q of queue %d, want %s %q", key.String()[:4], run.Status, run.Reason, run.Queue.State, run.Queue.No, status, state)
	}
	return run
}
