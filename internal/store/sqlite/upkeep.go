package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Upkeep reads what background work has left undone.
func (s *Store) Upkeep(ctx context.Context, now time.Time) (u schedule.Upkeep, err error) {
	err = s.readers.query(ctx, sqlUpkeep, func(scan scan) error { return scan(&u.Unswept, &u.EndedOpen) }, now.UnixMicro())
	if err != nil {
		return u, fmt.Errorf("measure upkeep: %w", err)
	}
	u.SeenUntil, err = seenUntil(ctx, s.readers)
	return u, err
}
