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

// newFeature is what processes of older releases would treat wrongly: they would start runs outside
// of their queue, end them without a retry or a message, or not at all, or let runs overlap.
type newFeature struct {
	name string // of schedule.Features
	what string // for people
	uses func(*schedule.Definition) bool
}

// newFeatures has no entry for the retry and history of a queue: runs in queues need this release,
// whatever their queue says.
var newFeatures = []newFeature{
	{schedule.FeatureQueues, "a queue, retries, a webhook or max_run_ms", func(d *schedule.Definition) bool {
		return d.QueueID != "" || d.Retry.Attempts() > 1 || d.Webhook != "" || d.MaxRunMS > 0
	}},
	{schedule.FeatureEvents, "consume", func(d *schedule.Definition) bool { return d.Consume.Any() }},
	{schedule.FeatureEvents, "overlap_policy coalesce", func(d *schedule.Definition) bool {
		return d.OverlapPolicy == schedule.OverlapCoalesce
	}},
}

// checkFeatures refuses schedules while a process runs that does not know what they use.
func (r *Registrar) checkFeatures(ctx context.Context, all *upserts) error {
	var used []usedFeature
	for _, f := range newFeatures {
		if at := slices.IndexFunc(all.definitions, func(d schedule.Definition) bool { return f.uses(&d) }); at >= 0 {
			used = append(used, usedFeature{f.name, fmt.Sprintf("schedule %s has %s", schedule.Quote(all.definitions[at].ScheduleID), f.what)})
		}
	}
	return r.checkProcesses(ctx, used...)
}

// checkPolicyKnown refuses a run that is to have another overlap policy than its schedule.
func (r *Registrar) checkPolicyKnown(ctx context.Context, p schedule.OverlapPolicy) error {
	if p != schedule.OverlapCoalesce {
		return nil
	}
	return r.checkProcesses(ctx, usedFeature{schedule.FeatureEvents, "the run is to have overlap_policy coalesce"})
}

// usedFeature is a feature that a change uses.
type usedFeature struct {
	name string // of schedule.Features
	what string // what of the change uses it, as a clause
}

// checkProcesses refuses a change while a worker or launcher runs that lacks one of the features.
func (r *Registrar) checkProcesses(ctx context.Context, used ...usedFeature) error {
	if r.instances == nil || len(used) == 0 {
		return nil
	}
	instances, err := r.instances.Instances(ctx, seenLately)
	if err != nil {
		return fmt.Errorf("look for processes of older releases: %w", err)
	}
	for _, u := range used {
		lacks := func(p schedule.Instance) bool {
			return (p.Has("worker") || p.Has("launcher")) && !slices.Contains(p.Features, u.name)
		}
		if i := slices.IndexFunc(instances, lacks); i >= 0 {
			p := &instances[i]
			return schedule.Explain(schedule.ErrPrecondition, "%s, which process %s (%s, release %s) does not know; upgrade or stop it, and try again a minute later",
				u.what, p.ID, p.Host, p.Version)
		}
	}
	return nil
}
