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
		r.wakes(func(i int) { r.add(r.manual(s, fmt.Sprint(i), r.at(time.Hour))) })
	}},
	{"a retry wakes", func(r *rig) {
		s := r.create("retried")
		run := r.bring(r.due(s, 1), schedule.StatusFailed)
		r.wakes(func(i int) {
			next := r.retryOf(s, run, fmt.Sprint(i))
			r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange { return schedule.RunChange{Insert: &next} })
		})
	}},
	{"a run in flight that the worker settles wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) { r.succeed(run) })
	}},
	{"a run in flight that is reported wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) { r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed}) })
	}},
	{"a run in flight that is swept wakes", func(r *rig) {
		r.wakesOnceInFlight(func(schedule.Run) {
			r.now = r.at(1000 * time.Hour)
			r.sweep(func(req *schedule.SweepRequest) { req.Limit = 1 })
		})
	}},
	{"a cancel that is asked for wakes", func(r *rig) {
		r.wakesOnceInFlight(func(run schedule.Run) { r.askCancel(run.Key, schedule.ReasonCancelled, r.now) })
	}},
	{"a cancel that a claim asks for wakes", func(r *rig) {
		s := r.create("replaced", withPolicy(schedule.OverlapReplace))
		r.bring(r.due(s, 9), schedule.StatusStarted)
		r.add(r.due(s, 1))
		r.wakes(func(i int) {
			if i == 0 {
				r.claim()
				return
			}
			r.endAndReplace(s, i)
		})
	}},
	{"every listener is woken", func(r *rig) {
		s := r.create("shared")
		insert := func(name string) func(int) {
			return func(i int) { r.add(r.manual(s, fmt.Sprint(name, i), r.at(time.Hour))) }
		}
		other, stop := r.listen()
		defer stop()
		r.await(other, insert("one-"))
		r.wakes(insert("two-"))
		r.await(other, insert("three-"))
	}},
}

// listen listens until stop is called, which waits for Listen to return.
func (r *rig) listen() (woken <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	wakes := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- r.Listen(ctx, func() {
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

func (r *rig) wakes(act func(i int)) {
	r.Helper()
	woken, stop := r.listen()
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
	r.wakes(func(int) {
		r.hold(next < len(flying), "no wake came for %d runs", next)
		act(flying[next])
		next++
	})
}

// endAndReplace ends the run in flight, lets the newest fire, and replaces it.
func (r *rig) endAndReplace(s schedule.Schedule, i int) {
	for _, run := range r.runsOf(s) {
		if run.Status.InFlight() {
			r.succeed(run)
		}
	}
	r.claim()
	r.now = r.at(time.Second)
	r.add(r.slot(s, r.now))
	r.claim()
}
