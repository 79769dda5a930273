package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// checkQuotas returns the owners with too many schedules. It counts after all writes,
// right before the commit: of two transactions that create for one owner at once, the
// second waits here and then counts what the first has committed.
func checkQuotas(ctx context.Context, tx pgx.Tx, changes []schedule.Change, limit int) (over, err error) {
	owners := schedule.Creators(changes)
	if limit <= 0 || len(owners) == 0 {
		return nil, nil
	}
	living, err := countLiving(ctx, tx, owners)
	if err != nil {
		return nil, err
	}
	for _, owner := range owners {
		if over := schedule.CheckQuota(owner, living[owner], limit); over != nil {
			return over, nil
		}
	}
	return nil, nil
}

// countLiving counts the schedules of owners and locks the owners' quotas until the
// transaction ends.
func countLiving(ctx context.Context, tx pgx.Tx, owners []string) (map[string]int, error) {
	if _, err := tx.Exec(ctx, sqlQuotaLock, owners); err != nil {
		return nil, fmt.Errorf("lock quotas: %w", err)
	}
	var (
		owner string
		n     int
	)
	living := make(map[string]int, len(owners))
	err := each(ctx, tx, []any{&owner, &n}, func() error {
		living[owner] = n
		return nil
	}, sqlQuotaCount, owners)
	if err != nil {
		return nil, fmt.Errorf("count schedules of owners: %w", err)
	}
	return living, nil
}
