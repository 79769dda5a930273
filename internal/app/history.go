package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/store/postgres"
)

// historyEvery is the interval at which a worker reads the partitions of ended runs.
const historyEvery = time.Minute

// watchHistory shows the partitions of ended runs in the metrics of each worker on Postgres until ctx
// ends. While the database is away, the last figures stay: their end comes nearer.
func (a *App) watchHistory(ctx context.Context) {
	db, ok := a.store.(*postgres.Store)
	if !ok || a.worker == nil {
		return
	}
	with := promauto.With(a.registry)
	partitions := with.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_history_partitions", Help: "Partitions of ended_runs.",
	})
	until := with.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_history_partitioned_until_timestamp_seconds", Help: "Up to when ended_runs has a partition for each day, in Unix seconds.",
	})
	ahead := with.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_history_rows_ahead", Help: "Rows of ended_runs_ahead, counted up to 10000.",
	})
	with.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_history_partition_failures_total", Help: "Tries of this process to add or drop partitions of ended_runs that failed.",
	}, func() float64 { return float64(db.PartitionFailures()) })
	ticker := time.NewTicker(historyEvery)
	defer ticker.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, checkTimeout)
		h, err := db.History(look)
		cancel()
		if err == nil {
			partitions.Set(float64(h.Partitions))
			until.Set(float64(h.Until.Unix()))
			ahead.Set(float64(h.Ahead))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
