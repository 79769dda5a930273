package registrar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// set is an apply of set "x" with hourly schedules of these ids.
func set(ids ...string) registrar.ApplyInput {
	in := registrar.ApplyInput{Set: "x", Prune: true, Actor: "ci"}
	for i, id := range ids {
		in.Schedules = append(in.Schedules, hourly(func(in *registrar.UpsertInput) { in.Definition.ScheduleID = id }))
		in.Fields = append(in.Fields, fmt.Sprintf("schedules[%d].", i))
	}
	return in
}

func (r *rig) apply(in registrar.ApplyInput) registrar.ApplyResult {
	r.Helper()
	result, err := r.ApplySchedules(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

// actions are the changes of an apply as short words.
func actions(result registrar.ApplyResult) []string {
	var out []string
	for _, c := range result.Changes {
		out = append(out, fmt.Sprintf("%s %s r%d", c.Action, c.ScheduleID, c.Revision))
	}
	return out
}

func TestApplyCreatesChangesAndDeletes(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly()) // managed by no one, and not named
	for _, step := range []struct {
		name    string
		in      registrar.ApplyInput
		want    []string
		changed bool
	}{
		{name: "all are new", in: set("a", "b"), want: []string{"create a r1", "create b r1"}, changed: true},
		{name: "the same again", in: set("a", "b"), want: []string{"unchanged a r1", "unchanged b r1"}},
		{name: "one differs, one is new, one is gone", in: func() registrar.ApplyInput {
			in := set("b", "c")
			in.Schedules[0].Definition.Version = 2
			return in
		}(), want: []string{"change b r2", "create c r1", "delete a r1"}, changed: true},
		{name: "a deleted schedule is created again", in: set("a", "b", "c"), want: []string{"create a r2", "change b r3", "unchanged c r1"}, changed: true},
	} {
		t.Run(step.name, func(t *testing.T) {
			preview := step.in
			preview.DryRun = true
			would := r.apply(preview)
			r.wroteNothing()
			did := r.apply(step.in)
			for _, got := range []registrar.ApplyResult{would, did} {
				if !slices.Equal(actions(got), step.want) || got.Changed != step.changed {
					t.Errorf("%v, changed %v; want %v, %v", actions(got), got.Changed, step.want, step.changed)
				}
			}
			if !step.changed {
				r.wroteNothing()
			}
			if would.Forecast == nil || did.Forecast != nil {
				t.Error("a dry run looks ahead, and nothing else does")
			}
		})
	}
	if got := r.living(); !slices.Equal(got, []string{"a", "b", "c", "s"}) {
		r.Errorf("%v are left", got)
	}
	if by := r.page.schedules["a"].ManagedBy; by != "set:x" {
		r.Errorf("managed_by is %q", by)
	}
}

func TestApplyWithoutPruneListsTheRestOfTheSet(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.apply(set("a", "b"))
	in := set("b")
	in.Prune = false
	if got := r.apply(in); !slices.Equal(got.Left, []string{"a"}) || got.Changed || !r.page.schedules["a"].Alive() {
		r.Errorf("left %v, changed %v", got.Left, got.Changed)
	}
}

func TestApplyRefusesSchedulesOfAnotherManager(t *testing.T) {
	for _, tt := range []struct {
		name    string
		by      string
		refused bool
	}{
		{name: "another set's", by: "set:y", refused: true},
		{name: "a deployment's", by: "workflow:w", refused: true},
		{name: "some compiler's", by: "compiler", refused: true},
		{name: "nobody's", by: ""},
		{name: "its own", by: "set:x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.upsert(hourly(func(in *registrar.UpsertInput) { in.Definition.ManagedBy = tt.by }))
			for _, dry := range []bool{true, false} {
				in := set("new", "s")
				in.DryRun = dry
				_, err := r.ApplySchedules(r.Context(), in)
				if refused := errors.Is(err, schedule.ErrPrecondition); refused != tt.refused || err != nil != tt.refused {
					t.Fatalf("dry run %v: %v", dry, err)
				}
				if tt.refused && !strings.Contains(err.Error(), "s (managed by "+tt.by+")") {
					t.Errorf("%v does not say whose it is", err)
				}
			}
			if !tt.refused {
				return
			}
			if r.page.schedules["new"] != nil {
				t.Error("a part of a refused set was applied")
			}
			in := set("s")
			in.Adopt = true
			got := r.apply(in)
			if len(got.Changes) != 1 || got.Changes[0].AdoptedFrom != tt.by || r.stored().ManagedBy != "set:x" {
				t.Errorf("taken over: %+v", got.Changes)
			}
		})
	}
}

func TestApplyKeepsAPauseAndAnEndOfOne(t *testing.T) {
	yes, no := true, false
	r := newRig(t, registrar.Config{})
	begins := set("a", "b")
	begins.Schedules[0].Paused, begins.Schedules[1].Paused = &yes, &no
	r.apply(begins)
	if !r.page.schedules["a"].Pause.Paused || r.page.schedules["b"].Pause.Paused {
		t.Fatal("paused is how a schedule begins")
	}
	if _, err := r.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pause(r.Context(), registrar.PauseInput{ScheduleID: "b", Note: "moving house"}); err != nil {
		t.Fatal(err)
	}
	r.apply(begins)
	r.wroteNothing()
	begins.Schedules[0].Definition.Version, begins.Schedules[1].Definition.Version = 2, 2
	r.apply(begins)
	if a, b := r.page.schedules["a"], r.page.schedules["b"]; a.Pause.Paused || b.Pause.Note != "moving house" || b.Revision != 2 {
		t.Errorf("after another version: %+v, %+v", a.Pause, b.Pause)
	}
}

func TestApplyRefusesInvalidSets(t *testing.T) {
	many := set()
	for i := range schedule.MaxApplied + 1 {
		many.Schedules = append(many.Schedules, hourly(func(in *registrar.UpsertInput) { in.Definition.ScheduleID = fmt.Sprint("s", i) }))
		many.Fields = append(many.Fields, fmt.Sprintf("schedules[%d].", i))
	}
	edited := func(edit func(*registrar.ApplyInput)) registrar.ApplyInput {
		in := set("a", "b")
		edit(&in)
		return in
	}
	for _, tt := range []struct {
		name string
		in   registrar.ApplyInput
		want string
	}{
		{name: "a set without a name", in: edited(func(in *registrar.ApplyInput) { in.Set = "" }), want: "set: is required"},
		{name: "one id twice", in: set("a", "b", "a"), want: `schedules[2].schedule_id: "a" is the id of schedules[0] too`},
		{name: "no id", in: set("a", ""), want: "schedules[1].schedule_id: is required in a set"},
		{name: "an owner of another kind", in: edited(func(in *registrar.ApplyInput) { in.Schedules[1].Definition.ManagedBy = "me" }), want: `schedules[1].managed_by: "me" contradicts the set, which sets it to "set:x"`},
		{name: "a request id of one schedule", in: edited(func(in *registrar.ApplyInput) { in.Schedules[0].RequestID = "r" }), want: "schedules[0].request_id: "},
		{name: "more than may be", in: many, want: "schedules: are 5001 including those of the DAGs' triggers, more than 5000"},
		{name: "nothing at all, with prune", in: set(), want: "prune: would delete the whole set"},
		{name: "all that is wrong, at once", in: edited(func(in *registrar.ApplyInput) {
			in.Schedules[0].Definition.CronExpr, in.Schedules[1].Definition.Timezone = "61 * * * *", "Mars/Base"
		}), want: `schedules[1].timezone: "Mars/Base"`},
		{name: "a DAG that is none", in: edited(func(in *registrar.ApplyInput) {
			in.Workflows = []registrar.WorkflowInput{{WorkflowID: "w", Version: 1, DAG: json.RawMessage(`{`), Field: "workflows[0]."}}
		}), want: "workflows[0].dag: "},
		{name: "a version twice", in: edited(func(in *registrar.ApplyInput) {
			w := registrar.WorkflowInput{WorkflowID: "w", Version: 1, DAG: json.RawMessage(`{}`)}
			in.Workflows = []registrar.WorkflowInput{w, w}
			in.Workflows[1].Field = "workflows[1]."
		}), want: "workflows[1].version: 1 of workflow w is workflows[0] too"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			for _, dry := range []bool{true, false} {
				tt.in.DryRun = dry
				_, err := r.ApplySchedules(r.Context(), tt.in)
				var invalid *schedule.InvalidError
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("dry run %v: %v, want %q", dry, err, tt.want)
				}
			}
			r.wroteNothing()
		})
	}
	t.Run("a whole set is deleted when that is said", func(t *testing.T) {
		r := newRig(t, registrar.Config{})
		r.apply(set("a", "b"))
		in := set()
		in.AllowEmpty = true
		if got := actions(r.apply(in)); !slices.Equal(got, []string{"delete a r1", "delete b r1"}) {
			t.Error(got)
		}
	})
}

func TestADryRunSaysWhichFieldsAndFiresMove(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.apply(set("a", "gone"))
	in := set("a", "new")
	in.DryRun = true
	d := &in.Schedules[0].Definition
	d.CronExpr, d.Labels, d.Input = "0,30 * * * *", map[string]string{"b": "2", "a": "1"}, json.RawMessage(`{"a":2}`)
	got := r.apply(in)
	want := []registrar.FieldChange{
		{Field: "cron_expr", From: "0 * * * *", To: "0,30 * * * *"},
		{Field: "input", From: `{"a":1}`, To: `{"a":2}`},
		{Field: "labels", From: "", To: "a=1 b=2"},
	}
	if !slices.Equal(got.Changes[0].Fields, want) {
		t.Errorf("fields %+v", got.Changes[0].Fields)
	}
	for i, counts := range [][2]int{{720, 0}, {720, 0}, {0, 720}} {
		f := got.Changes[i].Fires
		if f.Added != counts[0] || f.Removed != counts[1] || !f.Until.Equal(noon.Add(30*24*time.Hour)) {
			t.Errorf("%s: %d come, %d go until %s", got.Changes[i].ScheduleID, f.Added, f.Removed, f.Until)
		}
	}
	if first := got.Changes[0].Fires.FirstAdded; len(first) != 10 || !first[0].FireAt.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("the first that come: %+v", first)
	}
	f := got.Forecast
	if f.Before.Peak != 2 || f.After.Peak != 2 || f.Before.Total != 1440 || f.After.Total != 2160 || !f.After.PeakAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("forecast %+v", f)
	}
}

func TestADryRunOfManyFiresSaysHowFarItLooked(t *testing.T) {
	r := newRig(t, registrar.Config{})
	often := func(step string) registrar.ApplyInput {
		in := set("a", "b")
		for i := range in.Schedules {
			in.Schedules[i].Definition.CronExpr = step
		}
		in.DryRun = true
		return in
	}
	first := often("* * * * * *")
	first.DryRun = false
	r.apply(first)
	got := r.apply(often("*/2 * * * * *"))
	f := got.Changes[0].Fires
	if want := noon.Add(50_000 * time.Second); !f.Until.Equal(want) || f.Added != 0 || f.Removed != 25_000 {
		t.Errorf("compared until %s (want %s): %d go, %d come", f.Until, want, f.Removed, f.Added)
	}
	if got.Forecast.Until.Sub(noon) > 5*24*time.Hour || got.Forecast.Before.Peak != 120 || got.Forecast.After.Peak != 60 {
		t.Errorf("forecast %+v", got.Forecast)
	}
}

func TestARepeatedDeployDoesNotUndoTheOneAfterIt(t *testing.T) {
	deploy := func(r *rig, version int32, request string) error {
		in := registrar.DeployInput{
			WorkflowID: "w", Version: version, UserID: "u", DAG: json.RawMessage(`{}`), RequestID: request, Actor: "ci",
			Triggers: []registrar.UpsertInput{hourly(func(in *registrar.UpsertInput) {
				in.Definition.ScheduleID, in.Definition.Version = "w.a", version
			})},
			Fields: []string{"dag.triggers[0]."},
		}
		results, err := r.DeployWorkflow(r.Context(), in)
		if err == nil && (len(results) != 1 || results[0].Schedule.ScheduleID != "w.a") {
			return fmt.Errorf("results %+v", results)
		}
		return err
	}
	r := newRig(t, registrar.Config{})
	for _, step := range []struct {
		version int32
		request string
		want    int32 // the version in force then
		err     error
	}{
		{version: 1, request: "first", want: 1},
		{version: 2, request: "second", want: 2},
		{version: 1, request: "first", want: 2},
		{version: 1, request: "second", want: 2, err: schedule.ErrKeyConflict},
		{version: 1, want: 1},
	} {
		if err := deploy(r, step.version, step.request); !errors.Is(err, step.err) {
			t.Fatalf("%+v: %v", step, err)
		}
		if got := r.page.schedules["w.a"].Version; got != step.want {
			t.Errorf("after %+v version %d is in force", step, got)
		}
	}
}

func TestADryRunChecksTheQuota(t *testing.T) {
	r := newRig(t, registrar.Config{OwnerMaxSchedules: 3})
	r.upsert(hourly()) // managed by no one, but counted
	r.apply(set("a", "b"))
	for _, tt := range []struct {
		name string
		in   registrar.ApplyInput
		want error
	}{
		{name: "one more than the quota", in: set("a", "b", "c"), want: schedule.ErrExhausted},
		{name: "more in one call than the quota", in: set("c", "d", "e", "f"), want: schedule.ErrExhausted},
		{name: "one comes and one goes", in: set("a", "c")},
		{name: "existing schedules", in: set("a", "b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.DryRun = true
			if _, err := r.ApplySchedules(t.Context(), tt.in); !errors.Is(err, tt.want) {
				t.Errorf("err = %v, want %v", err, tt.want)
			}
		})
	}
}
