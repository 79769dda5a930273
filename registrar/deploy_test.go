package registrar_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// deployed deploys workflow w with triggers of these names.
func (r *rig) deployed(names ...string) error {
	in := registrar.DeployInput{WorkflowID: "w", Version: 1, UserID: "u", DAG: json.RawMessage(`{"workflow_id":"w"}`), Actor: "ci"}
	for _, name := range names {
		in.Triggers = append(in.Triggers, hourly(func(in *registrar.UpsertInput) { in.Definition.ScheduleID = "w." + name }))
		in.Fields = append(in.Fields, "dag.triggers["+name+"].")
	}
	_, err := r.DeployWorkflow(r.Context(), in)
	return err
}

func (r *rig) living() []string {
	var ids []string
	for id, s := range r.page.schedules {
		if s.Alive() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestADeployRemovesTheSchedulesItNoLongerNames(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly()) // not managed by the workflow
	if err := r.deployed("a", "b"); err != nil {
		r.Fatal(err)
	}
	if err := r.deployed("b", "c"); err != nil {
		r.Fatal(err)
	}
	if got := r.living(); !slices.Equal(got, []string{"s", "w.b", "w.c"}) {
		r.Errorf("%v are left", got)
	}
	if len(r.page.workflows) != 1 {
		r.Error("the workflow version is not stored in the same transaction")
	}
	if err := r.deployed("b", "c"); err != nil {
		r.Fatal(err)
	}
	r.wroteNothing()
}

func TestADeployIsAllOrNothing(t *testing.T) {
	r := newRig(t, registrar.Config{})
	taken := hourly(func(in *registrar.UpsertInput) {
		in.Definition.ScheduleID, in.Definition.UserID = "w.b", "somebody-else"
	})
	r.upsert(taken)
	if err := r.deployed("a", "b"); !errors.Is(err, schedule.ErrExists) {
		r.Errorf("got %v, want ErrExists", err)
	}
	if got := r.living(); !slices.Equal(got, []string{"w.b"}) {
		r.Errorf("%v are left, want only the stranger's", got)
	}
	if err := r.deployed("a", "a"); err == nil {
		r.Error("two triggers of one name were accepted")
	}
}

func TestADeploySparesAScheduleOfAnotherManager(t *testing.T) {
	r := newRig(t, registrar.Config{})
	if err := r.deployed("a", "b"); err != nil {
		r.Fatal(err)
	}
	r.page.beforeChange = func() { r.page.schedules["w.a"].ManagedBy = "files" } // between the list and the lock
	if err := r.deployed("b"); err != nil {
		r.Fatal(err)
	}
	if got := r.living(); !slices.Equal(got, []string{"w.a", "w.b"}) {
		r.Errorf("%v are left, want both", got)
	}
}
