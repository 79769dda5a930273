package launcher_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
)

// line is one process' connection to the store.
type line struct {
	*sqlite.Store
	cut        atomic.Bool // nothing gets through any more
	deaf       atomic.Bool // extensions are written, and their answers are lost
	extensions atomic.Int32
}

var errAway = errors.New("the database is away")

func (l *line) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	if l.cut.Load() {
		return nil, errAway
	}
	return l.Store.Begin(ctx, reqs, now)
}

func (l *line) Extend(ctx context.Context, leases []schedule.LeaseExtension, now time.Time) ([]time.Time, error) {
	l.extensions.Add(1)
	if l.cut.Load() {
		return nil, errAway
	}
	held, err := l.Store.Extend(ctx, leases, now)
	if l.deaf.Load() {
		return nil, errAway
	}
	return held, err
}

func (l *line) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	if l.cut.Load() {
		return nil, errAway
	}
	return l.Store.Finish(ctx, done, now)
}

func (l *line) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	if l.cut.Load() {
		return errAway
	}
	return l.Store.Release(ctx, releases, now)
}

// another is a second process with a launcher.
func (r *rig) another(config launcher.Config) (*launcher.Launcher, *line) {
	l := &line{Store: r.store}
	return launcher.New(launcher.Options{
		Store: l, Workflows: r.workflows, Executor: r.executor, Now: r.store.Now, Logger: slog.New(slog.DiscardHandler), Config: config,
	}), l
}

func TestTheKeysOfADeadProcessAreFreeThreeSecondsLater(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ahead  time.Duration // of fire_at, when the run is handed over
		dies   time.Duration // after that
		loads  time.Duration
		within time.Duration // after its death
	}{
		{name: "while the executor is called", dies: 200 * time.Millisecond, within: 3 * time.Second},
		{name: "while a call is open for long", dies: 8 * time.Second, within: 3 * time.Second},
		{name: "while the DAG is loaded", dies: 200 * time.Millisecond, loads: 900 * time.Millisecond, within: 3 * time.Second},
		{name: "with the run armed: counted from fire_at", ahead: 400 * time.Millisecond, dies: 100 * time.Millisecond, within: 3400 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				doomed, line := r.another(reports)
				ctx, kill := context.WithCancel(r.Context())
				r.executor.run = func(context.Context, launcher.Call) (schedule.Outcome, error) {
					<-ctx.Done()
					return schedule.Outcome{}, errCut
				}
				r.workflows.took = tc.loads
				req := r.request()
				req.FireAt = r.store.Now().Add(tc.ahead)
				gone := make(chan struct{})
				go func() { defer close(gone); _, _ = doomed.Start(ctx, req) }()
				time.Sleep(tc.dies)
				line.cut.Store(true)
				kill()
				<-gone
				died := time.Now()

				r.executor.will(accept)
				r.workflows.took = 0
				r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
				if took := time.Since(died); took > tc.within+650*time.Millisecond { // and the longest pause between two tries, with its spread of a quarter
					r.Errorf("sent by another %s after the process died, want %s", took, tc.within)
				}
				for _, call := range r.executor.runs() {
					if call.at.Before(req.FireAt) {
						r.Errorf("called %s before fire_at", req.FireAt.Sub(call.at))
					}
				}
			})
		})
	}
}

func TestALongCallKeepsItsKey(t *testing.T) {
	config := launcher.Config{Feedback: true, CallTimeout: time.Minute}
	inBubble(t, config, func(r *rig) {
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(45 * time.Second)
			return accept(ctx, call)
		}
		req := r.request()
		done := make(chan struct{})
		go func() { defer close(done); r.must(req) }()
		time.Sleep(time.Second)
		other, _ := r.another(config)
		for range 8 {
			if _, err := other.Start(r.Context(), req); !errors.Is(err, launcher.ErrBusy) {
				r.Errorf("another process was answered %v while the call is open, want ErrBusy", err)
			}
		}
		<-done
		if reply, err := other.Start(r.Context(), req); err != nil || reply.Outcome.Status != schedule.StatusEnqueued {
			r.Errorf("after the call another process is answered %+v, %v", reply, err)
		}
		r.wantCalls(1, 0)
	})
}

func TestShortCallsAreNotExtended(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		busy, line := r.another(reports)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				req := r.request()
				req.Key = schedule.SlotKey("s", req.FireAt.Add(time.Duration(i)*time.Second))
				req.FireAt = req.FireAt.Add(time.Duration(i) * 100 * time.Millisecond)
				if _, err := busy.Start(r.Context(), req); err != nil {
					r.Error(err)
				}
			})
		}
		wg.Wait()
		if n := line.extensions.Load(); n > 0 {
			r.Errorf("%d extensions were written for calls that end at once", n)
		}
	})
}

func TestACallWhoseExtensionWasNotHeardOfIsStillGivenBack(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		hard, line := r.another(reports)
		line.deaf.Store(true)
		r.executor.run = func(context.Context, launcher.Call) (schedule.Outcome, error) {
			time.Sleep(6 * time.Second)
			return schedule.Outcome{}, errCut
		}
		req := r.request()
		if _, err := hard.Start(r.Context(), req); !errors.Is(err, launcher.ErrOutcomeUnknown) {
			r.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		if line.extensions.Load() == 0 {
			r.Error("nothing was extended")
		}
		r.executor.will(accept)
		released := time.Now()
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		if waited := time.Since(released); waited > 0 {
			r.Errorf("the key was held for another %s after it was given back", waited)
		}
	})
}

func TestACallGoesOnWhenItsKeyIsLost(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		cut, line := r.another(reports)
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(8 * time.Second)
			return accept(ctx, call)
		}
		req := r.request()
		answered := make(chan error, 1)
		go func() { _, err := cut.Start(r.Context(), req); answered <- err }()
		time.Sleep(time.Second)
		line.cut.Store(true)
		time.Sleep(4100 * time.Millisecond) // between two extensions
		line.cut.Store(false)
		// The same key is sent by another process, and the executor honours it.
		second := make(chan error, 1)
		go func() { _, err := r.start(req); second <- err }()
		if err := <-answered; err != nil {
			r.Errorf("the call whose key was lost: %v", err)
		}
		if err := <-second; err != nil {
			r.Errorf("the second sender: %v", err)
		}
		r.wantCalls(2, 1)
	})
}

// TestASenderWhoseLeaseIsOverLeavesTheKeyToTheNext has a process that is
// stopped while it loads the DAG: when it goes on, another sender's call is open.
func TestASenderWhoseLeaseIsOverLeavesTheKeyToTheNext(t *testing.T) {
	for _, tc := range []struct {
		name  string
		late  error // what the workflow store says at last
		first bool  // the first sender gets the second one's answer
	}{
		{name: "the workflow store fails at last", late: errCut},
		{name: "it holds no such version at last", late: schedule.ErrNotFound},
		{name: "it has the DAG at last", first: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				stopped, line := r.another(reports)
				req := r.request()
				var loads atomic.Int32
				r.workflows.load = func(context.Context) ([]byte, error) {
					if loads.Add(1) > 1 {
						return []byte(`{}`), nil
					}
					line.cut.Store(true)
					time.Sleep(7 * time.Second)
					line.cut.Store(false)
					return []byte(`{}`), tc.late
				}
				r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
					time.Sleep(8 * time.Second)
					return accept(ctx, call)
				}
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { _, err := stopped.Start(r.Context(), req); first <- err }()
				time.Sleep(4 * time.Second)
				go func() { _, err := r.start(req); second <- err }()
				time.Sleep(4 * time.Second) // the first one knows, the second one's call is open
				closed, recorded, err := r.store.CloseKey(r.Context(), req.Key, schedule.ReasonCancelled, r.store.Now())
				if err != nil || closed || recorded.Done || recorded.Calls == 0 || recorded.Lease.Until.IsZero() {
					r.Errorf("the open call is forgotten: closed %t, %+v, %v", closed, recorded, err)
				}
				if err := <-second; err != nil {
					r.Errorf("the second sender: %v", err)
				}
				if err := <-first; (err == nil) != tc.first {
					r.Errorf("the first sender: %v", err)
				}
				r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
				r.wantCalls(1, 1)
			})
		})
	}
}

// TestHealthyProcessesNeverHaveTwoCallsOfOneKeyOpen lets three processes send
// the same keys again and again, in random order, to an executor that is slow
// and often loses its answers.
func TestHealthyProcessesNeverHaveTwoCallsOfOneKeyOpen(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		var mu sync.Mutex
		open := make(map[schedule.Key]int)
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			mu.Lock()
			if open[call.Key]++; open[call.Key] > 1 {
				r.Errorf("two calls of key %s are open", call.Key)
			}
			mu.Unlock()
			time.Sleep(rand.N(9 * time.Second))
			mu.Lock()
			defer mu.Unlock()
			if open[call.Key]--; rand.N(3) > 0 {
				return schedule.Outcome{}, errCut
			}
			return accept(ctx, call)
		}
		var wg sync.WaitGroup
		base := r.request()
		for range 3 {
			process, _ := r.another(reports)
			for _, i := range rand.Perm(20) {
				req := base
				req.Key = schedule.SlotKey("s", base.FireAt.Add(time.Duration(i)*time.Second))
				req.FireAt = base.FireAt.Add(time.Duration(i) * 100 * time.Millisecond)
				wg.Go(func() {
					for range 10 {
						if _, err := process.Start(r.Context(), req); err == nil {
							return
						}
						time.Sleep(rand.N(2 * time.Second))
					}
				})
			}
		}
		wg.Wait()
	})
}
