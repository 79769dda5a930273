package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// clockEvery is the interval of measuring the offset to the database's clock. After a suspend the
// machine's clock jumps, but the monotonic clock of this process does not.
const clockEvery = time.Second

// The offset of the host's clock from the database's that logs a warning, and that prevents leadership.
const (
	skewWarning = 500 * time.Millisecond
	skewLimit   = 2 * time.Second
)

// checkSkew refuses leadership if the clock is wrong. Slots fire by the database's clock, but an offset
// of seconds means that the host is broken.
func (a *App) checkSkew() error {
	if skew := time.Duration(a.skew.Load()); skew.Abs() > skewLimit {
		return fmt.Errorf("this machine's clock differs from the database's by %s, more than %s: correct it", skew, skewLimit)
	}
	return nil
}

// watchClock measures the clock skew until ctx ends, and warns once above skewWarning.
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

// WatchClock measures the database's clock every second until ctx ends. skew is this machine's clock −
// the database's.
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

// clockStepped is called by the store's Now, so it must not block.
func (a *App) clockStepped(from, to time.Time) {
	select {
	case a.steps <- clockStep{from, to}:
	default: // a pending Rewind reads the current clock anyway
	}
}

// rewinder is a store that can remove future plans after the host's clock was set back.
type rewinder interface {
	Rewind(ctx context.Context, from, to time.Time) error
}

// followClock calls Rewind after the host's clock was set back.
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
