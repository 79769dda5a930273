package app

import (
	"fmt"

	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/worker"
)

// openQueue opens the client of LAUNCH_QUEUE for the roles that use it.
func (a *App) openQueue() (err error) {
	if a.cfg.LaunchQueue != "redis" || !a.cfg.Has("worker") && !a.cfg.Has("launcher") {
		return nil
	}
	if a.queue, err = launchqueue.Open(a.cfg.RedisURL.Reveal()); err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	return nil
}

// buildConsumer builds the launcher's consumer of the queue.
func (a *App) buildConsumer() {
	if a.queue == nil || a.launch == nil {
		return
	}
	a.consumer = launchqueue.New(launchqueue.Options{
		ID: a.id, Redis: a.queue, Launcher: a.launch, Store: a.store, Now: a.store.Now, Logger: a.log,
		Metrics: a.queueMetrics(), Observer: a.runMetrics(),
		MaxLaunches: a.cfg.MaxLaunches, Drain: a.shutdownTimeout(),
	})
}

// queueMetrics returns the metrics of the launch queue, registered once for publisher and consumer.
func (a *App) queueMetrics() *launchqueue.Metrics {
	if a.queued == nil {
		a.queued = launchqueue.NewMetrics(a.registry)
	}
	return a.queued
}

// runMetrics returns the metrics of runs, registered once for worker, registrar and queue consumer.
func (a *App) runMetrics() *worker.Metrics {
	if a.runs == nil {
		a.runs = worker.NewMetrics(a.registry)
	}
	return a.runs
}
