package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var listens = []check{
	{"a run that is inserted wakes", func(r *rig) {
		s := r.create("inserted")
		r.wakes(s, func(i int) { r.add(r.manual(s, fmt.Sprint(i), r.at(time.Hour))) })
	}},
	{"a retry wakes", func(r *rig) {
		s := r.create("retried")
		run := r.bring(r.due(s, 1), schedule.StatusFailed)
		r.wakes(s, func(i int) {
			next := r.retryOf(s, run, fmt.Sprint(i))
			r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange { return schedule.RunChange{Insert: &next} })
		})
	}},
	{"a run in flight that is reported wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) { r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed}) })
	}},
	{"a run in flight that ends without a leader wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) {
			end := schedule.FinishRequest{Key: run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}, LaunchedAt: r.now, WakeLeader: true}
			r.hold(r.finishRun(run, end).Settled, "the run is settled")
		})
	}},
	{"a cancel that is asked for wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) { r.askCancel(run.Key, schedule.ReasonCancelled, r.now) })
	}},
	{"every listener is woken", func(r *rig) {
		s := r.create("shared")
		insert := func(name string) func(int) {
			return func(i int) { r.add(r.manual(s, fmt.Sprint(name, i), r.at(time.Hour))) }
		}
		other, stop := r.listen(s)
		defer stop()
		r.await(other, insert("one-"))
		r.wakes(s, insert("two-"))
		r.await(other, insert("three-"))
	}},
}

// listen listens for wakes that concern s until stop is called, which waits for
// Listen to return.
func (r *rig) listen(s schedule.Schedule) (woken <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	wakes := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- r.Listen(ctx, func(first, last int) {
			if b := schedule.Bucket(s.QualifiedOverlapKey()); b < first || b > last {
				return
			}
			select {
			case wakes <- struct{}{}:
			default: // one that is still to be read says it all
			}
		})
	}()
	return wakes, func() {
		r.Helper()
		select {
		case err := <-ended:
			r.Errorf("Listen returned before its context ended: %v", err)
			return
		default:
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				r.Errorf("Listen ends with its context, got %v", err)
			}
		case <-time.After(10 * time.Second):
			r.Errorf("Listen goes on after its context has ended")
		}
	}
}

// await acts again and again until a wake comes: a listener takes its time to
// connect, and may miss what happens before.
func (r *rig) await(woken <-chan struct{}, act func(i int)) {
	r.Helper()
	deadline := time.After(20 * time.Second)
	for i := 0; ; i++ {
		act(i)
		select {
		case <-woken:
			return
		case <-time.After(time.Duration(min(i, 10)) * 20 * time.Millisecond):
		case <-deadline:
			r.Fatalf("no wake came")
		}
	}
}

func (r *rig) wakes(s schedule.Schedule, act func(i int)) {
	r.Helper()
	woken, stop := r.listen(s)
	defer stop()
	r.await(woken, act) // it may be the first connection that woke
	r.await(woken, func(i int) { act(i + 1000) })
}

// wakesOnceInFlight acts on a run in flight of its own each time.
func (r *rig) wakesOnceInFlight(act func(run schedule.Run)) {
	r.Helper()
	s := r.create("flying")
	var flying []schedule.Run
	for i := range 120 {
		flying = append(flying, r.manual(s, fmt.Sprint(i), r.at(-time.Second)))
	}
	r.add(flying...)
	r.lead()
	r.claim()
	next := 0
	r.wakes(s, func(int) {
		r.hold(next < len(flying), "no wake came for %d runs", next)
		act(flying[next])
		next++
	})
}
