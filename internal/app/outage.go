package app

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// databaseEvery is the time between two checks of the database.
const databaseEvery = time.Second

// databaseWatch decides whether the database is up, with the check of /readyz.
type databaseWatch struct {
	ping func(ctx context.Context) error
	up   prometheus.Gauge
}

func newDatabaseWatch(registry prometheus.Registerer) *databaseWatch {
	w := &databaseWatch{up: promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "carillon_database_up", Help: "1 while the database answers and takes writes, checked every second.",
	})}
	w.up.Set(1) // a process starts only with a database that answers
	return w
}

// run checks the database every second until ctx ends.
func (w *databaseWatch) run(ctx context.Context) {
	ticker := time.NewTicker(databaseEvery)
	defer ticker.Stop()
	for {
		w.check(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *databaseWatch) check(ctx context.Context) {
	pinging, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := w.ping(pinging)
	switch {
	case ctx.Err() != nil: // the process ends; the ping proves nothing
	case err != nil:
		w.up.Set(0)
	default:
		w.up.Set(1)
	}
}

// showBuild registers carillon_build_info, which tells releases apart during a
// rolling upgrade.
func showBuild(registry prometheus.Registerer, version string) {
	if version == "" {
		version = "(unknown)"
	}
	promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "carillon_build_info", Help: "Always 1; the labels are the release and the version of Go that built it.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
}
