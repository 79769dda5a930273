package registrar

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// seenLately is within which a process counts that may go on.
const seenLately = time.Minute

// checkFeatures refuses schedules with a queue, automatic retries, a webhook or max_run_ms while a
// process runs that knows none of them: it would start their runs outside of the queue, or end them
// without a retry or a message, or not at all. The retry and history of a queue have no check of
// their own: runs in queues need this release, whatever their queue says.
func (r *Registrar) checkFeatures(ctx context.Context, all *upserts) error {
	if r.instances == nil {
		return nil
	}
	at := slices.IndexFunc(all.definitions, func(d schedule.Definition) bool {
		return d.Consume.Any() || d.QueueID != "" || d.Retry.Attempts() > 1 || d.Webhook != "" || d.MaxRunMS > 0
	})
	if at < 0 {
		return nil
	}
	instances, err := r.instances.Instances(ctx, seenLately)
	if err != nil {
		return fmt.Errorf("look for processes of older releases: %w", err)
	}
	if consumer := slices.IndexFunc(all.definitions, func(d schedule.Definition) bool { return d.Consume.Any() }); consumer >= 0 {
		for i := range instances {
			if p := &instances[i]; (p.Has("worker") || p.Has("launcher")) && !slices.Contains(p.Features, schedule.FeatureEvents) {
				return schedule.Explain(schedule.ErrPrecondition, "schedule %s consumes events, and process %s (%s, release %s) knows none; upgrade or stop it, and try again a minute later",
					schedule.Quote(all.definitions[consumer].ScheduleID), p.ID, p.Host, p.Version)
			}
		}
	}
	for i := range instances {
		p := &instances[i]
		if (p.Has("worker") || p.Has("launcher")) && !slices.Contains(p.Features, schedule.FeatureQueues) {
			return schedule.Explain(schedule.ErrPrecondition, "schedule %s has a queue, retries, a webhook or max_run_ms, and process %s (%s, release %s) knows none of them; upgrade or stop it, and try again a minute later",
				schedule.Quote(all.definitions[at].ScheduleID), p.ID, p.Host, p.Version)
		}
	}
	return nil
}
