package registrar_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// whole is the text form of a set: "a@1 b@1".
func whole(rows []registrar.View) string {
	words := make([]string, len(rows))
	for i, v := range rows {
		words[i] = fmt.Sprintf("%s@%d", v.Schedule.ScheduleID, v.Schedule.Version)
	}
	return strings.Join(words, " ")
}

// Two CI jobs deploy the same set at once: the second applies as a whole after the first, and no
// reader sees a mixture.
func TestDeploysOfOneSetComeOneAfterTheOther(t *testing.T) {
	jobs := []struct {
		version int32
		ids     []string
	}{{version: 1, ids: []string{"w.a", "w.b", "w.c"}}, {version: 2, ids: []string{"w.c", "w.d"}}, {version: 3, ids: []string{"w.b", "w.d", "w.e"}}}
	inputs := func(j int) (in []registrar.UpsertInput, fields []string) {
		for i, id := range jobs[j].ids {
			in = append(in, registrar.UpsertInput{Definition: schedule.Definition{
				ScheduleID: id, WorkflowID: "w", Version: jobs[j].version, UserID: "u", CronExpr: "0 * * * *",
			}})
			fields = append(fields, fmt.Sprintf("schedules[%d].", i))
		}
		return in, fields
	}
	dag := json.RawMessage(`{"workflow_id":"w"}`)
	for _, tt := range []struct {
		name      string
		managedBy string
		deploy    func(s *stage, job int) error
	}{
		{name: "apply", managedBy: "set:x", deploy: func(s *stage, job int) error {
			in, fields := inputs(job)
			_, err := s.ApplySchedules(s.Context(), registrar.ApplyInput{
				Set: "x", Prune: true, Schedules: in, Fields: fields,
				Workflows: []registrar.WorkflowInput{{WorkflowID: "w", Version: jobs[job].version, DAG: dag, Field: "workflows[0]."}},
			})
			return err
		}},
		{name: "workflow deploy", managedBy: "workflow:w", deploy: func(s *stage, job int) error {
			in, fields := inputs(job)
			_, err := s.DeployWorkflow(s.Context(), registrar.DeployInput{
				WorkflowID: "w", Version: jobs[job].version, UserID: "u", DAG: dag, Triggers: in, Fields: fields,
			})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStores(t, func(s *stage) {
				possible := []string{""}
				for _, job := range jobs {
					var words []string
					for _, id := range job.ids {
						words = append(words, fmt.Sprintf("%s@%d", id, job.version))
					}
					possible = append(possible, strings.Join(words, " "))
				}
				look := func() {
					rows, err := s.List(s.Context(), schedule.ScheduleFilter{ManagedBy: tt.managedBy, Limit: 100})
					if err != nil {
						s.Errorf("list: %v", err)
					} else if got := whole(rows); !slices.Contains(possible, got) {
						s.Errorf("the set is %q, which nobody has deployed", got)
					}
				}
				const rounds = 12
				var running sync.WaitGroup
				for job := range jobs {
					running.Go(func() {
						for range rounds {
							if err := tt.deploy(s, job); err != nil {
								s.Errorf("job %d: %v", job, err)
							}
							look()
						}
					})
				}
				running.Wait()
				look()
			})
		})
	}
}

// The largest set there may be, in one transaction; a change of a few of it
// writes only those.
func TestAnApplyOfThousands(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	onStores(t, func(s *stage) {
		in := registrar.ApplyInput{Set: "x", Prune: true}
		for i := range schedule.MaxApplied {
			in.Schedules = append(in.Schedules, registrar.UpsertInput{Definition: schedule.Definition{
				ScheduleID: fmt.Sprintf("s%04d", i), WorkflowID: "w", Version: 1, UserID: "u", CronExpr: fmt.Sprintf("%d * * * *", i%60),
			}})
			in.Fields = append(in.Fields, fmt.Sprintf("schedules[%d].", i))
		}
		for _, step := range []struct {
			name   string
			edit   func()
			writes int
		}{
			{name: "all are new", edit: func() {}, writes: schedule.MaxApplied},
			{name: "the same again", edit: func() {}},
			{name: "a few differ", edit: func() {
				for i := range 7 {
					in.Schedules[i*100].Definition.Version = 2
				}
			}, writes: 7},
			{name: "half are gone", edit: func() { in.Schedules, in.Fields = in.Schedules[:2500], in.Fields[:2500] }, writes: 2500},
		} {
			step.edit()
			for _, dry := range []bool{true, false} {
				in.DryRun = dry
				began := time.Now()
				result, err := s.ApplySchedules(s.Context(), in)
				s.must(err)
				s.Logf("%s, dry run %v: %s", step.name, dry, time.Since(began).Round(time.Millisecond))
				written := 0
				for _, c := range result.Changes {
					if c.Action != registrar.ActionUnchanged {
						written++
					}
				}
				if written != step.writes {
					s.Errorf("%s, dry run %v: %d are written, want %d", step.name, dry, written, step.writes)
				}
			}
		}
	})
}

// Two owners may use one name for their sets: neither sees, prunes or blocks the other's.
func TestAnApplyChangesOnlyTheCallersSet(t *testing.T) {
	onStores(t, func(s *stage) {
		apply := func(owner string, in registrar.ApplyInput, ids ...string) (registrar.ApplyResult, error) {
			in.Set, in.Prune = "x", true
			for i, id := range ids {
				in.Schedules = append(in.Schedules, registrar.UpsertInput{Definition: schedule.Definition{
					ScheduleID: id, WorkflowID: "w", Version: 1, CronExpr: "0 * * * *",
				}})
				in.Fields = append(in.Fields, fmt.Sprintf("schedules[%d].", i))
			}
			ctx := auth.NewContext(s.Context(), auth.Identity{Subject: owner, Owner: owner, Roles: []auth.Role{auth.User}})
			return s.ApplySchedules(ctx, in)
		}
		must := func(result registrar.ApplyResult, err error) []string {
			s.Helper()
			s.must(err)
			return actions(result)
		}
		must(apply("ada", registrar.ApplyInput{RequestID: "r"}, "a1", "a2"))
		must(apply("bob", registrar.ApplyInput{RequestID: "r"}, "b1"))
		if got := must(apply("ada", registrar.ApplyInput{DryRun: true}, "a1")); !slices.Equal(got, []string{"unchanged a1 r1", "delete a2 r1"}) {
			s.Errorf("ada's dry run: %v", got)
		}
		must(apply("ada", registrar.ApplyInput{AllowEmpty: true}))
		rows, err := s.List(s.Context(), schedule.ScheduleFilter{ManagedBy: "set:x", Limit: 10})
		s.must(err)
		if got := whole(rows); got != "b1@1" {
			s.Errorf("%q is left, want what is bob's", got)
		}
		for _, dry := range []bool{true, false} {
			if got := must(apply("ada", registrar.ApplyInput{DryRun: dry, Adopt: true}, "b1")); !slices.Equal(got, []string{"create ada:b1 r1"}) {
				s.Errorf("dry run %v: an id that bob has comes to %v", dry, got)
			}
		}
		for _, dry := range []bool{true, false} {
			if got := must(apply("ada", registrar.ApplyInput{DryRun: dry}, "b1")); !slices.Equal(got, []string{"unchanged ada:b1 r1"}) {
				s.Errorf("dry run %v: the same again comes to %v", dry, got)
			}
		}
	})
}
