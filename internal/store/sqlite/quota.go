package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// checkQuotas counts after all is written; there is one writer at a time.
func checkQuotas(ctx context.Context, t tx, changes []schedule.Change, limit int) error {
	owners := schedule.Creators(changes)
	if limit <= 0 || len(owners) == 0 {
		return nil
	}
	var (
		owner  string
		living int
		over   error
	)
	err := t.query(ctx, sqlQuotaCount, func(scan scan) error {
		if err := scan(&owner, &living); err != nil {
			return err
		}
		if err := schedule.CheckQuota(owner, living, limit); over == nil {
			over = err
		}
		return nil
	}, list(owners))
	if err != nil {
		return fmt.Errorf("count schedules of owners: %w", err)
	}
	return over
}
