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
	// reachEvery is how often a worker looks whether its launches would arrive,
	// and how long it waits for the answer.
	reachEvery = time.Second
	// patience is how many looks in a row must say otherwise before they are
	// believed: a launcher that is started anew, or a slow answer, moves no shard.
	patience = 3
	// maxUnfit bounds the reason, in bytes: it stands in each heartbeat.
	maxUnfit = 200
)

// fitness is whether what this process launches would arrive. A worker that
// claims runs and cannot hand them over does harm: they wait as LAUNCHING, while
// another worker could start them. So it says so in its heartbeats, and while
// another one is fit it leads nothing (package leader's Balancer).
//
// One that has not reached its launcher yet is unfit from the start: it would
// take a share only to give it back. It is fit as soon as it has.
type fitness struct {
	metrics *Metrics
	log     *slog.Logger
	turned  chan struct{} // holds a word when it has changed that the others do not know yet

	mu       sync.Mutex
	unfit    string // why not; empty: they would
	reached  bool   // once, at least
	said     bool   // in the log, that they would not
	failed   int    // looks in a row
	answered int    // likewise
}

func newFitness(known bool, m *Metrics, log *slog.Logger) *fitness {
	f := &fitness{metrics: m, log: log, turned: make(chan struct{}, 1)}
	if !known {
		f.unfit = "the launcher was not reached yet"
	}
	m.showFit(f.unfit == "")
	return f
}

// watch looks every second until ctx ends.
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

// learn takes in what one look said.
func (f *fitness) learn(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unfit == ""
	if err != nil {
		f.failed, f.answered = f.failed+1, 0
		if f.unfit != "" || f.failed >= patience {
			f.unfit = brief(err)
		}
		if f.failed >= patience && !f.said {
			f.said = true
			f.log.Warn("launches would fail: a healthy worker takes over if there is one", "err", err)
		}
	} else {
		f.failed, f.answered = 0, f.answered+1
		if f.answered >= patience || !f.reached {
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
		default: // the heartbeat has not come to the last one yet
		}
	}
}

func (f *fitness) reason() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unfit
}

// brief is an error in one line of bounded length.
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

// Unfit says why what this process launches would not arrive; empty: it would.
func (w *Worker) Unfit() string { return w.fitness.reason() }

// Fit is Unfit as a check of readiness.
func (w *Worker) Fit(context.Context) error {
	if unfit := w.Unfit(); unfit != "" {
		return errors.New(unfit)
	}
	return nil
}
