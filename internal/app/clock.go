package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// clockEvery is how often the offset to the database's clock is measured. The
// clock of a machine that was suspended jumps, and this process' own sense of
// time does not notice.
const clockEvery = time.Second

// How far the host's clock may be off the database's before somebody should
// look, and before this process must not lead.
const (
	skewWarning = 500 * time.Millisecond
	skewLimit   = 2 * time.Second
)

// clockFit refuses leadership to a process whose clock is wrong. It fires by
// the database's clock all the same, but a clock that is off by seconds says
// that something on the host is broken.
func (a *App) clockFit() error {
	if skew := time.Duration(a.skew.Load()); skew.Abs() > skewLimit {
		return fmt.Errorf("this machine's clock differs from the database's by %s, more than %s: correct it", skew, skewLimit)
	}
	return nil
}

// watchClock keeps the database's time and shows how far this machine is off.
func (a *App) watchClock(ctx context.Context) {
	gauge := promauto.With(a.registry).NewGauge(prometheus.GaugeOpts{
		Name: "carillon_clock_skew_seconds", Help: "This machine's clock − the database's.",
	})
	warned := false
	WatchClock(ctx, a.store, func(skew time.Duration) {
		gauge.Set(skew.Seconds())
		a.skew.Store(int64(skew))
		off := skew.Abs() > skewWarning
		if off && !warned {
			a.log.Warn("clock skew", "skew", skew, "limit", skewWarning)
		}
		warned = off
	})
}

// WatchClock measures the database's clock every second until ctx ends, and
// tells how far this machine's is ahead of it.
func WatchClock(ctx context.Context, store Store, observe func(skew time.Duration)) {
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		if skew, err := store.MeasureClock(ctx); err == nil {
			observe(skew)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// clockStep is a host clock that was set back.
type clockStep struct{ from, to time.Time }

// clockStepped is told from within the store's Now: it only leaves word.
func (a *App) clockStepped(from, to time.Time) {
	select {
	case a.steps <- clockStep{from, to}:
	default: // one is being followed already, and goes by the clock as it then is
	}
}

// rewinder is a store whose ledger follows a host clock that was set back.
type rewinder interface {
	Rewind(ctx context.Context, from, to time.Time) error
}

// followClock brings the ledger back to a clock that was set back.
func (a *App) followClock(ctx context.Context) {
	ledger, ok := a.store.(rewinder)
	if !ok {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case step := <-a.steps:
			if err := ledger.Rewind(ctx, step.from, step.to); err != nil && ctx.Err() == nil {
				a.log.Error("cannot remove future plans after the clock was set back: slots may wait for the clock", "from", step.from, "to", step.to, "err", err)
			}
		}
	}
}
