package registrar

import (
	"context"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// QueueWorkers are the workers that have fetched runs of a queue in the last day, the last one
// first, and the runs that they have. They work for all owners: none to a caller who does not see
// them.
func (r *Registrar) QueueWorkers(ctx context.Context, q *schedule.Queue) ([]schedule.QueueWorker, map[string][]schedule.Key, error) {
	if r.entries == nil || !auth.FromContext(ctx).Sees(q.UserID) {
		return nil, nil, nil
	}
	return r.entries.QueueWorkers(ctx, q.No)
}
