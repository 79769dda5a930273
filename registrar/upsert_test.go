package registrar_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestCreateResolvesTheDefaultsAndStartsAfterNow(t *testing.T) {
	r := newRig(t, registrar.Config{})
	result := r.upsert(hourly())
	s := r.stored()
	if !result.Created || !result.Changed || s.Revision != 1 || !s.CreatedAt.Equal(noon) || !s.RevisedAt.Equal(noon) {
		r.Errorf("created %t, changed %t, revision %d", result.Created, result.Changed, s.Revision)
	}
	if want := noon.Add(time.Hour); !s.NextRunAt.Equal(want) || !result.NextRunAt.Equal(want) {
		r.Errorf("it starts at %s (answered %s), want %s: an upsert fires nothing at its own instant", s.NextRunAt, result.NextRunAt, want)
	}
	if want := noon.Add(50 * time.Minute); !s.PlanAt.Equal(want) {
		r.Errorf("the planner looks at %s, want %s: no worker plans further ahead than ten minutes", s.PlanAt, want)
	}
	d := s.Definition
	if d.Timezone != "UTC" || d.DST != schedule.DSTVixie || d.OverlapPolicy != schedule.OverlapSkip || d.OverlapKey != "s" ||
		d.CatchupPolicy != schedule.CatchupNone || d.MaxQueued != 100 || d.CatchupWindowMS != 86_400_000 || d.RunTimeoutMS != 3_600_000 {
		r.Errorf("the defaults are %+v", d)
	}
	r.events("created")
}

func TestThePlannerLooksAtOnceOnlyWhereASlotMayBeNear(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*registrar.UpsertInput)
		want   time.Time
	}{
		{"a slot beyond every lookahead", func(in *registrar.UpsertInput) { in.Definition.CronExpr = "11 12 * * *" }, noon.Add(time.Minute)},
		{"a slot at the end of the longest lookahead", func(in *registrar.UpsertInput) { in.Definition.CronExpr = "10 12 * * *" }, noon},
		{"a slot that jitter may bring inside it", func(in *registrar.UpsertInput) {
			jitter := uint32(time.Hour.Milliseconds())
			in.JitterMS = &jitter
		}, noon},
		{"a slot that jitter brings nearer", func(in *registrar.UpsertInput) {
			jitter := uint32(time.Minute.Milliseconds())
			in.JitterMS = &jitter
		}, noon.Add(49 * time.Minute)},
		{"no slot but by hand", func(in *registrar.UpsertInput) { in.Definition.CronExpr = "" }, time.Time{}},
		{"no slot before its end", func(in *registrar.UpsertInput) { in.Definition.EndAt = noon.Add(time.Minute) }, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.upsert(hourly(c.change))
			if s := r.stored(); !s.PlanAt.Equal(c.want) {
				t.Errorf("the planner looks at %s, want %s", s.PlanAt, c.want)
			}
		})
	}
}

func TestAThousandDeploysOfTheSameChangeNothing(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	before := *r.stored()
	for range 1000 {
		r.after(time.Second)
		if result := r.upsert(hourly()); result.Changed || result.Created {
			r.Fatal("a deploy of the same changed something")
		}
		r.wroteNothing()
	}
	if after := *r.stored(); after.Revision != before.Revision || !after.NextRunAt.Equal(before.NextRunAt) || !after.UpdatedAt.Equal(before.UpdatedAt) {
		r.Errorf("the schedule moved from %+v to %+v", before, after)
	}
}

func TestEveryFieldOfADefinitionMakesANewRevision(t *testing.T) {
	number := uint32(5000)
	five := int32(5)
	for name, change := range map[string]func(*registrar.UpsertInput){
		"workflow_id":        func(in *registrar.UpsertInput) { in.Definition.WorkflowID = "w2" },
		"version":            func(in *registrar.UpsertInput) { in.Definition.Version = 2 },
		"cron_expr":          func(in *registrar.UpsertInput) { in.Definition.CronExpr = "30 * * * *" },
		"timezone":           func(in *registrar.UpsertInput) { in.Definition.Timezone = "Europe/Vienna" },
		"dst":                func(in *registrar.UpsertInput) { in.Definition.DST = schedule.DSTLiteral },
		"start_at":           func(in *registrar.UpsertInput) { in.Definition.StartAt = noon },
		"end_at":             func(in *registrar.UpsertInput) { in.Definition.EndAt = noon.Add(time.Hour) },
		"overlap_policy":     func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = schedule.OverlapQueue },
		"overlap_key":        func(in *registrar.UpsertInput) { in.Definition.OverlapKey = "k" },
		"catchup_policy":     func(in *registrar.UpsertInput) { in.Definition.CatchupPolicy = schedule.CatchupLatest },
		"input":              func(in *registrar.UpsertInput) { in.Definition.Input = json.RawMessage(`{"a": 2}`) },
		"labels":             func(in *registrar.UpsertInput) { in.Definition.Labels = map[string]string{"a": "b"} },
		"managed_by":         func(in *registrar.UpsertInput) { in.Definition.ManagedBy = "files" },
		"execution_grant_id": func(in *registrar.UpsertInput) { in.Definition.ExecutionGrantID = "g" },
		"jitter_ms":          func(in *registrar.UpsertInput) { in.JitterMS = &number },
		"max_queued":         func(in *registrar.UpsertInput) { n := uint32(5); in.MaxQueued = &n },
		"catchup_window_ms":  func(in *registrar.UpsertInput) { in.CatchupWindowMS = &number },
		"run_timeout_ms":     func(in *registrar.UpsertInput) { in.RunTimeoutMS = &number },
		"priority":           func(in *registrar.UpsertInput) { in.Priority = &five },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.grant("g")
			r.upsert(hourly())
			r.after(time.Minute)
			r.upsert(hourly(change))
			if c := r.change(); !c.NewRevision || c.Row.Revision != 2 || !c.Row.RevisedAt.Equal(r.page.now) || !c.DropPlannedAfter.Equal(r.page.now) {
				r.Errorf("new revision %t: %d of %s; plans later than %s are dropped", c.NewRevision, c.Row.Revision, c.Row.RevisedAt, c.DropPlannedAfter)
			}
			if c := r.change(); c.EndDue.To != "" || !c.Row.CreatedAt.Equal(noon) {
				r.Errorf("an edit ended due rows (%s), or moved created_at to %s", c.EndDue.To, c.Row.CreatedAt)
			}
			r.events("changed")
		})
	}
}

func TestAnEditNeverPlansASlotBeforeItself(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	r.after(30 * time.Minute)
	r.upsert(hourly(func(in *registrar.UpsertInput) { in.Definition.CronExpr = "* * * * *" }))
	if s := r.stored(); !s.NextRunAt.Equal(noon.Add(31*time.Minute)) || s.Backlog.Open() {
		r.Errorf("the cursor stands at %s with backlog %+v, want the first slot after the edit and no backlog", s.NextRunAt, s.Backlog)
	}
}

func TestAnEditMovesNoAnchor(t *testing.T) {
	r := newRig(t, registrar.Config{})
	every := hourly(func(in *registrar.UpsertInput) { in.Definition.CronExpr, in.Definition.IntervalMS = "", 420_000 })
	r.upsert(every)
	r.after(10 * time.Minute)
	every.Definition.Labels = map[string]string{"a": "b"}
	if result := r.upsert(every); !result.NextRunAt.Equal(noon.Add(14 * time.Minute)) {
		r.Errorf("the next slot is %s, want 14 minutes after creation", result.NextRunAt)
	}
}

func TestTheOwnerOfAScheduleStays(t *testing.T) {
	r := newRig(t, registrar.Config{})
	stranger := hourly(func(in *registrar.UpsertInput) { in.Definition.UserID = "somebody-else" })
	r.upsert(hourly())
	for _, when := range []string{"while it lives", "after its deletion"} {
		if _, err := r.Upsert(r.Context(), stranger); !errors.Is(err, schedule.ErrExists) {
			r.Errorf("%s a stranger's upsert was answered %v, want ErrExists", when, err)
		}
		if err := r.Delete(r.Context(), "s", "me"); err != nil {
			r.Fatal(err)
		}
	}
	r.after(time.Hour)
	if result := r.upsert(hourly()); !result.Created || result.Schedule.Revision != 2 || !result.Schedule.CreatedAt.Equal(r.page.now) {
		r.Errorf("its owner's is revision %d, created %t; want the tombstone's next", result.Schedule.Revision, result.Created)
	}
}

func TestAScheduleWithoutAnIDIsNamedByItsOwnersRequest(t *testing.T) {
	r := newRig(t, registrar.Config{})
	named := func(user, request string) string {
		return r.upsert(hourly(func(in *registrar.UpsertInput) {
			in.Definition.ScheduleID, in.Definition.UserID, in.RequestID = "", user, request
		})).Schedule.ScheduleID
	}
	if first := named("u", "1"); first != named("u", "1") || !schedule.ValidID(first) {
		r.Errorf("the same request was named %q and otherwise", first)
	}
	if named("u", "1") == named("u", "2") || named("u", "1") == named("v", "1") {
		r.Error("different requests share a schedule")
	}
	if generated := named("u", ""); generated == named("u", "") {
		r.Error("two requests without an id share a schedule")
	}
}

func TestAOneShotInThePastIsRefusedAtCreationOnly(t *testing.T) {
	r := newRig(t, registrar.Config{})
	once := func(at time.Time, label string) registrar.UpsertInput {
		return hourly(func(in *registrar.UpsertInput) {
			in.Definition.CronExpr, in.Definition.OnceAt, in.Definition.Labels = "", at, map[string]string{"build": label}
		})
	}
	var invalid *schedule.InvalidError
	if _, err := r.Upsert(r.Context(), once(noon.Add(-time.Second), "1")); !errors.As(err, &invalid) || invalid.Violations[0].Field != "once_at" {
		r.Errorf("got %v, want once_at refused", err)
	}
	r.upsert(once(noon.Add(time.Minute), "1"))
	r.after(time.Hour)
	r.upsert(once(noon.Add(time.Minute), "2")) // a deploy after it has fired
	if s := r.stored(); !s.NextRunAt.IsZero() {
		r.Errorf("a one-shot that has fired is to fire again at %s", s.NextRunAt)
	}
}

func TestReplaceNeedsAnExecutorThatCancels(t *testing.T) {
	replace := hourly(func(in *registrar.UpsertInput) { in.Definition.OverlapPolicy = schedule.OverlapReplace })
	var invalid *schedule.InvalidError
	if _, err := newRig(t, registrar.Config{}).Upsert(t.Context(), replace); !errors.As(err, &invalid) {
		t.Errorf("got %v, want overlap_policy refused", err)
	}
	if _, err := newRig(t, registrar.Config{CanCancel: true}).Upsert(t.Context(), replace); err != nil {
		t.Error(err)
	}
}
