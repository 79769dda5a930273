package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// PutWorkflow stores a version; the same one again is no write, another one
// under the same name is schedule.ErrExists.
func (s *Store) PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error {
	return s.write(ctx, func(t *tx) error { return t.putWorkflow(w, s.Now()) })
}

func (t *tx) putWorkflow(w *schedule.WorkflowVersion, now time.Time) error {
	id := workflowID{w.WorkflowID, w.Version}
	if there, known := t.workflows[id]; known {
		if there.Hash == w.Hash {
			return nil
		}
		return schedule.Explain(schedule.ErrExists, "workflow %s version %d is stored with another DAG, and versions never change: send it as a new version",
			w.WorkflowID, w.Version)
	}
	row := *w
	row.DAG, row.CreatedAt = clone(w.DAG), either(w.CreatedAt, now)
	t.workflows[id] = row
	t.undo = append(t.undo, func() { delete(t.workflows, id) })
	return nil
}

// GetWorkflow is a version with its DAG; schedule.ErrNotFound.
func (s *Store) GetWorkflow(ctx context.Context, id string, version int32) (*schedule.WorkflowVersion, error) {
	var row schedule.WorkflowVersion
	err := s.read(ctx, func() error {
		found, known := s.workflows[workflowID{id, version}]
		if !known {
			return schedule.ErrNotFound
		}
		row = found
		row.DAG = clone(found.DAG)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get workflow %s version %d: %w", id, version, err)
	}
	return &row, nil
}

// ListWorkflows is newest version first, without the DAGs.
func (s *Store) ListWorkflows(ctx context.Context, id string, before int32, limit int) (versions []schedule.WorkflowVersion, err error) {
	err = s.read(ctx, func() error {
		for v, row := range s.workflows {
			if v.id == id && (before <= 0 || v.version < before) {
				row.DAG = nil
				versions = append(versions, row)
			}
		}
		return nil
	})
	slices.SortFunc(versions, func(a, b schedule.WorkflowVersion) int { return cmp.Compare(b.Version, a.Version) })
	return versions[:min(len(versions), limitOf(limit))], err
}

// LoadDAG is the DAG JSON as it was sent; schedule.ErrNotFound.
func (s *Store) LoadDAG(ctx context.Context, id string, version int32) ([]byte, error) {
	w, err := s.GetWorkflow(ctx, id, version)
	if err != nil {
		return nil, fmt.Errorf("load DAG: %w", err)
	}
	return w.DAG, nil
}
