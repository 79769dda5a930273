package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

func workflowFields(w *schedule.WorkflowVersion) []any {
	return []any{&w.WorkflowID, &w.Version, &w.DAG, (*schedule.Key)(&w.Hash), &w.CreatedAt, &w.UserID}
}

// PutWorkflow stores a version; it writes nothing if the same one is stored.
func (t *Tables) PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error {
	err := t.write(ctx, func(ctx context.Context, q Queries) error { return t.dialect.putWorkflow(ctx, q, w) })
	if err != nil {
		return fmt.Errorf("put workflow: %w", err)
	}
	return nil
}

func (d *Dialect) putWorkflow(ctx context.Context, q Queries, w *schedule.WorkflowVersion) error {
	inserted, err := q.Exec(ctx, sqlPutWorkflow, w.WorkflowID, w.Version, string(w.DAG), w.Hash[:], w.CreatedAt, w.UserID)
	if err != nil {
		return fmt.Errorf("insert workflow version: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	there, err := collect(ctx, q, workflowFields, sqlGetWorkflow, w.WorkflowID, w.UserID, w.Version)
	if err != nil {
		return fmt.Errorf("read workflow version: %w", err)
	}
	if len(there) == 1 && there[0].Hash == w.Hash {
		return nil
	}
	return schedule.Explain(schedule.ErrExists,
		"version %d of workflow %s is stored with another DAG; give the new one a new version", w.Version, w.WorkflowID)
}

// GetWorkflow returns one version with its DAG, stored for exactly this owner, or for all
// owners if userID is empty; or schedule.ErrNotFound.
func (t *Tables) GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error) {
	found, err := collect(ctx, t.read, workflowFields, sqlGetWorkflow, workflowID, userID, version)
	if err == nil && len(found) == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %s: %w", version, schedule.Quote(workflowID), err)
	}
	return &found[0], nil
}

// ListWorkflows returns versions without their DAGs, newest first.
func (t *Tables) ListWorkflows(ctx context.Context, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	found, err := collect(ctx, t.read, workflowFields, t.dialect.ListWorkflows, f.WorkflowID, f.Version, f.UserIDs, f.Before.Version, f.Before.UserID, schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list workflows: %w", err)
	}
	return found, nil
}

// LoadDAG returns the DAG as it was sent, stored for exactly this owner, or
// schedule.ErrNotFound.
func (t *Tables) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	var dag json.RawMessage
	there, err := one(ctx, t.read, []any{&dag}, sqlLoadDAG, workflowID, userID, version)
	if err == nil && !there {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("load version %d of workflow %s: %w", version, schedule.Quote(workflowID), err)
	}
	return dag, nil
}

// OwnsWorkflow reports whether an owner has stored a version of the workflow, or has a
// share of it.
func (t *Tables) OwnsWorkflow(ctx context.Context, userID, workflowID string) (owns bool, err error) {
	if _, err := one(ctx, t.read, []any{&owns}, sqlOwnsWorkflow, userID, workflowID); err != nil {
		return false, fmt.Errorf("read the owners of workflow %s: %w", schedule.Quote(workflowID), err)
	}
	return owns, nil
}

// WorkflowAccess returns what is stored for each use, in the order of the uses.
func (t *Tables) WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
	users, ids, versions := make([]string, len(uses)), make([]string, len(uses)), make([]int32, len(uses))
	for i, u := range uses {
		users[i], ids[i], versions[i] = u.UserID, u.WorkflowID, u.Version
	}
	fields := func(a *schedule.WorkflowAccess) []any { return []any{&a.Own, &a.Given} }
	found, err := collect(ctx, t.read, fields, t.dialect.WorkflowAccess, Rows{users, ids, versions})
	if err != nil {
		return nil, fmt.Errorf("read access to workflows: %w", err)
	}
	return found, nil
}

func shareFields(s *schedule.WorkflowShare) []any {
	return []any{&s.WorkflowID, &s.UserID, &s.GivenBy, &s.GivenAt}
}

// ShareWorkflow shares a workflow with an owner and returns the share; it writes nothing
// if the share exists.
func (t *Tables) ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error) {
	err := t.write(ctx, func(ctx context.Context, q Queries) error {
		if _, err := q.Exec(ctx, sqlShareWorkflow, share.WorkflowID, share.UserID, orNull(share.GivenBy), share.GivenAt); err != nil {
			return err
		}
		_, err := one(ctx, q, shareFields(&share), sqlGetShare, share.WorkflowID, share.UserID)
		return err
	})
	if err != nil {
		return share, fmt.Errorf("share workflow: %w", err)
	}
	return share, nil
}

// UnshareWorkflow removes a share; schedule.ErrNotFound if there is none.
func (t *Tables) UnshareWorkflow(ctx context.Context, workflowID, userID string) error {
	err := t.write(ctx, func(ctx context.Context, q Queries) error {
		deleted, err := q.Exec(ctx, sqlUnshareWorkflow, workflowID, userID)
		if err == nil && deleted == 0 {
			err = schedule.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("unshare workflow: %w", err)
	}
	return nil
}

// ListShares returns shares in order of user_id, schedule.AllOwners first.
func (t *Tables) ListShares(ctx context.Context, workflowID, after string, limit int) ([]schedule.WorkflowShare, error) {
	found, err := collect(ctx, t.read, shareFields, sqlListShares, workflowID, after, schedule.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list shares: %w", err)
	}
	return found, nil
}

// BeginDeploy starts a change of a set of schedules: it checks whether the request was
// handled before, and stores workflow versions and grants, in one lock order, so that it
// cannot deadlock.
func (d *Dialect) BeginDeploy(ctx context.Context, q Queries, req *schedule.ChangeRequest) error {
	if req.Deploy != nil {
		if err := d.rememberDeploy(ctx, q, req.Managed, req.Deploy); err != nil {
			return err
		}
	}
	for _, w := range slices.SortedFunc(slices.Values(req.Workflows), schedule.CompareVersions) {
		if err := d.putWorkflow(ctx, q, w); err != nil {
			return err
		}
	}
	for _, g := range slices.SortedFunc(slices.Values(req.Grants), func(a, b schedule.Grant) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.GrantID, b.GrantID))
	}) {
		if err := d.putGrant(ctx, q, &g); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dialect) rememberDeploy(ctx context.Context, q Queries, m schedule.Managed, deploy *schedule.Deploy) error {
	inserted, err := q.Exec(ctx, sqlInsertDeploy, m.By, m.UserID, deploy.RequestID, deploy.Hash[:], deploy.Now)
	if err != nil {
		return fmt.Errorf("remember the deploy: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	var hash schedule.Key
	if _, err := one(ctx, q, []any{&hash}, sqlDeployHash, m.By, m.UserID, deploy.RequestID); err != nil {
		return fmt.Errorf("read the deploy: %w", err)
	}
	return schedule.RepeatedDeploy(deploy, hash[:])
}
