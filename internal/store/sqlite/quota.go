package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// checkQuotas returns the owners with too many schedules. It counts after all writes;
// there is one writer at a time.
func checkQuotas(ctx context.Context, t tx, changes []schedule.Change, limit int) (over, err error) {
	owners := schedule.Creators(changes)
	if limit <= 0 || len(owners) == 0 {
		return nil, nil
	}
	var (
		owner  string
		living int
	)
	err = t.query(ctx, sqlQuotaCount, func(scan scan) error {
		if err := scan(&owner, &living); err != nil {
			return err
		}
		if err := schedule.CheckQuota(owner, living, limit); over == nil {
			over = err
		}
		return nil
	}, list(owners))
	if err != nil {
		return nil, fmt.Errorf("count schedules of owners: %w", err)
	}
	return over, nil
}
