package registrar

import (
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// maxCountedOwners bounds the owners with a count that is remembered.
const maxCountedOwners = 10_000

// ownerCounts remembers a count of each owner: of its runs that wait in queues, or its pending events.
type ownerCounts struct {
	mu sync.Mutex
	of map[string]*ownerCount
}

// ownerCount is the last count of one owner.
type ownerCount struct {
	mu      sync.Mutex // held during a count: others wait for its result
	waiting int
	at      time.Time
	took    time.Duration
}

func (c *ownerCounts) get(userID string) *ownerCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.of[userID]
	if o == nil {
		if c.of == nil || len(c.of) >= maxCountedOwners { // forgotten owners are counted again
			c.of = make(map[string]*ownerCount)
		}
		o = &ownerCount{}
		c.of[userID] = o
	}
	return o
}

// entered adds to the last count what this process has written.
func (c *ownerCounts) entered(userID string, more int) {
	c.mu.Lock()
	o := c.of[userID]
	c.mu.Unlock()
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += more
}

// ownerFull returns what refuses n runs that are too many for a caller of role user; about more are
// expected.
func (r *Registrar) ownerFull(ctx context.Context, userID string, more int) (full func(n int) error, err error) {
	limit := r.cfg.OwnerMaxWaiting
	if limit <= 0 || more == 0 || auth.FromContext(ctx).Owner == "" {
		return neverFull, nil
	}
	waiting, again, err := r.owners.count(ctx, r.entries.CountWaitingOf, userID, more, limit)
	return func(n int) error { return schedule.CheckWaitingQuota(userID, waiting, n, limit, again) }, err
}

// checkPending refuses events of a caller that acts for an owner with too many pending ones.
func (r *Registrar) checkPending(ctx context.Context, userID string, events int) error {
	limit := r.cfg.OwnerMaxPending
	if limit <= 0 || auth.FromContext(ctx).Owner == "" {
		return nil
	}
	pending, again, err := r.pending.count(ctx, r.events.CountPendingOf, userID, events, limit)
	if err != nil {
		return err
	}
	return schedule.CheckPendingQuota(userID, pending, limit, again)
}

// countOf counts what waits of an owner, up to limit.
type countOf func(ctx context.Context, userID string, limit int) (int, error)

// count is how much of an owner waits, and when it is counted again. A count is used as long as that of
// a queue, and near the limit it is fresh.
func (c *ownerCounts) count(ctx context.Context, of countOf, userID string, more, limit int) (waiting int, again time.Duration, err error) {
	o := c.get(userID)
	o.mu.Lock()
	defer o.mu.Unlock()
	began := time.Now()
	valid := countRest * o.took
	if o.waiting+more <= limit/10*9 {
		valid = max(valid, countFor)
	}
	if o.at.IsZero() || began.Sub(o.at) >= valid {
		if o.waiting, err = of(ctx, userID, limit+1); err != nil {
			return 0, 0, err
		}
		o.at, o.took = began, time.Since(began)
	}
	return o.waiting, max(countRest*o.took-time.Since(o.at), countFor).Round(time.Second), nil
}
