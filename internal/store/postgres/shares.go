package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// OwnsWorkflow reports whether an owner has stored a version of the workflow, or has a
// share of it.
func (s *Store) OwnsWorkflow(ctx context.Context, userID, workflowID string) (owns bool, err error) {
	if err := s.pool.QueryRow(ctx, sqlOwnsWorkflow, userID, workflowID).Scan(&owns); err != nil {
		return false, fmt.Errorf("look whose workflow %s is: %w", schedule.Quote(workflowID), err)
	}
	return owns, nil
}

// WorkflowAccess returns what is stored for each use, in the order of the uses.
func (s *Store) WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
	var standing schedule.WorkflowAccess
	out := make([]schedule.WorkflowAccess, 0, len(uses))
	err := each(ctx, s.pool, []any{&standing.Own, &standing.Given}, func() error {
		out = append(out, standing)
		return nil
	}, sqlWorkflowStandings,
		column(uses, func(u *schedule.WorkflowUse) string { return u.UserID }),
		column(uses, func(u *schedule.WorkflowUse) string { return u.WorkflowID }),
		column(uses, func(u *schedule.WorkflowUse) int32 { return u.Version }))
	if err != nil {
		return nil, fmt.Errorf("look whose versions runs load: %w", err)
	}
	return out, nil
}

// ShareWorkflow shares a workflow with an owner and returns the share; it writes nothing
// if the share exists.
func (s *Store) ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error) {
	var givenAt pgtype.Timestamptz
	standing := schedule.WorkflowShare{WorkflowID: share.WorkflowID, UserID: share.UserID}
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlShareWorkflow, share.WorkflowID, share.UserID, noneOrText(share.GivenBy), share.GivenAt); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sqlGetShare, share.WorkflowID, share.UserID).Scan(&standing.GivenBy, &givenAt)
	})
	if err != nil {
		return standing, fmt.Errorf("share workflow: %w", err)
	}
	standing.GivenAt = givenAt.Time.UTC()
	return standing, nil
}

// UnshareWorkflow removes a share; schedule.ErrNotFound if there is none.
func (s *Store) UnshareWorkflow(ctx context.Context, workflowID, userID string) error {
	var deleted int
	err := s.transact(ctx, func(tx pgx.Tx) (err error) {
		deleted, err = affect(ctx, tx, sqlUnshareWorkflow, workflowID, userID)
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
	var share schedule.WorkflowShare
	var givenAt pgtype.Timestamptz
	var found []schedule.WorkflowShare
	err := each(ctx, s.pool, []any{&share.WorkflowID, &share.UserID, &share.GivenBy, &givenAt}, func() error {
		share.GivenAt = givenAt.Time.UTC()
		found = append(found, share)
		return nil
	}, sqlListShares, workflowID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list shares: %w", err)
	}
	return found, nil
}

// giveWorkflows writes the shares of changes that share their workflow.
func giveWorkflows(ctx context.Context, tx pgx.Tx, changes []schedule.Change) error {
	type change = schedule.Change
	var gifts []change
	for i := range changes {
		if changes[i].SharesWorkflow && changes[i].Row != nil {
			gifts = append(gifts, changes[i])
		}
	}
	if len(gifts) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlGiveWorkflows,
		column(gifts, func(c *change) string { return c.Row.WorkflowID }),
		column(gifts, func(c *change) string { return c.Row.UserID }),
		column(gifts, func(c *change) int32 { return c.Row.Version }),
		column(gifts, func(c *change) pgtype.Text { return noneOrText(c.ChangedBy) }),
		column(gifts, func(c *change) pgtype.Timestamptz { return pgtype.Timestamptz{Time: c.Now, Valid: true} }))
	if err != nil {
		return fmt.Errorf("give workflows: %w", err)
	}
	return nil
}
