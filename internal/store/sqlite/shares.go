package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

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
