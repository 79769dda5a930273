package registrar

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// usableLimits reads limits that requests name, each once.
type usableLimits struct {
	store LimitStore
	known map[string]*schedule.Limit // nil: it does not exist
}

func (r *Registrar) usableLimits() *usableLimits {
	return &usableLimits{store: r.limits, known: make(map[string]*schedule.Limit)}
}

// check adds what is wrong with valid references in a field of a request for runs of an owner.
func (u *usableLimits) check(ctx context.Context, c *schedule.Collect, field, owner string, texts []string) error {
	for i, text := range texts {
		ref, valid := schedule.ParseLimitRef(text)
		if !valid {
			continue // it is refused already
		}
		l, err := u.read(ctx, ref.ID)
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case l == nil || l.UserID != owner && !l.Shared:
			c.Add(at, text, "does not exist, or is another owner's", "create it with `carillon limit upsert`")
		case l.Keyed && ref.Key == "":
			c.Add(at, text, "has no key", "the limit counts for each key: name "+ref.ID+"=KEY")
		case !l.Keyed && ref.Key != "":
			c.Add(at, text, "has a key", "the limit has none: name "+ref.ID)
		}
	}
	return nil
}

func (u *usableLimits) read(ctx context.Context, id string) (*schedule.Limit, error) {
	l, known := u.known[id]
	if known || u.store == nil {
		return l, nil
	}
	l, err := u.store.GetLimit(ctx, id)
	if err != nil && !errors.Is(err, schedule.ErrNotFound) {
		return nil, err
	}
	u.known[id] = l
	return l, nil
}

// mergeLimits are the limits of a run of a queue. own are its own, in a field of the request.
func mergeLimits(c *schedule.Collect, field string, q *schedule.Queue, own []string) schedule.Limits {
	merged, err := schedule.MergeLimits(q.Limits, own)
	if err != nil {
		c.Note(field, err.Error(), "queue "+schedule.Quote(q.QueueID)+" has its own limits; keep fewer")
	}
	return merged
}

// boundQueues makes the limit of all queues as it is configured, before the first run of this
// process enters.
func (r *Registrar) boundQueues(ctx context.Context) error {
	most := r.cfg.QueuesMaxInFlight
	if most == 0 || r.bound.Load() {
		return nil
	}
	_, err := r.limits.ChangeLimit(ctx, schedule.AllQueuesLimit, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		now := r.now()
		after := schedule.Limit{CreatedAt: now}
		switch {
		case f.Limit == nil:
		case f.Limit.UserID != schedule.OperatorOwner:
			return schedule.LimitChange{}, schedule.Explain(schedule.ErrPrecondition, "QUEUES_MAX_IN_FLIGHT needs the limit %s, which is owned by %s: delete it", schedule.AllQueuesLimit, schedule.Quote(f.Limit.UserID))
		case f.Limit.MaxInFlight == most:
			return schedule.LimitChange{}, nil
		default:
			after = *f.Limit
		}
		after.LimitDefinition = schedule.LimitDefinition{
			LimitID: schedule.AllQueuesLimit, UserID: schedule.OperatorOwner, Shared: true, MaxInFlight: most, Note: "made by QUEUES_MAX_IN_FLIGHT",
		}
		after.UpdatedAt = now
		after.Revision++
		return schedule.LimitChange{After: &after, Now: now}, nil
	})
	if err == nil {
		r.bound.Store(true)
	}
	return err
}

// bounded adds the limit of all queues to those of a run.
func (r *Registrar) bounded(limits schedule.Limits) schedule.Limits {
	if r.cfg.QueuesMaxInFlight == 0 {
		return limits
	}
	return limits.With(schedule.LimitRef{ID: schedule.AllQueuesLimit})
}
