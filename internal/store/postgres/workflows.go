package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// PutWorkflow stores a version; it writes nothing if the same one is stored.
func (s *Store) PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error {
	err := s.transact(ctx, func(tx pgx.Tx) error { return putWorkflow(ctx, tx, w) })
	if err != nil {
		return fmt.Errorf("put workflow: %w", err)
	}
	return nil
}

func putWorkflow(ctx context.Context, tx pgx.Tx, w *schedule.WorkflowVersion) error {
	inserted, err := affect(ctx, tx, sqlPutWorkflow, w.WorkflowID, w.Version, string(w.DAG), w.Hash[:], w.CreatedAt, w.UserID)
	if err != nil {
		return fmt.Errorf("insert workflow version: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	var hash []byte
	if err := tx.QueryRow(ctx, sqlWorkflowHash, w.WorkflowID, w.UserID, w.Version).Scan(&hash); err != nil {
		return fmt.Errorf("read workflow version: %w", err)
	}
	if string(hash) != string(w.Hash[:]) {
		return schedule.Explain(schedule.ErrExists,
			"version %d of workflow %s is stored with another DAG; give the new one a new version", w.Version, w.WorkflowID)
	}
	return nil
}

// GetWorkflow returns one version with its DAG, stored for exactly this owner, or for all
// owners if userID is empty; or schedule.ErrNotFound.
func (s *Store) GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error) {
	found, err := s.workflows(ctx, sqlGetWorkflow, workflowID, userID, version)
	if err != nil {
		return nil, fmt.Errorf("get workflow: %w", err)
	}
	if len(found) == 0 {
		return nil, unknownWorkflow(workflowID, version)
	}
	return &found[0], nil
}

// ListWorkflows returns versions without their DAGs, newest first.
func (s *Store) ListWorkflows(ctx context.Context, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	found, err := s.workflows(ctx, sqlListWorkflows, f.WorkflowID, f.Version, f.UserIDs, f.Before.Version, f.Before.UserID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list workflows: %w", err)
	}
	return found, nil
}

func (s *Store) workflows(ctx context.Context, statement string, args ...any) ([]schedule.WorkflowVersion, error) {
	var (
		w         schedule.WorkflowVersion
		dag       string
		hash      []byte
		createdAt pgtype.Timestamptz
		found     []schedule.WorkflowVersion
	)
	err := each(ctx, s.pool, []any{&w.WorkflowID, &w.Version, &dag, &hash, &createdAt, &w.UserID}, func() error {
		w.DAG = nil
		if dag != "" {
			w.DAG = []byte(dag)
		}
		copy(w.Hash[:], hash)
		w.CreatedAt = createdAt.Time.UTC()
		found = append(found, w)
		return nil
	}, statement, args...)
	return found, err
}

// LoadDAG returns the DAG as it was sent, stored for exactly this owner, or
// schedule.ErrNotFound.
func (s *Store) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	var dag string
	err := s.pool.QueryRow(ctx, sqlLoadDAG, workflowID, userID, version).Scan(&dag)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, unknownWorkflow(workflowID, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load DAG: %w", err)
	}
	return []byte(dag), nil
}

func unknownWorkflow(workflowID string, version int32) error {
	return fmt.Errorf("version %d of workflow %s: %w", version, schedule.Quote(workflowID), schedule.ErrNotFound)
}
