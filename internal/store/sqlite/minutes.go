package sqlite

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// countEnds adds the runs that are in no row of history to their minutes.
func countEnds(ctx context.Context, t tx, rows []*openRow) error {
	var counted []*openRow
	for _, r := range rows {
		if r.counted {
			counted = append(counted, r)
		}
	}
	return dialect.CountEnds(ctx, queries{t}, len(counted), func(i int) (*schedule.Run, int32) { return &counted[i].Run, counted[i].SID })
}
