package registrar_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// whole is what a set looks like: "a@1 b@1".
func whole(rows []registrar.View) string {
	words := make([]string, len(rows))
	for i, v := range rows {
		words[i] = fmt.Sprintf("%s@%d", v.Schedule.ScheduleID, v.Schedule.Version)
	}
	return strings.Join(words, " ")
}

// Two CI jobs that deploy the same at once: whoever comes second applies whole
// over the first, and nobody ever sees a mixture.
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
