package sqlite

import (
	"context"
	"fmt"
)

// LimitPages keeps the file from growing beyond n pages, as a full disk would; 0
// removes the limit.
func (s *Store) LimitPages(ctx context.Context, n int) error {
	if n == 0 {
		n = 1 << 30
	}
	return s.writer.transact(ctx, func(ctx context.Context, t tx) error {
		return t.query(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, n), func(scan scan) error { return scan(&n) })
	})
}
