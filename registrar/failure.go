package registrar

import (
	"context"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// addRecent adds how the newest runs of each schedule ended, up to limit.
func (r *Registrar) addRecent(ctx context.Context, views []View, limit int) error {
	if r.recent == nil || len(views) == 0 {
		return nil
	}
	ids := make([]string, len(views))
	for i := range views {
		ids[i] = views[i].Schedule.ScheduleID
	}
	recent, err := r.recent.RecentOutcomes(ctx, ids, limit)
	if err != nil {
		return err
	}
	for i := range views {
		views[i].Recent = recent[ids[i]]
	}
	return nil
}

// FailureGroups are the failing schedules grouped by how they fail: of one owner, or "" for all. A
// caller with an owner gets only that owner's.
func (r *Registrar) FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error) {
	if owner := auth.FromContext(ctx).Owner; owner != "" {
		if userID != "" && userID != owner {
			return nil, nil
		}
		userID = owner
	}
	if r.recent == nil {
		return nil, nil
	}
	return r.recent.FailureGroups(ctx, userID)
}
