package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Upkeep reads what background work has left undone.
func (s *Store) Upkeep(ctx context.Context, now time.Time) (u schedule.Upkeep, err error) {
	if err := s.pool.QueryRow(ctx, sqlUpkeep, now).Scan(&u.Unswept, &u.EndedOpen, &u.DeadRows); err != nil {
		return u, fmt.Errorf("measure upkeep: %w", err)
	}
	if u.SeenUntil, err = seenUntil(ctx, s.pool); err != nil {
		return u, fmt.Errorf("read seen_until: %w", err)
	}
	return u, nil
}
