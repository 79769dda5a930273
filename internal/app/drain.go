package app

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// drainMargin is the time for open requests after the longest call of the executor.
const drainMargin = 2 * time.Second

// leastDrain is the time for open requests even if the worker used up shutdownTimeout.
const leastDrain = 500 * time.Millisecond

// shutdownTimeout allows one call of the executor to end, for which a worker in this or another
// process may wait.
func (a *App) shutdownTimeout() time.Duration { return ms(a.cfg.ExecutorTimeoutMS) + drainMargin }

// drain is the time for open requests after the worker has stopped: the rest of shutdownTimeout, at
// least leastDrain.
func (a *App) drain() time.Duration {
	since := time.Since(time.Unix(0, a.stopAt.Load()))
	return max(leastDrain, a.shutdownTimeout()-since)
}

// mayServe makes /readyz fail during shutdown, so that load balancers send no new requests.
func (a *App) mayServe(context.Context) error {
	if a.stopAt.Load() != 0 {
		return errors.New("shutting down")
	}
	return nil
}

// serveExecutor runs the executor of this process among the servers. stop ends it, and returns
// when its runs are over: until then they can report and call the API.
func (a *App) serveExecutor(ctx context.Context, servers *errgroup.Group) (stop func()) {
	if a.executor == nil || a.executor.serve == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	servers.Go(func() error {
		defer close(ended)
		return a.executor.serve(ctx)
	})
	return func() { cancel(); <-ended }
}
