package registrar

import (
	"context"
	"maps"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// checkQuotas repeats the store's quota check for a dry run.
func (r *Registrar) checkQuotas(ctx context.Context, results []changeResult) error {
	grows, creates := make(map[string]int), make(map[string]bool)
	for i := range results {
		switch d := &results[i]; d.action {
		case ActionCreate:
			grows[d.result.Schedule.UserID]++
			creates[d.result.Schedule.UserID] = true
		case ActionDelete:
			grows[d.before.UserID]--
		}
	}
	limit := r.cfg.OwnerMaxSchedules
	if limit <= 0 {
		return nil
	}
	for _, owner := range slices.Sorted(maps.Keys(creates)) {
		living, err := r.countLiving(ctx, owner, limit-grows[owner]+1)
		if err != nil {
			return err
		}
		if err := schedule.CheckQuota(owner, living+grows[owner], limit); err != nil {
			return err
		}
	}
	return nil
}

// countLiving counts an owner's schedules, no further than enough.
func (r *Registrar) countLiving(ctx context.Context, owner string, enough int) (living int, err error) {
	f := schedule.ScheduleFilter{UserID: owner, Now: r.now()}
	for living < enough {
		f.Limit = min(enough-living, schedule.MaxPageSize)
		rows, err := r.unscoped.ListSchedules(ctx, f)
		if err != nil {
			return 0, err
		}
		living += len(rows)
		if len(rows) < f.Limit {
			break
		}
		f.After = rows[len(rows)-1].ScheduleID
	}
	return living, nil
}
