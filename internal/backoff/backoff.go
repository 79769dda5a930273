// Package backoff spaces repeated attempts: each wait is half as long again as the
// one before, up to a limit, and varies by half either way so that processes which
// failed together do not retry together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delays are the waits between attempts. Set First and Last.
type Delays struct {
	First, Last time.Duration
	next        time.Duration // 0: First
}

// Next is how long to wait before the next attempt.
func (d *Delays) Next() time.Duration {
	if d.next == 0 {
		d.next = d.First
	}
	wait := d.next/2 + rand.N(d.next)
	d.next = min(d.next+d.next/2, d.Last)
	return wait
}

// Reset begins with First again, after a success.
func (d *Delays) Reset() { d.next = 0 }

// Retry calls attempt until it succeeds or again refuses its error, and returns
// that error. If ctx ends during a wait, it returns why.
func Retry(ctx context.Context, d Delays, attempt func() error, again func(error) bool) error {
	for {
		err := attempt()
		if err == nil || !again(err) {
			return err
		}
		timer := time.NewTimer(d.Next())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
