package storetest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/carillon/carillon/internal/schedule"
)

var workflows = []check{
	{"a version comes back as it was put", workflowSurvives},
	{"the same version again is no write", workflowSame},
	{"the same version with another hash is refused", workflowOther},
	{"an unknown version is not found", workflowUnknown},
	{"versions are listed newest first, in pages, without their DAGs", workflowList},
	{"of many who put one version at once the first stays", workflowRace},
	{"owners store different DAGs as the same version, and one for all owners stands beside them", workflowOwners},
}

func (r *rig) version(name string, version int32, dag string) schedule.WorkflowVersion {
	return schedule.WorkflowVersion{
		WorkflowID: r.id(name), Version: version, DAG: json.RawMessage(dag), Hash: sha256.Sum256([]byte(dag)), CreatedAt: r.now, UserID: r.id("owner"),
	}
}

func (r *rig) getWorkflow(w schedule.WorkflowVersion) schedule.WorkflowVersion {
	r.Helper()
	got, err := r.GetWorkflow(r.ctx, w.UserID, w.WorkflowID, w.Version)
	r.ok(err, "get workflow")
	return *got
}

func workflowSurvives(r *rig) {
	w := r.version("kept", 1<<31-1, string(rawJSON))
	w.CreatedAt = odd(1)
	r.everyFieldSet(reflect.ValueOf(w), "WorkflowVersion")
	r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	got := r.getWorkflow(w)
	equal(r, "workflow versions", got, stored(w))
	r.inUTC("WorkflowVersion", got)
	dag, err := r.LoadDAG(r.ctx, w.UserID, w.WorkflowID, w.Version)
	r.ok(err, "load DAG")
	r.same("DAG", dag, w.DAG)
}

func workflowSame(r *rig) {
	w := r.version("same", 1, `{"a": 1}`)
	r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	again := w
	again.DAG, again.CreatedAt = json.RawMessage(`{"a":1}`), r.at(1) // another spelling of the same canonical form
	r.ok(r.PutWorkflow(r.ctx, &again), "put it again")
	equal(r, "workflow versions", r.getWorkflow(w), w)
}

func workflowOther(r *rig) {
	w := r.version("other", 1, `{"a": 1}`)
	r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	other := r.version("other", 1, `{"a": 2}`)
	err := r.PutWorkflow(r.ctx, &other)
	r.hold(errors.Is(err, schedule.ErrExists), "another DAG is refused with ErrExists, got %v", err)
	equal(r, "workflow versions", r.getWorkflow(w), w)
	next := r.version("other", 2, `{"a": 2}`)
	r.ok(r.PutWorkflow(r.ctx, &next), "put the next version")
}

func workflowUnknown(r *rig) {
	w := r.version("known", 1, `{}`)
	r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	for name, version := range map[string]int32{"known": 2, "unknown": 1} {
		_, err := r.GetWorkflow(r.ctx, w.UserID, r.id(name), version)
		r.hold(errors.Is(err, schedule.ErrNotFound), "GetWorkflow %s@%d: ErrNotFound, got %v", name, version, err)
		_, err = r.LoadDAG(r.ctx, w.UserID, r.id(name), version)
		r.hold(errors.Is(err, schedule.ErrNotFound), "LoadDAG %s@%d: ErrNotFound, got %v", name, version, err)
	}
}

func workflowList(r *rig) {
	var want []schedule.WorkflowVersion
	for _, version := range []int32{2, 10, 1, 9, 3} {
		w := r.version("listed", version, fmt.Sprintf(`{"v": %d}`, version))
		r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	}
	for _, version := range []int32{10, 9, 3, 2, 1} {
		w := r.version("listed", version, fmt.Sprintf(`{"v": %d}`, version))
		w.DAG = nil
		want = append(want, w)
	}
	list := func(before int32, limit int) []schedule.WorkflowVersion {
		f := schedule.WorkflowFilter{WorkflowID: r.id("listed"), Limit: limit}
		if before > 0 {
			f.Before.Version, f.Before.UserID = before, r.id("owner")
		}
		got, err := r.ListWorkflows(r.ctx, f)
		r.ok(err, "list workflows")
		return got
	}
	equal(r, "versions", list(0, 10), want)
	equal(r, "the first page", list(0, 2), want[:2])
	equal(r, "the second page", list(9, 2), want[2:4])
	equal(r, "the last page", list(2, 2), want[4:])
	equal(r, "beyond the last", list(1, 2), nil)
}

func workflowRace(r *rig) {
	var wg sync.WaitGroup
	var stored atomic.Int64
	for i := range 10 {
		w := r.version("raced", 1, fmt.Sprintf(`{"i": %d}`, i))
		wg.Go(func() {
			switch err := r.PutWorkflow(r.ctx, &w); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, schedule.ErrExists):
				r.Errorf("put workflow: ErrExists, got %v", err)
			}
		})
	}
	wg.Wait()
	r.hold(stored.Load() == 1, "one is stored, got %d", stored.Load())
}
