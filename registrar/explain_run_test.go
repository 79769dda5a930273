package registrar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

func blocksOf(a explain.RunAnswer) (blocks []ledger.BlockedBy) {
	for _, b := range a.BlockedBy {
		blocks = append(blocks, b.What)
	}
	return blocks
}

func TestAWaitingRunIsExplained(t *testing.T) {
	onQueues(t, func(l *line) {
		first, second := l.one(), l.one(withPriority(-3))
		want := func(what string, key schedule.Key, position int, sentence string, blocks ...ledger.BlockedBy) {
			l.Helper()
			a, err := l.ExplainRun(l.Context(), key)
			if err != nil {
				l.Fatal(err)
			}
			text := strings.Join(a.Lines, "\n")
			if a.Position != position || !slices.Equal(blocksOf(a), blocks) || !strings.Contains(text, sentence) {
				l.Errorf("%s: position %d, blocked by %v:\n%s", what, a.Position, blocksOf(a), text)
			}
		}
		want("the next", first, 1, "Nothing blocks it")
		want("of a lower priority", second, 1, "1 run of higher priority starts first", ledger.BlockedByBefore)
		if _, err := l.PauseQueue(l.Context(), registrar.PauseQueueInput{QueueID: "gpu", Note: "repair", Until: noon.Add(time.Hour), Actor: "bob"}); err != nil {
			l.Fatal(err)
		}
		want("in a paused queue", first, 1, `paused by bob, note "repair", until`, ledger.BlockedByPause)
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: first}); err != nil {
			l.Fatal(err)
		}
		want("cancelled", first, 0, "was cancelled.")
	})
}

// An owner learns that a shared queue is full, but not by which runs of others.
func TestAnExplanationNamesOnlyRunsOfTheCaller(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Options{})
	r := registrar.New(registrar.Options{
		Schedules: m, Runs: m, Grants: m, Queues: m, Entries: m, Limits: m, Now: func() time.Time { return noon }, Logger: quiet,
	})
	q := gpuQueue()
	q.Shared, q.MaxInFlight = true, 2
	if _, err := r.UpsertQueue(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	enqueue := func(owner string) schedule.Key {
		done, err := r.Enqueue(t.Context(), registrar.EnqueueInput{QueueID: "gpu", UserID: owner, Runs: []registrar.QueuedInput{job()}})
		if err != nil {
			t.Fatal(err)
		}
		return done.Keys[0]
	}
	own, foreign := enqueue("ada"), enqueue("eve")
	queue, err := r.GetQueue(t.Context(), "gpu")
	if err != nil {
		t.Fatal(err)
	}
	if done, err := m.Admit(t.Context(), schedule.AdmitRequest{QueueNo: queue.No, Now: noon, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Minute }, RetryFor: time.Hour}); err != nil || len(done.Dispatches) != 2 {
		t.Fatalf("admitted %d, %v", len(done.Dispatches), err)
	}
	waiting := enqueue("ada")
	ada := auth.NewContext(t.Context(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
	a, err := r.ExplainRun(ada, waiting)
	if err != nil {
		t.Fatal(err)
	}
	if want := []schedule.Key{own}; len(a.BlockedBy) != 1 || a.BlockedBy[0].What != ledger.BlockedByFull || a.BlockedBy[0].Used != 2 || !slices.Equal(a.BlockedBy[0].UsedBy, want) {
		t.Errorf("blocked by %+v, want two runs, and only %v named", a.BlockedBy, want)
	}
	if text := strings.Join(a.Lines, "\n"); strings.Contains(text, foreign.String()) {
		t.Errorf("a foreign run is named:\n%s", text)
	}
	if _, err := r.ExplainRun(ada, foreign); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a foreign run is explained: %v", err)
	}
}

// The run of a slot is explained as its slot is; others by themselves.
func TestARunOutsideQueuesIsExplained(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Options{})
	r := registrar.New(registrar.Options{Schedules: m, Runs: m, Grants: m, Now: func() time.Time { return noon }, Logger: quiet})
	rule := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "nightly", WorkflowID: "w", Version: 1, UserID: "ada", CronExpr: "0 0 1 1 *"}}
	if _, err := r.Upsert(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	run, err := r.Trigger(t.Context(), registrar.TriggerInput{ScheduleID: "nightly", RequestID: "once"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.ExplainRun(t.Context(), run.Key)
	if err != nil || !strings.Contains(a.Lines[0], "started by a manual trigger, is due since") || !slices.Equal(blocksOf(a), []ledger.BlockedBy{"unclaimed"}) {
		t.Errorf("blocked by %v: %q, %v", blocksOf(a), a.Lines, err)
	}
	if _, err := r.ExplainRun(t.Context(), schedule.ManualKey("nightly", "none")); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a run that does not exist is explained: %v", err)
	}
}
