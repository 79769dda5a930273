package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

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
