package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// OwnsWorkflow reports whether an owner has stored a version of the workflow, or has a
// share of it.
func (s *Store) OwnsWorkflow(ctx context.Context, userID, workflowID string) (bool, error) {
	var owns flag
	err := s.readers.query(ctx, sqlOwnsWorkflow, func(scan scan) error { return scan(&owns) }, userID, workflowID)
	if err != nil {
		return false, fmt.Errorf("look whose workflow %s is: %w", schedule.Quote(workflowID), err)
	}
	return bool(owns), nil
}

// WorkflowAccess returns what is stored for each use, in the order of the uses.
func (s *Store) WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
	asked := make([][3]any, len(uses))
	for i, u := range uses {
		asked[i] = [3]any{u.UserID, u.WorkflowID, u.Version}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("name the versions that runs load: %w", err)
	}
	var own, given flag
	out := make([]schedule.WorkflowAccess, 0, len(uses))
	err = s.readers.query(ctx, sqlWorkflowStandings, func(scan scan) error {
		if err := scan(&own, &given); err != nil {
			return err
		}
		out = append(out, schedule.WorkflowAccess{Own: bool(own), Given: bool(given)})
		return nil
	}, string(text))
	if err != nil {
		return nil, fmt.Errorf("look whose versions runs load: %w", err)
	}
	return out, nil
}

// ShareWorkflow shares a workflow with an owner and returns the share; it writes nothing
// if the share exists.
func (s *Store) ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error) {
	var givenBy text
	var givenAt instant
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		if _, err := t.exec(ctx, sqlShareWorkflow, share.WorkflowID, share.UserID, word(share.GivenBy), share.GivenAt.UnixMicro()); err != nil {
			return err
		}
		return t.query(ctx, sqlGetShare, func(scan scan) error { return scan(&givenBy, &givenAt) }, share.WorkflowID, share.UserID)
	})
	if err != nil {
		return share, fmt.Errorf("share workflow: %w", err)
	}
	share.GivenBy, share.GivenAt = string(givenBy), givenAt.Time
	return share, nil
}

// UnshareWorkflow removes a share; schedule.ErrNotFound if there is none.
func (s *Store) UnshareWorkflow(ctx context.Context, workflowID, userID string) error {
	var deleted int64
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		deleted, err = t.exec(ctx, sqlUnshareWorkflow, workflowID, userID)
		return err
	})
	if err == nil && deleted == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("unshare workflow: %w", err)
	}
	return nil
}

// ListShares returns shares in order of user_id, schedule.AllOwners first.
func (s *Store) ListShares(ctx context.Context, workflowID, after string, limit int) ([]schedule.WorkflowShare, error) {
	var id, user, givenBy text
	var givenAt instant
	var found []schedule.WorkflowShare
	err := s.readers.query(ctx, sqlListShares, func(scan scan) error {
		if err := scan(&id, &user, &givenBy, &givenAt); err != nil {
			return err
		}
		found = append(found, schedule.WorkflowShare{WorkflowID: string(id), UserID: string(user), GivenBy: string(givenBy), GivenAt: givenAt.Time})
		return nil
	}, workflowID, after, limitOf(limit))
	if err != nil {
		return nil, fmt.Errorf("list shares of workflow %s: %w", workflowID, err)
	}
	return found, nil
}

// giveWorkflow writes the share of a change that gives its workflow away.
func giveWorkflow(ctx context.Context, t tx, c *schedule.Change) error {
	if !c.SharesWorkflow || c.Row == nil {
		return nil
	}
	_, err := t.exec(ctx, sqlGiveWorkflow, c.Row.WorkflowID, c.Row.UserID, int64(c.Row.Version), word(c.ChangedBy), c.Now.UnixMicro())
	if err != nil {
		return fmt.Errorf("give workflow: %w", err)
	}
	return nil
}
