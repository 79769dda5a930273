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
	u.SeenUntil = make(map[int]time.Time)
	err = s.readers.query(ctx, sqlSeenUntils, func(scan scan) error {
		var shard int
		var until instant
		err := scan(&shard, &until)
		u.SeenUntil[shard] = until.Time
		return err
	})
	if err != nil {
		return u, fmt.Errorf("read seen_until: %w", err)
	}
	return u, nil
}
