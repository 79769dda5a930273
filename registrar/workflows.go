package registrar

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// What begins the managed_by of schedules that a deployment made, or a set.
const (
	managedByWorkflow = "workflow:"
	managedBySet      = "set:"
)

// PutWorkflow stores one immutable version of a workflow. The same again is no
// error; the same version with another DAG is ErrExists.
func (r *Registrar) PutWorkflow(ctx context.Context, workflowID string, version int32, dag json.RawMessage) (*schedule.WorkflowVersion, error) {
	w, err := r.workflowVersion(workflowID, version, dag)
	if err != nil {
		return nil, err
	}
	if err := r.checkMirror(ctx, w); err != nil {
		return nil, err
	}
	if err := r.workflows.PutWorkflow(ctx, w); err != nil {
		return nil, err
	}
	if err := r.copyToMirror(ctx, w); err != nil {
		return nil, err
	}
	// Who sends the same DAG may be told of it, whoever sent it first.
	return r.all.workflows.GetWorkflow(ctx, workflowID, version)
}

// GetWorkflow answers one version with its DAG as it was sent.
func (r *Registrar) GetWorkflow(ctx context.Context, workflowID string, version int32) (*schedule.WorkflowVersion, error) {
	return r.workflows.GetWorkflow(ctx, workflowID, version)
}

// ListWorkflows answers the versions of a workflow, newest first, without DAGs.
func (r *Registrar) ListWorkflows(ctx context.Context, workflowID string, before int32, limit int) ([]schedule.WorkflowVersion, error) {
	return r.workflows.ListWorkflows(ctx, workflowID, before, limit)
}

func (r *Registrar) workflowVersion(workflowID string, version int32, dag json.RawMessage) (*schedule.WorkflowVersion, error) {
	var c schedule.Collect
	checkID(&c, "workflow_id", workflowID)
	if version < 1 {
		c.Add("version", version, "is below 1", "workflow versions count from 1")
	}
	if len(dag) == 0 {
		c.Note("dag", "is required", "send the workflow's DAG as JSON")
	} else if len(dag) > schedule.MaxDAGBytes {
		c.Note("dag", fmt.Sprintf("has %d bytes, more than %d", len(dag), schedule.MaxDAGBytes), "")
	} else if problem := jsonProblem(dag); problem != "" {
		c.Note("dag", problem, "")
	} else {
		checkIdentity(&c, workflowID, version, dag)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	hash, err := schedule.CanonicalHash(dag)
	if err != nil {
		return nil, schedule.Invalid("dag", "", err.Error(), "")
	}
	return &schedule.WorkflowVersion{WorkflowID: workflowID, Version: version, DAG: dag, Hash: hash, CreatedAt: r.now()}, nil
}

// checkIdentity refuses a DAG that names another workflow or version than the
// one it is stored under. Both members are optional.
func checkIdentity(c *schedule.Collect, workflowID string, version int32, dag json.RawMessage) {
	var named struct {
		WorkflowID *string `json:"workflow_id"`
		Version    *int32  `json:"version"`
	}
	if err := json.Unmarshal(dag, &named); err != nil {
		c.Note("dag", "is not a JSON object with workflow_id (text) and version (number): "+err.Error(), "")
		return
	}
	if named.WorkflowID != nil && *named.WorkflowID != workflowID {
		c.Add("dag.workflow_id", *named.WorkflowID, fmt.Sprintf("differs from %q, which it is sent as", workflowID), "")
	}
	if named.Version != nil && *named.Version != version {
		c.Add("dag.version", *named.Version, fmt.Sprintf("differs from %d, which it is sent as", version), "")
	}
}

// DeployWorkflow stores the DAG and makes its triggers into schedules, all or
// nothing. Schedules that an earlier deploy of this workflow made and that it
// no longer names are deleted. A pause survives, and so does its end. A request
// id makes a repeat harmless even after another deploy.
func (r *Registrar) DeployWorkflow(ctx context.Context, in DeployInput) ([]UpsertResult, error) {
	w, err := r.workflowVersion(in.WorkflowID, in.Version, in.DAG)
	if err != nil {
		return nil, err
	}
	w.UserID = in.UserID
	managedBy := managedByWorkflow + in.WorkflowID
	ids := make(map[string]bool, len(in.Triggers))
	for i := range in.Triggers {
		d := &in.Triggers[i].Definition
		d.ManagedBy = managedBy
		if ids[d.ScheduleID] {
			return nil, schedule.Invalid("dag.triggers", d.ScheduleID, "is the name of two triggers", "names must differ")
		}
		ids[d.ScheduleID] = true
	}
	done, err := r.upsertAll(ctx, &upserts{
		inputs: in.Triggers, fields: in.Fields, workflows: []*schedule.WorkflowVersion{w},
		managed: schedule.Managed{By: managedBy, UserID: in.UserID}, prune: true, adopt: in.Adopt,
		requestID: in.RequestID, actor: in.Actor,
	})
	if err != nil {
		return nil, err
	}
	results := make([]UpsertResult, len(in.Triggers))
	for i := range results {
		results[i] = done.deeds[i].result
	}
	return results, nil
}
