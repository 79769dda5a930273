package registrar

import (
	"context"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// How far the shares of a fair queue are counted.
const (
	countedShares = 10_000
	shownShares   = 50
)

// QueueShares are the keys of a fair queue with runs that wait, the one with the most runs first.
// Keys are of all owners: none to a caller who does not see them.
func (r *Registrar) QueueShares(ctx context.Context, q *schedule.Queue) ([]schedule.QueueShare, error) {
	if r.entries == nil || !q.IsFair() || !auth.FromContext(ctx).Sees(q.UserID) {
		return nil, nil
	}
	return r.entries.QueueShares(ctx, q.No, countedShares, shownShares)
}
