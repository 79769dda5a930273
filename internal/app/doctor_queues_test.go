package app_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// Launchers are not at fault when a limit keeps all runs of a queue: in an ordered limit a retry
// keeps its key for as long as it waits itself.
func TestTheDoctorNamesTheLimitThatAQueueWaitsFor(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	r := registrar.New(registrar.Options{
		Schedules: store, Runs: store, Grants: store, Queues: store, Entries: store, Limits: store, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(-10*time.Minute - 100*time.Millisecond) },
	})
	most := func(n uint32) *uint32 { return &n }
	if _, err := r.UpsertLimit(t.Context(), registrar.LimitInput{LimitDefinition: schedule.LimitDefinition{LimitID: "account", UserID: "ada", Keyed: true, Ordered: true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.UpsertQueue(t.Context(), registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ada", MaxInFlight: 1}}); err != nil {
		t.Fatal(err)
	}
	done, err := r.Enqueue(t.Context(), registrar.EnqueueInput{QueueID: "q", UserID: "ada", Runs: []registrar.QueuedInput{{WorkflowID: "w", Version: 1, Limits: []string{"account=4711"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "queues"), "fail 1 run waits in queue q, the first for 10m0s, and none is in flight"; got != want {
		t.Errorf("without a launcher: %q, want %q", got, want)
	}
	if _, err := r.SetLimitKey(t.Context(), registrar.LimitKeyInput{LimitID: "account", LimitKey: schedule.LimitKey{Key: "4711", MaxInFlight: most(0)}}); err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "queues"), "warn 1 run waits in queue q, the first for 10m0s: run "+done.Keys[0].String()[:20]+" waits for limit account=4711"; got != want {
		t.Errorf("behind a limit: %q, want %q", got, want)
	}
}

func TestTheDoctorCountsOneRunAsOne(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	r := registrar.New(registrar.Options{
		Schedules: store, Runs: store, Grants: store, Queues: store, Entries: store, Limits: store, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(-10*time.Minute - 100*time.Millisecond) },
	})
	if _, err := r.UpsertQueue(t.Context(), registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ada", MaxInFlight: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Enqueue(t.Context(), registrar.EnqueueInput{QueueID: "q", UserID: "ada", Runs: []registrar.QueuedInput{{WorkflowID: "w", Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PauseQueue(t.Context(), registrar.PauseQueueInput{QueueID: "q"}); err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "queues"), "warn queue q is paused, and 1 run waits, the first for 10m0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDoctorNamesBrokenPromisesOfQueues(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	r := registrar.New(registrar.Options{
		Schedules: store, Runs: store, Grants: store, Queues: store, Entries: store, Limits: store, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(-time.Minute - 100*time.Millisecond) },
	})
	promise := func(ms uint32) {
		in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ada", MaxInFlight: 1, Expect: schedule.QueueExpect{WaitWithinMS: ms}}}
		if _, err := r.UpsertQueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	promise(3_600_000)
	if _, err := r.Enqueue(t.Context(), registrar.EnqueueInput{QueueID: "q", UserID: "ada", Runs: []registrar.QueuedInput{{WorkflowID: "w", Version: 1}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "queues"), "ok 1, with 1 waiting run"; got != want {
		t.Errorf("kept: %q, want %q", got, want)
	}
	promise(30_000)
	if got, want := finding(t, cfg, "queues"), "warn queue q breaks a promise, wait_within_ms: a run has waited for 1m, promised are at most 30s"; got != want {
		t.Errorf("broken: %q, want %q", got, want)
	}
}
