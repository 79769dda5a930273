package registrar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// Prefixes of managed_by for deployments and sets.
const (
	managedByWorkflow = "workflow:"
	managedBySet      = "set:"
)

// PutWorkflow stores one immutable version of a workflow. The same again is no
// error; the same version of the same owner with another DAG is ErrExists.
func (r *Registrar) PutWorkflow(ctx context.Context, in WorkflowInput) (*schedule.WorkflowVersion, error) {
	switch owner := auth.FromContext(ctx).Owner; {
	case owner != "" && in.UserID == "":
		in.UserID = owner
	case owner != "" && in.UserID != owner:
		return nil, notOwn(in.UserID)
	}
	w, err := r.workflowVersion(in)
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
	return r.workflows.GetWorkflow(ctx, w.UserID, w.WorkflowID, w.Version)
}

// GetWorkflow answers one version with its DAG as it was sent: the one that runs
// of the owner userID load. Without an owner it is the one stored for all owners,
// or the only one there is.
func (r *Registrar) GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error) {
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID, Version: version}
	if !ownOnly(ctx, &use.UserID) {
		return nil, noWorkflow(use)
	}
	from := ""
	if use.UserID != "" {
		standings, err := r.shares.WorkflowAccess(ctx, []schedule.WorkflowUse{use})
		if err != nil {
			return nil, err
		}
		var ok bool
		if from, ok = use.LoadsFrom(standings[0]); !ok {
			return nil, noWorkflow(use)
		}
	}
	found, err := r.workflows.GetWorkflow(ctx, from, workflowID, version)
	if errors.Is(err, schedule.ErrNotFound) {
		if use.UserID == "" {
			return r.onlyWorkflow(ctx, use)
		}
		err = noWorkflow(use)
	}
	return found, err
}

// onlyWorkflow is the version of the one owner who has stored it.
func (r *Registrar) onlyWorkflow(ctx context.Context, use schedule.WorkflowUse) (*schedule.WorkflowVersion, error) {
	const shown = 10
	owned, err := r.workflows.ListWorkflows(ctx, schedule.WorkflowFilter{WorkflowID: use.WorkflowID, Version: use.Version, Limit: shown + 1})
	switch {
	case err != nil:
		return nil, err
	case len(owned) == 0:
		return nil, noWorkflow(use)
	case len(owned) == 1:
		return r.workflows.GetWorkflow(ctx, owned[0].UserID, use.WorkflowID, use.Version)
	}
	var owners []string
	for i := range owned {
		owners = append(owners, owned[i].UserID)
	}
	slices.Sort(owners)
	names := strings.Join(owners, ", ")
	if len(owners) > shown {
		names = strings.Join(owners[:shown], ", ") + " and others"
	}
	return nil, &schedule.InvalidError{Violations: []schedule.Violation{{
		Field:   "user_id",
		Problem: fmt.Sprintf("is required: several owners have a version %d of workflow %s: %s", use.Version, schedule.Quote(use.WorkflowID), names),
		Hint:    "name one of them",
	}}}
}

// noWorkflow is the same error for missing and for other owners' workflows, to reveal nothing.
func noWorkflow(use schedule.WorkflowUse) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no version %d of workflow %s", use.Version, schedule.Quote(use.WorkflowID))
}

// ListWorkflows lists versions without DAGs: those that runs of the owner userID load, or all
// without an owner. f has the page.
func (r *Registrar) ListWorkflows(ctx context.Context, userID string, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	if !ownOnly(ctx, &userID) {
		return nil, nil
	}
	if userID == "" {
		return r.workflows.ListWorkflows(ctx, f)
	}
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: f.WorkflowID}
	standings, err := r.shares.WorkflowAccess(ctx, []schedule.WorkflowUse{use})
	if err != nil {
		return nil, err
	}
	f.UserIDs = []string{userID}
	if from, ok := use.LoadsFrom(standings[0]); ok {
		f.UserIDs = append(f.UserIDs, from)
	}
	return r.ownersVersions(ctx, f)
}

// ownersVersions drops versions for all owners that the owner has stored too; the owner's comes
// right before.
func (r *Registrar) ownersVersions(ctx context.Context, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	var out []schedule.WorkflowVersion
	limit := f.Limit
	for {
		page, err := r.workflows.ListWorkflows(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			w := &page[i]
			if w.Version != f.Before.Version && len(out) < limit {
				out = append(out, *w)
			}
			f.Before.Version, f.Before.UserID = w.Version, w.UserID
		}
		if len(page) < f.Limit || len(out) == limit {
			return out, nil
		}
	}
}

func (r *Registrar) workflowVersion(in WorkflowInput) (*schedule.WorkflowVersion, error) {
	workflowID, version, dag := in.WorkflowID, in.Version, in.DAG
	var c schedule.Collect
	checkID(&c, "workflow_id", workflowID)
	if in.UserID != "" {
		checkOwner(&c, in.UserID)
	}
	if version < 1 {
		c.Add("version", version, "is below 1", "workflow versions start at 1")
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
	return &schedule.WorkflowVersion{WorkflowID: workflowID, UserID: in.UserID, Version: version, DAG: dag, Hash: hash, CreatedAt: r.now()}, nil
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
	w, err := r.workflowVersion(WorkflowInput{WorkflowID: in.WorkflowID, Version: in.Version, UserID: in.UserID, DAG: in.DAG})
	if err != nil {
		return nil, err
	}
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
		results[i] = done.results[i].result
	}
	return results, nil
}
