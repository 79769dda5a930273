package app

import (
	"context"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher/presence"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/worker"
)

// buildPresence builds the presence lock of a process that launches.
func (a *App) buildPresence() {
	var lock presence.Lock = presence.Sessions{
		URL: a.cfg.DatabaseURL.Reveal(), TakePresence: postgres.TakePresence, ServerGeneration: postgres.ServerGeneration,
	}
	if s, ok := a.store.(*sqlite.Store); ok {
		lock = presence.Files{Path: s.PresenceFile, Generation: sqlite.Generation}
	}
	a.presence = presence.New(presence.Options{
		Store: a.store, Lock: lock, ID: a.id, Host: thisHost(), Now: a.store.Now, Logger: a.log, Register: a.registry,
	})
}

// holdPresence holds the presence lock until stop. It must be released last, because calls of this
// process may be open until then.
func (a *App) holdPresence() (stop func()) {
	if a.presence == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); a.presence.Run(ctx, a.launch.MoveKeys) }()
	return func() { cancel(); <-over }
}

// mayLaunch reports why launches of this process would fail. While the
// database is away they fail everywhere, and no other worker would do better.
func (a *App) mayLaunch(ctx context.Context) error {
	if a.database.unavailable() {
		return nil
	}
	return a.cfg.Scrub(a.presence.Reach(ctx))
}

// self is what heartbeats say of this process.
func (a *App) self() schedule.Instance {
	return schedule.Instance{ID: a.id, Host: thisHost(), Version: a.version, Roles: a.cfg.roles(), Features: schedule.Features, StartedAt: a.store.Now()}
}

// buildHeart builds the heartbeats of this process.
func (a *App) buildHeart() {
	o := heartbeat.Options{
		Store: a.store, Unhealthy: a.unhealthy, Logger: a.log,
		Self: a.self(),
	}
	if a.worker != nil {
		o.Changed = a.worker.HealthChanged()
	}
	a.heart = heartbeat.New(o)
}

// unhealthy returns why launches of this process would fail: those of its worker, otherwise those of
// its launcher.
func (a *App) unhealthy() string {
	if a.worker != nil {
		return a.worker.Unhealthy()
	}
	if why := a.failing.Load(); why != nil {
		return *why
	}
	return ""
}

// showLauncherHealth keeps the health of the launcher service for workers elsewhere: NOT_SERVING after
// three seconds without the presence lock, like a worker in this process.
func (a *App) showLauncherHealth(ctx context.Context) {
	const every, threshold = time.Second, 3
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for failed := 0; ctx.Err() == nil; {
		look, cancel := context.WithTimeout(ctx, every)
		err := a.mayLaunch(look)
		cancel()
		if failed++; err == nil {
			failed = 0
		}
		switch failed {
		case 0:
			a.failing.Store(nil)
			a.health.SetServingStatus(carillonv1.RunLauncher_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
		case threshold:
			a.failing.Store(new(worker.Reason(err)))
			a.health.SetServingStatus(carillonv1.RunLauncher_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_NOT_SERVING)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
