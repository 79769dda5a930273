package sqlite

import (
	"context"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// countEnds adds the runs that are in no row of history to their minutes.
func countEnds(ctx context.Context, t tx, rows []*openRow) error {
	counted := slices.DeleteFunc(slices.Clone(rows), func(r *openRow) bool { return !r.counted })
	return dialect.CountEnds(ctx, queries{t}, len(counted), func(i int) (*schedule.Run, int32) { return &counted[i].Run, counted[i].SID })
}
