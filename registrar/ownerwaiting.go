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

// ownerCounts remembers how many runs of owners wait in queues.
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

// entered adds runs of this process to the last count.
func (c *ownerCounts) entered(userID string, runs int) {
	c.mu.Lock()
	o := c.of[userID]
	c.mu.Unlock()
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += runs
}

// ownerFull returns what refuses n runs that are too many for a caller of role user; about more are
// expected.
func (r *Registrar) ownerFull(ctx context.Context, userID string, more int) (full func(n int) error, err error) {
	limit := r.cfg.OwnerMaxWaiting
	if limit <= 0 || more == 0 || auth.FromContext(ctx).Owner == "" {
		return neverFull, nil
	}
	waiting, again, err := r.waitingOf(ctx, userID, more, limit)
	return func(n int) error { return schedule.CheckWaitingQuota(userID, waiting, n, limit, again) }, err
}

// waitingOf is how many runs of an owner wait in queues, and when they are counted again. A count is
// used as long as that of a queue, and near the limit it is fresh.
func (r *Registrar) waitingOf(ctx context.Context, userID string, more, limit int) (waiting int, again time.Duration, err error) {
	o := r.owners.get(userID)
	o.mu.Lock()
	defer o.mu.Unlock()
	began := time.Now()
	valid := countRest * o.took
	if o.waiting+more <= limit/10*9 {
		valid = max(valid, countFor)
	}
	if o.at.IsZero() || began.Sub(o.at) >= valid {
		if o.waiting, err = r.entries.CountWaitingOf(ctx, userID, limit+1); err != nil {
			return 0, 0, err
		}
		o.at, o.took = began, time.Since(began)
	}
	return o.waiting, max(countRest*o.took-time.Since(o.at), countFor).Round(time.Second), nil
}
