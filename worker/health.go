package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// reachEvery is how often a worker checks that it can reach its launcher, and how long
	// one check may take.
	reachEvery = time.Second
	// failureThreshold is how many checks in a row must fail, or succeed, before the
	// worker's health changes: a restarted launcher or a slow answer moves no shard.
	failureThreshold = 3
	// maxReason caps the reason, in bytes: each heartbeat carries it.
	maxReason = 200
)

// health tracks whether this process can reach its launcher. A worker that claims runs
// and cannot hand them over does harm: they wait as LAUNCHING while another worker could
// start them. So its heartbeats say so, and it leads no shard while another worker is
// healthy (package leader's Balancer).
//
// A worker is unhealthy until it has reached its launcher once: otherwise it would take
// shards only to give them back.
type health struct {
	metrics *Metrics
	log     *slog.Logger
	changed chan struct{} // holds a signal while a change is not in a heartbeat yet

	mu        sync.Mutex
	unhealthy string // why launches would fail; empty: healthy
	reached   bool   // at least once
	said      bool   // the log says that launches would fail
	failed    int    // checks in a row
	answered  int    // checks in a row
}

func newHealth(known bool, m *Metrics, log *slog.Logger) *health {
	h := &health{metrics: m, log: log, changed: make(chan struct{}, 1)}
	if !known {
		h.unhealthy = "the launcher was not reached yet"
	}
	m.showHealth(h.unhealthy == "")
	return h
}

// watch checks every reachEvery until ctx ends.
func (h *health) watch(ctx context.Context, reach func(ctx context.Context) error) {
	ticker := time.NewTicker(reachEvery)
	defer ticker.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, reachEvery)
		err := reach(look)
		cancel()
		if ctx.Err() != nil {
			return
		}
		h.learn(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// learn records the result of one check.
func (h *health) learn(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.unhealthy == ""
	if err != nil {
		h.failed, h.answered = h.failed+1, 0
		if h.unhealthy != "" || h.failed >= failureThreshold {
			h.unhealthy = Reason(err)
		}
		if h.failed >= failureThreshold && !h.said {
			h.said = true
			h.log.Warn("launches would fail: a healthy worker takes over if there is one", "err", err)
		}
	} else {
		h.failed, h.answered = 0, h.answered+1
		if h.answered >= failureThreshold || !h.reached {
			h.unhealthy = ""
		}
		h.reached = true
		if h.unhealthy == "" && h.said {
			h.said = false
			h.log.Info("launches work again")
		}
	}
	if healthy := h.unhealthy == ""; healthy != was {
		h.metrics.showHealth(healthy)
		select {
		case h.changed <- struct{}{}:
		default: // the last change is not in a heartbeat yet
		}
	}
}

func (h *health) reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unhealthy
}

// Reason is an error in one line of at most maxReason bytes.
func Reason(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) <= maxReason {
		return text
	}
	const more = "…"
	end := maxReason - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// Unhealthy returns why launches of this process would fail; empty: it is healthy.
func (w *Worker) Unhealthy() string { return w.health.reason() }

// HealthChanged has a value when Unhealthy has changed since the last one was taken.
func (w *Worker) HealthChanged() <-chan struct{} { return w.health.changed }

// Healthy is Unhealthy as a readiness check.
func (w *Worker) Healthy(context.Context) error {
	if unhealthy := w.Unhealthy(); unhealthy != "" {
		return errors.New(unhealthy)
	}
	return nil
}
