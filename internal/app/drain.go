package app

import (
	"context"
	"errors"
	"time"
)

// drainMargin is how much longer than a call of the executor open requests may
// take at the end.
const drainMargin = 2 * time.Second

// leastDrain is what open requests have when the worker took all of the bound.
const leastDrain = 500 * time.Millisecond

// bound is how long the end of the process may take: as long as one call of
// the executor, which a worker here or elsewhere may wait for.
func (a *App) bound() time.Duration { return ms(a.cfg.ExecutorTimeoutMS) + drainMargin }

// drain is how long open requests may take once the worker has ended: what is
// left of the bound, and a moment at least.
func (a *App) drain() time.Duration {
	since := time.Since(time.Unix(0, a.told.Load()))
	return max(leastDrain, a.bound()-since)
}

// mayServe says that a process which was told to end wants no new requests.
func (a *App) mayServe(context.Context) error {
	if a.told.Load() != 0 {
		return errors.New("shutting down")
	}
	return nil
}
