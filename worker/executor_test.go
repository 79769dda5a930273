package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// executor answers as told, remembers every call, and holds every call to what
// no executor may ever see: one before fire_at.
type executor struct {
	*testing.T
	reports sync.WaitGroup // those that are still to come

	mu     sync.Mutex
	seen   []called
	answer func(ctx context.Context, call launcher.Call) (schedule.Outcome, error)
	cancel func(ref schedule.CancelRequest) error // nil: confirmed
	ask    func(key schedule.Key) (schedule.Outcome, error)
	asked  []schedule.CancelRequest
}

// called is one call with the instant at which it came.
type called struct {
	launcher.Call
	at time.Time
}

var errCut = errors.New("connection reset")

func success(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusSuccess, RunID: runID(call.Key)}, nil
}

// accept takes the run, and nobody ever hears of it again.
func accept(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: runID(call.Key)}, nil
}

// lose takes the run, but its answer gets lost.
func lose(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{}, errCut
}

// hang answers nothing until the call is given up.
func hang(ctx context.Context, _ launcher.Call) (schedule.Outcome, error) {
	<-ctx.Done()
	return schedule.Outcome{}, ctx.Err()
}

func runID(key schedule.Key) string { return "run-" + key.String()[:8] }

// will changes what the calls from now on are answered.
func (e *executor) will(answer func(context.Context, launcher.Call) (schedule.Outcome, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

// takes makes every run accepted, and reported SUCCESS after so long.
func (r *rig) takes(d time.Duration) {
	r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
		r.executor.reports.Go(func() {
			time.Sleep(d)
			r.report(call.Key, schedule.StatusSuccess)
		})
		return accept(ctx, call)
	})
}

func (e *executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	now := time.Now()
	if now.Before(call.FireAt) {
		e.Errorf("the executor was called %s before fire_at of %s", call.FireAt.Sub(now), call.ScheduleID)
	}
	e.mu.Lock()
	e.seen = append(e.seen, called{call, now})
	answer := e.answer
	e.mu.Unlock()
	return answer(ctx, call)
}

func (e *executor) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	e.mu.Lock()
	e.asked = append(e.asked, ref)
	cancel := e.cancel
	e.mu.Unlock()
	if cancel == nil {
		return nil
	}
	return cancel(ref)
}

func (e *executor) GetByKey(_ context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	e.mu.Lock()
	ask := e.ask
	e.mu.Unlock()
	if ask == nil {
		return schedule.Outcome{}, launcher.ErrUnsupported
	}
	return ask(ref.Key)
}

// calls are those of one schedule.
func (e *executor) calls(scheduleID string) []called {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []called
	for _, c := range e.seen {
		if c.ScheduleID == scheduleID {
			out = append(out, c)
		}
	}
	return out
}

// knows makes the executor answer by key from now on.
func (e *executor) knows(o schedule.Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ask = func(schedule.Key) (schedule.Outcome, error) { return o, nil }
}
