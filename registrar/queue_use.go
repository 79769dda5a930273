package registrar

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// checkQueueUse adds what is wrong with the queue of a definition by itself.
func checkQueueUse(c *schedule.Collect, d *schedule.Definition) {
	const hint = "set queue_id, or leave it out"
	if d.QueueID != "" {
		checkID(c, "queue_id", d.QueueID)
	} else {
		if len(d.Limits) > 0 {
			c.Note("limits", "is set without queue_id: only runs of a queue use limits", hint)
		}
		if d.FairKey != "" {
			c.Note("fair_key", "is set without queue_id: only runs of a queue take turns", hint)
		}
		if d.Group != "" {
			c.Note("group", "is set without queue_id: only runs of a queue have groups", hint)
		}
		if d.ExpiresMS != 0 {
			c.Note("expires_ms", "is set without queue_id: only runs of a queue wait for an admission", hint)
		}
	}
	schedule.CheckExpires(c, d.ExpiresMS)
	schedule.CheckLimitRefs(c, "limits", d.Limits)
	schedule.CheckFairKey(c, "fair_key", d.FairKey)
	if d.Group != "" {
		checkID(c, "group", d.Group)
	}
}

// checkQueues refuses schedules that name a queue that does not exist or is not for their owner,
// or limits or webhooks that their runs may not use.
func (r *Registrar) checkQueues(ctx context.Context, all *upserts) error {
	limits := r.usableLimits()
	queues := make(map[string]*schedule.Queue)
	var found schedule.InvalidError
	add := func(i int, c *schedule.Collect) {
		if invalid, ok := errors.AsType[*schedule.InvalidError](all.prefixed(i, c.Err())); ok {
			found.Violations = append(found.Violations, invalid.Violations...)
		}
	}
	for i := range all.definitions {
		d := &all.definitions[i]
		if d.QueueID == "" {
			if d.Webhook != "" {
				var c schedule.Collect
				r.checkWebhook(&c, d.Webhook, d.UserID, false)
				add(i, &c)
			}
			continue
		}
		if r.queues == nil {
			return schedule.ErrUnsupported
		}
		q, known := queues[d.QueueID]
		if !known {
			var err error
			if q, err = r.namedQueue(ctx, d.QueueID); err != nil {
				return err
			}
			queues[d.QueueID] = q
		}
		var c schedule.Collect
		if err := r.checkQueueOf(ctx, &c, limits, q, d); err != nil {
			return err
		}
		add(i, &c)
	}
	if len(found.Violations) > 0 {
		return &found
	}
	if len(queues) == 0 {
		return nil
	}
	return r.boundQueues(ctx)
}

// namedQueue is the queue that a schedule names; nil: the caller sees none. The queue "default" is
// made at its first use.
func (r *Registrar) namedQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	q, err := r.enterableQueue(ctx, queueID)
	if errors.Is(err, schedule.ErrNotFound) {
		return nil, nil
	}
	return q, err
}

func (r *Registrar) checkQueueOf(ctx context.Context, c *schedule.Collect, limits *usableLimits, q *schedule.Queue, d *schedule.Definition) error {
	if !q.Takes(d.UserID) {
		c.Add("queue_id", d.QueueID, "does not exist, or is another owner's and not shared", "create it with `carillon queue upsert`")
		return nil
	}
	if err := limits.check(ctx, c, "limits", d.UserID, d.Limits); err != nil {
		return err
	}
	mergeLimits(c, "limits", q, d.Limits)
	if d.Webhook != "" {
		r.checkWebhook(c, d.Webhook, d.UserID, false)
	}
	return nil
}

// shownSchedules is how many schedules of a queue are named.
const shownSchedules = 20

// SchedulesOfQueue returns the schedules that name a queue, those of the caller, up to 20.
func (r *Registrar) SchedulesOfQueue(ctx context.Context, queueID string) ([]string, error) {
	if r.queues == nil {
		return nil, nil
	}
	return r.queues.SchedulesOfQueue(ctx, queueID, auth.FromContext(ctx).Owner, shownSchedules)
}

// maxQueuedOf is how many runs of a schedule in queues are counted.
const maxQueuedOf = 1000

// queuedOf returns the runs of a schedule that wait in queues.
func (r *Registrar) queuedOf(ctx context.Context, scheduleID string) (queued []schedule.Run, err error) {
	runs, err := r.ledger.ListRuns(ctx, schedule.RunFilter{
		ScheduleID: scheduleID, Statuses: []schedule.Status{schedule.StatusEnqueued}, Now: r.now(), Limit: maxQueuedOf,
	})
	for i := range runs {
		if runs[i].Queue.In() && runs[i].Stage() == schedule.StatusPlanned {
			queued = append(queued, runs[i])
		}
	}
	return queued, err
}

// endQueued ends the runs of a paused schedule that wait in queues.
func (r *Registrar) endQueued(ctx context.Context, scheduleID, note string) (ended int, err error) {
	for {
		runs, err := r.queuedOf(ctx, scheduleID)
		if err != nil || len(runs) == 0 {
			return ended, err
		}
		for i := range runs {
			run, _, err := r.ledger.ChangeRun(ctx, runs[i].Key, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
				if found.Run.Stage() != schedule.StatusPlanned || !found.Run.Queue.In() {
					return schedule.RunChange{}, schedule.ErrPrecondition // it was admitted meanwhile
				}
				now := r.now()
				end := schedule.Settlement{Key: found.Run.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonPaused, ErrorMessage: note, CompletedAt: now}
				return schedule.RunChange{Settle: &end, Now: now}, nil
			})
			switch {
			case errors.Is(err, schedule.ErrPrecondition) || errors.Is(err, schedule.ErrNotFound):
			case err != nil:
				return ended, err
			default:
				r.ended(run.Status, run.Reason)
				ended++
			}
		}
	}
}
