package registrar_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

// overlapRig is a registrar on a store in memory.
type overlapRig struct {
	*testing.T
	*registrar.Registrar
}

func newOverlapRig(t *testing.T) *overlapRig {
	store := memory.New(memory.Options{})
	return &overlapRig{t, registrar.New(registrar.Options{
		Schedules: store, Runs: store, Outcomes: store, Workflows: store, Shares: store, Grants: store, Overlaps: store,
		Now: func() time.Time { return noon }, Config: registrar.Config{OwnerMaxSchedules: 100},
	})}
}

func (w *overlapRig) schedule(id string, more ...func(*registrar.UpsertInput)) {
	w.Helper()
	in := registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: id, UserID: "ada", WorkflowID: "w", Version: 1, IntervalMS: 3_600_000, OverlapKey: "wf", OverlapPolicy: schedule.OverlapCoalesce,
	}}
	for _, change := range more {
		change(&in)
	}
	if _, err := w.Upsert(w.Context(), in); err != nil {
		w.Fatal(err)
	}
}

func (w *overlapRig) start(ctx context.Context, request string) (ids []string, repeated bool, err error) {
	runs, repeated, err := w.RunOverlapGroup(ctx, registrar.RunOverlapInput{UserID: "ada", OverlapKey: "wf", RequestID: request, Actor: "eve"})
	for i := range runs {
		r := &runs[i]
		if r.Trigger != schedule.TriggerManual || !r.Exclusive || r.RequestedBy != "eve" || !r.FireAt.Equal(noon) {
			w.Errorf("a run that is not by hand, now and in turn: %+v", r)
		}
		ids = append(ids, r.ScheduleID+" "+string(r.OverlapPolicy))
	}
	return ids, repeated, err
}

func TestAnOverlapGroupStartsEachTimedScheduleOnce(t *testing.T) {
	w := newOverlapRig(t)
	w.schedule("b")
	w.schedule("a", func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = schedule.OverlapSkip })
	w.schedule("all", func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = schedule.OverlapAllow })
	w.schedule("hand", func(in *registrar.UpsertInput) { in.Definition.IntervalMS = 0 })
	w.schedule("off", func(in *registrar.UpsertInput) { in.Paused = new(bool); *in.Paused = true })
	w.schedule("else", func(in *registrar.UpsertInput) { in.Definition.OverlapKey = "other" })
	w.schedule("bob", func(in *registrar.UpsertInput) { in.Definition.UserID = "bob" })
	want := []string{"a queue", "all queue", "b coalesce"}
	ids, repeated, err := w.start(t.Context(), "r")
	if err != nil || repeated || !slices.Equal(ids, want) {
		t.Fatalf("it starts %v, repeated %t, %v; want %v", ids, repeated, err, want)
	}
	if ids, repeated, err := w.start(t.Context(), "r"); err != nil || !repeated || !slices.Equal(ids, want) {
		t.Errorf("the same request starts %v, repeated %t, %v", ids, repeated, err)
	}
	if ids, _, err := w.start(t.Context(), "other"); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "overlap_busy") || len(ids) > 0 {
		t.Errorf("while its runs are due another request starts %v, %v", ids, err)
	}
	g, err := w.GetOverlapGroup(t.Context(), "ada", "wf")
	if err != nil || g.Status != schedule.OverlapIdle || len(g.Schedules) != 5 || g.WorkflowID != "w" || len(g.Waiting) != 3 {
		t.Fatalf("the group is %+v, %v", g, err)
	}
	for i, run := range g.Waiting[1:] {
		if !strings.Contains(run.Why, g.Waiting[i].Run.Key.String()) {
			t.Errorf("run %d waits: %s", i+1, run.Why)
		}
	}
}

func TestAnOverlapGroupIsNotStartedWithoutATimedScheduleThatRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*registrar.UpsertInput)
		says string
	}{
		{"all are paused", func(in *registrar.UpsertInput) { in.Paused = new(bool); *in.Paused = true }, "is paused"},
		{"none has a time rule", func(in *registrar.UpsertInput) { in.Definition.IntervalMS = 0 }, "time rule"},
	} {
		w := newOverlapRig(t)
		w.schedule("s", c.edit)
		if ids, _, err := w.start(t.Context(), "r"); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), c.says) || len(ids) > 0 {
			t.Errorf("%s: it starts %v, %v", c.name, ids, err)
		}
	}
}

func TestAnOverlapGroupIsItsOwners(t *testing.T) {
	w := newOverlapRig(t)
	w.schedule("s")
	bob := auth.NewContext(t.Context(), auth.Identity{Subject: "bob", Owner: "bob"})
	ada := auth.NewContext(t.Context(), auth.Identity{Subject: "ada", Owner: "ada"})
	if _, err := w.GetOverlapGroup(bob, "ada", "wf"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("another owner reads it: %v", err)
	}
	if _, _, err := w.start(bob, "r"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("another owner starts it: %v", err)
	}
	if all, err := w.ListOverlapGroups(bob, schedule.OverlapKeyFilter{Limit: 10}); err != nil || len(all) > 0 {
		t.Errorf("another owner lists %+v, %v", all, err)
	}
	if g, err := w.GetOverlapGroup(ada, "", "wf"); err != nil || g.UserID != "ada" {
		t.Errorf("its owner reads %+v, %v", g, err)
	}
	if all, err := w.ListOverlapGroups(ada, schedule.OverlapKeyFilter{Limit: 10}); err != nil || len(all) != 1 || all[0].OverlapKey != "wf" {
		t.Errorf("its owner lists %+v, %v", all, err)
	}
	if _, err := w.GetOverlapGroup(t.Context(), "ada", "none"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a group without schedules: %v", err)
	}
	if _, err := w.GetOverlapGroup(t.Context(), "", "wf"); err == nil || !strings.Contains(err.Error(), "user_id") {
		t.Errorf("a group of nobody: %v", err)
	}
}
