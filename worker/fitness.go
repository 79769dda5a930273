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
	// maxUnfit caps the reason, in bytes: each heartbeat carries it.
	maxUnfit = 200
)

// fitness tracks whether this process can reach its launcher. A worker that claims runs
// and cannot hand them over does harm: they wait as LAUNCHING while another worker could
// start them. So its heartbeats say so, and it leads no shard while another worker is
// healthy (package leader's Balancer).
//
// A worker is unhealthy until it has reached its launcher once: otherwise it would take
// shards only to give them back.
type fitness struct {
	metrics *Metrics
	log     *slog.Logger
	turned  chan struct{} // holds a signal while a change is not in a heartbeat yet

	mu       sync.Mutex
	unfit    string // why launches would fail; empty: healthy
	reached  bool   // at least once
	said     bool   // the log says that launches would fail
	failed   int    // checks in a row
	answered int    // checks in a row
}

func newFitness(known bool, m *Metrics, log *slog.Logger) *fitness {
	f := &fitness{metrics: m, log: log, turned: make(chan struct{}, 1)}
	if !known {
		f.unfit = "the launcher was not reached yet"
	}
	m.showFit(f.unfit == "")
	return f
}

// watch checks every reachEvery until ctx ends.
func (f *fitness) watch(ctx context.Context, reach func(ctx context.Context) error) {
	ticker := time.NewTicker(reachEvery)
	defer ticker.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, reachEvery)
		err := reach(look)
		cancel()
		if ctx.Err() != nil {
			return
		}
		f.learn(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// learn records the result of one check.
func (f *fitness) learn(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unfit == ""
	if err != nil {
		f.failed, f.answered = f.failed+1, 0
		if f.unfit != "" || f.failed >= failureThreshold {
			f.unfit = brief(err)
		}
		if f.failed >= failureThreshold && !f.said {
			f.said = true
			f.log.Warn("launches would fail: a healthy worker takes over if there is one", "err", err)
		}
	} else {
		f.failed, f.answered = 0, f.answered+1
		if f.answered >= failureThreshold || !f.reached {
			f.unfit = ""
		}
		f.reached = true
		if f.unfit == "" && f.said {
			f.said = false
			f.log.Info("launches work again")
		}
	}
	if fit := f.unfit == ""; fit != was {
		f.metrics.showFit(fit)
		select {
		case f.turned <- struct{}{}:
		default: // the last change is not in a heartbeat yet
		}
	}
}

func (f *fitness) reason() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unfit
}

// brief is an error in one line of at most maxUnfit bytes.
func brief(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) <= maxUnfit {
		return text
	}
	const more = "…"
	end := maxUnfit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// Unfit returns why launches of this process would fail; empty: it is healthy.
func (w *Worker) Unfit() string { return w.fitness.reason() }

// Fit is Unfit as a readiness check.
func (w *Worker) Fit(context.Context) error {
	if unfit := w.Unfit(); unfit != "" {
		return errors.New(unfit)
	}
	return nil
}
