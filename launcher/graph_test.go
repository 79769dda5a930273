package launcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
)

func graphRun() launcher.GraphRun {
	return launcher.GraphRun{Key: "s:2026-03-08T14:00:00Z", WorkflowID: "w", ExecutionGrantID: "g", Input: json.RawMessage(`{"n":1}`)}
}

// graphRig is a rig whose launcher has a Permit and a Latest that may change.
type graphRig struct {
	*rig
	mu      sync.Mutex // for what changes while a run is under way
	owner   string
	refused schedule.Reason
	unknown error
	newest  int32
}

func inGraphBubble(t *testing.T, config launcher.Config, test func(*graphRig)) {
	t.Helper()
	inBubble(t, config, func(r *rig) {
		g := &graphRig{rig: r, owner: "u", newest: 7}
		r.launcher = launcher.New(launcher.Options{
			Store: r.store, Workflows: r.workflows, Executor: r.executor, Now: r.store.Now, Logger: slog.New(slog.DiscardHandler), Config: config,
			Permit: func(context.Context, schedule.GrantRef, string) (string, schedule.Reason, error) {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.owner, g.refused, g.unknown
			},
			Latest: func(context.Context, string, string) (int32, error) {
				if g.newest == 0 {
					return 0, schedule.ErrNotFound
				}
				return g.newest, nil
			},
		})
		test(g)
	})
}

func (g *graphRig) run(run launcher.GraphRun) schedule.Outcome {
	g.Helper()
	reply, err := g.launcher.RunGraph(g.Context(), run)
	if err != nil {
		g.Fatalf("run graph: %v", err)
	}
	return reply.Outcome
}

func TestAGraphRunIsAnsweredFromItsRecord(t *testing.T) {
	for name, answer := range map[string]schedule.Outcome{
		"success":  {Status: schedule.StatusSuccess, RunID: "r", TraceID: "t"},
		"failure":  {Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r", TraceID: "t", ErrorCode: "rate_limit"},
		"accepted": {Status: schedule.StatusEnqueued, RunID: "r", TraceID: "t"},
	} {
		t.Run(name, func(t *testing.T) {
			inGraphBubble(t, reports, func(g *graphRig) {
				g.executor.run = answers(answer, nil)
				first := g.run(graphRun())
				time.Sleep(time.Hour)
				g.newest, g.refused = 8, schedule.ReasonGrantRevoked // neither undoes what has happened
				if diff := cmp.Diff(first, g.run(graphRun())) + cmp.Diff(answer, first); diff != "" {
					g.Errorf("answer, first and repeat differ:\n%s", diff)
				}
				g.wantCalls(1, 0)
			})
		})
	}
}

func TestAGraphRunTellsTheExecutorWhatItIs(t *testing.T) {
	for _, tt := range []struct {
		name        string
		named       int32
		newest      int32
		wantVersion int32
		wantDAG     string
	}{
		{name: "the version that is named", named: 3, newest: 7, wantVersion: 3, wantDAG: `{"steps":[]}`},
		{name: "else the newest", newest: 7, wantVersion: 7, wantDAG: `{"steps":[]}`},
		{name: "a workflow of which none is stored goes by its id alone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inGraphBubble(t, reports, func(g *graphRig) {
				g.newest = tt.newest
				run := graphRun()
				run.Version = tt.named
				g.run(run)
				call := g.executor.runs()[0].Call
				if call.Version != tt.wantVersion || string(call.DAG) != tt.wantDAG || call.UserID != "u" || call.ClientKey != run.Key ||
					call.Key != launcher.GraphKey(run.Key) || call.ReportURL != "" || !cmp.Equal(call.Input, run.Input) {
					g.Errorf("the executor was given %+v", call)
				}
			})
		})
	}
}

func TestAKeyOfAnotherGraphRunIsAConflict(t *testing.T) {
	for name, change := range map[string]func(*launcher.GraphRun){
		"another workflow": func(g *launcher.GraphRun) { g.WorkflowID = "w2" },
		"another version":  func(g *launcher.GraphRun) { g.Version = 7 },
		"another grant":    func(g *launcher.GraphRun) { g.ExecutionGrantID = "g2" },
		"another input":    func(g *launcher.GraphRun) { g.Input = json.RawMessage(`{"n":2}`) },
		"no input":         func(g *launcher.GraphRun) { g.Input = nil },
	} {
		t.Run(name, func(t *testing.T) {
			inGraphBubble(t, reports, func(g *graphRig) {
				g.run(graphRun())
				other := graphRun()
				change(&other)
				if got := g.run(other); got.Reason != schedule.ReasonKeyConflict {
					g.Errorf("answered %+v, want a conflict", got)
				}
				respelt := graphRun()
				respelt.Input = json.RawMessage(" { \"n\" : 1 } ")
				if got := g.run(respelt); got.Status != schedule.StatusEnqueued {
					g.Errorf("the same JSON with other spaces is answered %+v", got)
				}
				g.wantCalls(1, 0)
			})
		})
	}
}

func TestAGraphKeyIsNoSlotsKey(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		slot := g.request()
		g.must(slot)
		run := graphRun()
		run.Key = slot.Key.String()
		g.run(run)
		g.wantCalls(2, 0)
	})
}

func TestAGraphRunWithoutItsGrantIsRefusedForGood(t *testing.T) {
	for _, reason := range []schedule.Reason{schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied} {
		t.Run(string(reason), func(t *testing.T) {
			inGraphBubble(t, reports, func(g *graphRig) {
				g.refused = reason
				first := g.run(graphRun())
				g.refused = ""
				again := g.run(graphRun())
				if first.Status != schedule.StatusSkipped || first.Reason != reason || first.ErrorCode != string(reason) || again != first {
					g.Errorf("answered %+v, then %+v", first, again)
				}
				g.wantCalls(0, 0)
			})
		})
	}
}

func TestAGraphRunWaitsForWhoCannotSayWhetherItMay(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		g.unknown = errors.New("the database is away")
		if _, err := g.launcher.RunGraph(g.Context(), graphRun()); !errors.Is(err, g.unknown) {
			g.Errorf("err = %v", err)
		}
		g.wantCalls(0, 0)
		g.unknown = nil
		g.run(graphRun()) // the key was given back at once
		g.wantCalls(1, 0)
	})
}

func TestAGraphRunWithoutAnAnswerIsNotSentAgainWithoutItsGrant(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		g.executor.will(answers(schedule.Outcome{}, errors.New("broken pipe")))
		if _, err := g.launcher.RunGraph(g.Context(), graphRun()); !errors.Is(err, launcher.ErrOutcomeUnknown) {
			g.Errorf("err = %v", err)
		}
		g.refused = schedule.ReasonGrantExpired
		if _, err := g.launcher.RunGraph(g.Context(), graphRun()); !errors.Is(err, launcher.ErrWithheld) {
			g.Errorf("err = %v, want it withheld: whether it runs is not known", err)
		}
		g.wantCalls(1, 1)
		g.executor.ask = func(schedule.Key) (schedule.Outcome, error) {
			return schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r"}, nil
		}
		if got := g.run(graphRun()); got.Status != schedule.StatusSuccess {
			g.Errorf("the executor knew the key, and the answer is %+v", got)
		}
		g.wantCalls(1, 2)
	})
}

func TestTwoGraphRunsAtOnceHaveOneEffect(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		g.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(2 * time.Second)
			return accept(ctx, call)
		}
		var got [2]schedule.Outcome
		var both sync.WaitGroup
		for i := range got {
			both.Go(func() { got[i] = g.run(graphRun()) })
		}
		both.Wait()
		if got[0] != got[1] {
			g.Errorf("answered %+v and %+v", got[0], got[1])
		}
		g.wantCalls(1, 0)
	})
}

func TestASecondGraphRunIsToldThatTheFirstGoesOn(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		g.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(9 * time.Second) // of the ten that a call may take
			return accept(ctx, call)
		}
		var first sync.WaitGroup
		first.Go(func() { g.run(graphRun()) })
		synctest.Wait()
		if _, err := g.launcher.RunGraph(g.Context(), graphRun()); !errors.Is(err, launcher.ErrBusy) {
			g.Errorf("err = %v, want that it is busy", err)
		}
		first.Wait()
		g.run(graphRun())
		g.wantCalls(1, 0)
	})
}

// A process dies after it has recorded the key and before it has called: its
// store is closed under it, so that it neither keeps nor gives back the lease.
func TestAGraphRunIsTakenOverFromAProcessThatDied(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		quiet := slog.New(slog.DiscardHandler)
		path := filepath.Join(t.TempDir(), "carillon.db")
		open := func() *sqlite.Store {
			store, err := sqlite.Open(g.Context(), "sqlite:"+path, sqlite.Options{Logger: quiet, MaxConns: 1})
			if err != nil {
				g.Fatal(err)
			}
			return store
		}
		dead, alive := open(), open()
		defer alive.Close()
		if _, err := dead.Migrate(g.Context()); err != nil {
			g.Fatal(err)
		}
		stuck := &workflows{load: func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }}
		first := launcher.New(launcher.Options{
			Store: dead, Workflows: stuck, Executor: g.executor, Now: dead.Now, Logger: quiet, Config: reports,
			Latest: func(context.Context, string, string) (int32, error) { return 1, nil },
		})
		second := launcher.New(launcher.Options{Store: alive, Workflows: g.workflows, Executor: g.executor, Now: alive.Now, Logger: quiet, Config: reports})
		var dying sync.WaitGroup
		dying.Go(func() { _, _ = first.RunGraph(g.Context(), graphRun()) })
		synctest.Wait()
		if err := dead.Close(); err != nil {
			g.Fatal(err)
		}
		began := time.Now()
		reply, err := second.RunGraph(g.Context(), graphRun())
		if err != nil || reply.Outcome.Status != schedule.StatusEnqueued {
			g.Errorf("answered %+v, %v", reply.Outcome, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			g.Errorf("the key was free after %s, want the length of a lease", took)
		}
		dying.Wait()
		g.wantCalls(1, 1) // the first one may have called, for all that the second knows: it asks before
	})
}

// One that got its call too late, looked at its grant once more and may not go on
// gives the call back.
func TestAGraphRunThatEndsBehindItsCallLeavesItToTheNext(t *testing.T) {
	one := reports
	one.MaxCalls = 1
	inGraphBubble(t, one, func(g *graphRig) {
		g.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(3 * time.Second) // longer than a check is good for
			return accept(ctx, call)
		})
		graph := func(key string) launcher.GraphRun {
			run := graphRun()
			run.Key = key
			return run
		}
		var open sync.WaitGroup
		open.Go(func() { g.run(graph("first")) })
		synctest.Wait()
		open.Go(func() {
			if got := g.run(graph("second")); got.Status != schedule.StatusSkipped {
				g.Errorf("the second ended %s(%s), want it SKIPPED: its grant was revoked while it waited", got.Status, got.Reason)
			}
		})
		time.Sleep(time.Second)
		g.mu.Lock()
		g.owner, g.refused = "", schedule.ReasonGrantRevoked
		g.mu.Unlock()
		open.Wait()
		g.owner, g.refused = "u", ""
		ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
		defer cancel()
		if reply, err := g.launcher.RunGraph(ctx, graph("third")); err != nil || reply.Outcome.Status != schedule.StatusEnqueued {
			g.Errorf("the third found no call: %+v, %v", reply.Outcome, err)
		}
	})
}

func TestAGraphRunCannotBeSnoozed(t *testing.T) {
	inGraphBubble(t, reports, func(g *graphRig) {
		g.executor.run = answers(schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, RunID: "r", SnoozeFor: time.Minute}, nil)
		for range 2 {
			if got := g.run(graphRun()); got.Status != schedule.StatusFailed || got.Reason != schedule.ReasonWorkflowFailed || got.ErrorCode != string(schedule.CodeSnoozed) || got.SnoozeFor != 0 {
				g.Errorf("a snoozed graph run is answered %+v", got)
			}
		}
		g.wantCalls(1, 0)
	})
}
