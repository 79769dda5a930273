package launcher

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines returns contexts with a timeout. Calls that begin at about the same
// time share one: a context and a timer for each call of a burst would cost as
// much as the rest of the call.
type deadlines struct {
	after  time.Duration
	newest atomic.Pointer[deadline]
}

// deadline is a context that ends only by its timeout. It is never cancelled,
// because its other users are not known.
type deadline struct {
	context.Context
	cancel context.CancelFunc
	since  time.Time
}

// from returns a context that ends at now + after, or earlier by at most a
// thousandth of after.
func (d *deadlines) from(now time.Time) context.Context {
	newest := d.newest.Load()
	if newest != nil && now.Sub(newest.since) < d.after/1000 {
		return newest
	}
	one := &deadline{since: now}
	one.Context, one.cancel = context.WithDeadline(context.Background(), now.Add(d.after))
	d.newest.CompareAndSwap(newest, one) // if another caller was faster, its context is shared
	return one
}
