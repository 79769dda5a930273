package memory

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
	id := schedule.WorkflowUse{UserID: w.UserID, WorkflowID: w.WorkflowID, Version: w.Version}
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

// GetWorkflow is a version with its DAG, as stored for exactly this owner;
// schedule.ErrNotFound.
func (s *Store) GetWorkflow(ctx context.Context, userID, id string, version int32) (*schedule.WorkflowVersion, error) {
	var row schedule.WorkflowVersion
	err := s.read(ctx, func() error {
		found, known := s.workflows[schedule.WorkflowUse{UserID: userID, WorkflowID: id, Version: version}]
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

// ListWorkflows returns versions without their DAGs, newest first.
func (s *Store) ListWorkflows(ctx context.Context, f schedule.WorkflowFilter) (versions []schedule.WorkflowVersion, err error) {
	err = s.read(ctx, func() error {
		for v, row := range s.workflows {
			before := f.Before.Version == 0 || cmp.Or(cmp.Compare(v.Version, f.Before.Version), cmp.Compare(v.UserID, f.Before.UserID)) < 0
			if v.WorkflowID != f.WorkflowID || f.Version != 0 && v.Version != f.Version || f.UserIDs != nil && !slices.Contains(f.UserIDs, v.UserID) || !before {
				continue
			}
			row.DAG = nil
			versions = append(versions, row)
		}
		return nil
	})
	slices.SortFunc(versions, func(a, b schedule.WorkflowVersion) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(b.UserID, a.UserID))
	})
	return versions[:min(len(versions), schedule.PageSize(f.Limit))], err
}

// LoadDAG is the DAG JSON as it was sent, stored for exactly this owner;
// schedule.ErrNotFound.
func (s *Store) LoadDAG(ctx context.Context, userID, id string, version int32) ([]byte, error) {
	w, err := s.GetWorkflow(ctx, userID, id, version)
	if err != nil {
		return nil, fmt.Errorf("load DAG: %w", err)
	}
	return w.DAG, nil
}

// shareID is the key of a share.
type shareID struct{ workflowID, userID string }

// OwnsWorkflow reports whether an owner has stored a version of the workflow, or has a
// share of it.
func (s *Store) OwnsWorkflow(ctx context.Context, userID, id string) (owns bool, err error) {
	err = s.read(ctx, func() error {
		owns = s.given(userID, id)
		for v := range s.workflows {
			owns = owns || v.UserID == userID && v.WorkflowID == id
		}
		return nil
	})
	return owns, err
}

func (s *Store) given(userID, workflowID string) bool {
	_, one := s.shares[shareID{workflowID, userID}]
	_, all := s.shares[shareID{workflowID, schedule.AllOwners}]
	return one || all
}

// WorkflowAccess returns what is stored for each use, in the order of the uses.
func (s *Store) WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) (out []schedule.WorkflowAccess, err error) {
	err = s.read(ctx, func() error {
		for _, u := range uses {
			_, own := s.workflows[u]
			out = append(out, schedule.WorkflowAccess{Own: own, Given: s.given(u.UserID, u.WorkflowID)})
		}
		return nil
	})
	return out, err
}

// ShareWorkflow gives an owner a workflow; the same again is no write.
func (s *Store) ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (standing schedule.WorkflowShare, err error) {
	err = s.write(ctx, func(t *tx) error {
		t.putShare(share)
		standing = t.shares[shareID{share.WorkflowID, share.UserID}]
		return nil
	})
	return standing, err
}

func (t *tx) putShare(share schedule.WorkflowShare) {
	id := shareID{share.WorkflowID, share.UserID}
	if _, there := t.shares[id]; there {
		return
	}
	share.GivenAt = at(share.GivenAt)
	t.shares[id] = share
	t.undo = append(t.undo, func() { delete(t.shares, id) })
}

// giveWorkflow writes the share of a change that gives its workflow away.
func (t *tx) giveWorkflow(c *schedule.Change) {
	if !c.SharesWorkflow || c.Row == nil {
		return
	}
	_, own := t.workflows[schedule.WorkflowUse{UserID: c.Row.UserID, WorkflowID: c.Row.WorkflowID, Version: c.Row.Version}]
	if !own && !t.given(c.Row.UserID, c.Row.WorkflowID) {
		t.putShare(schedule.WorkflowShare{WorkflowID: c.Row.WorkflowID, UserID: c.Row.UserID, GivenBy: c.ChangedBy, GivenAt: c.Now})
	}
}

// UnshareWorkflow removes a share; schedule.ErrNotFound if there is none.
func (s *Store) UnshareWorkflow(ctx context.Context, workflowID, userID string) error {
	return s.write(ctx, func(t *tx) error {
		id := shareID{workflowID, userID}
		share, there := t.shares[id]
		if !there {
			return schedule.ErrNotFound
		}
		delete(t.shares, id)
		t.undo = append(t.undo, func() { t.shares[id] = share })
		return nil
	})
}

// sharePlace puts schedule.AllOwners before every owner.
func sharePlace(userID string) string {
	if userID == schedule.AllOwners {
		return ""
	}
	return userID
}

// ListShares returns shares in order of user_id, schedule.AllOwners first.
func (s *Store) ListShares(ctx context.Context, workflowID, after string, limit int) (shares []schedule.WorkflowShare, err error) {
	err = s.read(ctx, func() error {
		for id, share := range s.shares {
			if id.workflowID == workflowID && (after == "" || sharePlace(id.userID) > sharePlace(after)) {
				shares = append(shares, share)
			}
		}
		return nil
	})
	slices.SortFunc(shares, func(a, b schedule.WorkflowShare) int { return cmp.Compare(sharePlace(a.UserID), sharePlace(b.UserID)) })
	return shares[:min(len(shares), schedule.PageSize(limit))], err
}
