package launcher

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines are contexts that end a while after they were asked for. What asks
// at about one time shares one, and nothing is locked for it: a context and a
// timer for each call of a herd cost as much as the rest of the call.
type deadlines struct {
	after  time.Duration
	newest atomic.Pointer[deadline]
}

// deadline ends by its time and in no other way, since nobody knows who else
// uses it: so they are few, sharing a thousandth of their length.
type deadline struct {
	context.Context
	cancel context.CancelFunc
	since  time.Time
}

// from gives a context that ends so long after now as was asked for, or a
// thousandth earlier.
func (d *deadlines) from(now time.Time) context.Context {
	newest := d.newest.Load()
	if newest != nil && now.Sub(newest.since) < d.after/1000 {
		return newest
	}
	one := &deadline{since: now}
	one.Context, one.cancel = context.WithDeadline(context.Background(), now.Add(d.after))
	d.newest.CompareAndSwap(newest, one) // if somebody else was faster, that one is shared
	return one
}
