package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// PutWorkflow stores a version; the same one again is no write, another one
// under the same name is schedule.ErrExists.
func (s *Store) PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error {
	now := s.Now()
	err := s.write(ctx, func(ctx context.Context, t tx) error { return putWorkflow(ctx, t, w, now) })
	if err != nil {
		return fmt.Errorf("put workflow: %w", err)
	}
	return nil
}

func putWorkflow(ctx context.Context, t tx, w *schedule.WorkflowVersion, now time.Time) error {
	n, err := t.exec(ctx, sqlPutWorkflow, w.WorkflowID, int64(w.Version), string(w.DAG), w.Hash[:], either(w.CreatedAt, now).UnixMicro(), w.UserID)
	if err != nil {
		return fmt.Errorf("write workflow %s version %d: %w", w.WorkflowID, w.Version, err)
	}
	if n == 1 {
		return nil
	}
	there, err := readWorkflows(ctx, t, sqlGetWorkflow, w.WorkflowID, w.UserID, int64(w.Version))
	if err != nil {
		return fmt.Errorf("read workflow %s version %d: %w", w.WorkflowID, w.Version, err)
	}
	if len(there) == 1 && there[0].Hash == w.Hash {
		return nil
	}
	return schedule.Explain(schedule.ErrExists, "workflow %s version %d is stored with another DAG, and versions never change: send it as a new version",
		w.WorkflowID, w.Version)
}

// GetWorkflow is a version with its DAG, as stored for exactly this owner, or
// with userID "" for all owners; schedule.ErrNotFound.
func (s *Store) GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error) {
	versions, err := readWorkflows(ctx, s.readers, sqlGetWorkflow, workflowID, userID, int64(version))
	if err == nil && len(versions) == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get workflow %s version %d: %w", workflowID, version, err)
	}
	return &versions[0], nil
}

// ListWorkflows returns versions without their DAGs, newest first.
func (s *Store) ListWorkflows(ctx context.Context, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	var owners any // NULL: everybody's
	if f.UserIDs != nil {
		owners = list(f.UserIDs)
	}
	versions, err := readWorkflows(ctx, s.readers, sqlListWorkflows, f.WorkflowID, int64(f.Version), owners,
		int64(f.Before.Version), f.Before.UserID, limitOf(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list versions of workflow %s: %w", f.WorkflowID, err)
	}
	return versions, nil
}

// LoadDAG is the DAG JSON as it was sent, stored for exactly this owner;
// schedule.ErrNotFound.
func (s *Store) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	var dag raw
	err := s.readers.query(ctx, sqlLoadDAG, func(scan scan) error { return scan(&dag) }, workflowID, userID, int64(version))
	if err == nil && dag == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("load DAG of workflow %s version %d: %w", workflowID, version, err)
	}
	return dag, nil
}

func readWorkflows(ctx context.Context, q querier, statement string, args ...any) ([]schedule.WorkflowVersion, error) {
	var id, user text
	var version number
	var dag raw
	var hash key
	var created instant
	var versions []schedule.WorkflowVersion
	err := q.query(ctx, statement, func(scan scan) error {
		if err := scan(&id, &version, &dag, &hash, &created, &user); err != nil {
			return err
		}
		versions = append(versions, schedule.WorkflowVersion{
			WorkflowID: string(id), Version: int32(version), DAG: []byte(dag), Hash: hash, CreatedAt: created.Time, UserID: string(user),
		})
		return nil
	}, args...)
	return versions, err
}
