package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/store/postgres"
)

// ledgerEvery is the interval at which each process reads how far behind the tables are.
const ledgerEvery = 15 * time.Second

// watchLedger shows in the metrics of each process what is due and not claimed, until ctx ends, and in
// those of workers and registrars what is left undone. It reads the tables, so that it also shows this
// without a leader. While the database is away, the last figures stay.
func (a *App) watchLedger(ctx context.Context) {
	with := promauto.With(a.registry)
	var oldest atomic.Pointer[time.Time] // nil: nothing is due
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_oldest_due_seconds", Help: "For how long the oldest run that is due and not claimed has been due, from the tables.",
	}, func() float64 {
		if due := oldest.Load(); due != nil {
			return max(0, a.store.Now().Sub(*due).Seconds())
		}
		return 0
	})
	lead, showUpkeep := func(time.Duration) {}, func(context.Context) {}
	if a.worker != nil {
		gauge := with.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_plan_lead_seconds", Help: "How far ahead of now every schedule is planned; at most LOOKAHEAD_MS.",
		})
		lead = func(late time.Duration) { gauge.Set((ms(a.cfg.LookaheadMS) - late).Seconds()) }
	}
	if a.worker != nil || a.cfg.Has("registrar") {
		showUpkeep = a.newUpkeepMetrics(with)
	}
	every(ctx, ledgerEvery, func(ctx context.Context) {
		now := a.store.Now()
		lag, err := a.store.Lag(ctx, now)
		if err != nil {
			return
		}
		oldest.Store(nil)
		if lag.Due > 0 {
			oldest.Store(&lag.OldestDue)
		}
		late := time.Duration(0)
		if lag.Unplanned > 0 {
			late = now.Sub(lag.OldestPlan)
		}
		lead(late)
		showUpkeep(ctx)
	})
}

func (a *App) newUpkeepMetrics(with promauto.Factory) (show func(ctx context.Context)) {
	unswept := with.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_runs_unswept", Help: "Runs in flight that a sweep should have looked at a minute ago, counted up to 1000.",
	})
	dead := with.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_open_runs_dead_rows", Help: "Dead rows of open_runs that vacuum has not removed (Postgres).",
	})
	return func(ctx context.Context) {
		if u, err := a.store.Upkeep(ctx, a.store.Now()); err == nil {
			unswept.Set(float64(u.Unswept))
			dead.Set(float64(u.DeadRows))
		}
	}
}

// every calls look at once and then at an interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, look func(ctx context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		look(limited)
		cancel()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

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
	every(ctx, historyEvery, func(ctx context.Context) {
		if h, err := db.History(ctx); err == nil {
			partitions.Set(float64(h.Partitions))
			until.Set(float64(h.Until.Unix()))
			ahead.Set(float64(h.Ahead))
		}
	})
}
