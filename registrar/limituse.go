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
