package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// onceEach holds a schedule with a slot every step to what counts in the end:
// each slot took effect once, none is missing.
func (r *rig) onceEach(id string, step, until time.Duration) {
	r.Helper()
	sent := make(map[schedule.Key]int)
	for _, call := range r.executor.calls(id) {
		sent[call.Key]++
	}
	for at := step; at <= until; at += step {
		if n := sent[schedule.SlotKey(id, r.at(at))]; n != 1 {
			r.Errorf("the slot of %s at +%s was sent %d times, want once", id, at, n)
		}
	}
}

func TestATermThatEndsLosesAndDoublesNoSlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		for range 3 {
			r.work(2700 * time.Millisecond)
		}
		r.onceEach("s", time.Second, 8*time.Second)
	})
}

func TestASecondWorkerTakesOverWithoutLosingOrDoublingASlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		second := r.open()
		defer r.close(second)
		stopFirst := r.start()
		time.Sleep(500 * time.Millisecond)
		stopSecond := r.startOn(second)
		r.until(4020 * time.Millisecond) // the slot at +5s is not armed yet
		stopFirst()
		handed := time.Now()
		r.until(7500 * time.Millisecond)
		stopSecond()
		r.onceEach("s", time.Second, 7*time.Second)
		for _, call := range r.executor.calls("s") {
			if late := call.at.Sub(call.FireAt); late > 200*time.Millisecond {
				r.Errorf("the slot at +%s was sent %s late", call.ScheduledFor.Sub(r.began), late)
			}
			if want := map[bool]int64{true: 1, false: 2}[call.at.Before(handed)]; call.Epoch != want {
				r.Errorf("the slot at +%s was sent in epoch %d, want %d", call.ScheduledFor.Sub(r.began), call.Epoch, want)
			}
		}
	})
}

func TestAGracefulStopWaitsForOpenLaunchesAndGivesTheLeadershipBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second)
		var open atomic.Int64
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			open.Add(1)
			defer open.Add(-1)
			time.Sleep(1500 * time.Millisecond)
			return success(ctx, call)
		})
		stop := r.start()
		r.until(2500 * time.Millisecond)
		stop()
		if open.Load() != 0 {
			r.Error("the worker ended while a launch was open")
		}
		r.is(r.slot("s", 2*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
		rows, err := r.store.Leaders(r.Context(), r.store.Now())
		if err != nil || len(rows) != 1 || !rows[0].Expired {
			r.Errorf("the terms are %+v (%v), want one that was given back", rows, err)
		}
	})
}

func TestANewLeaderTakesUpWhatAnOlderOneLeftLaunching(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.DrainTimeout = time.Second
		r.config.ClaimLease = time.Hour // only a new epoch may take it up sooner
		r.every("s", time.Second, byHand)
		r.executor.will(hang)
		stop := r.start()
		run := r.trigger("s", "one")
		time.Sleep(1500 * time.Millisecond)
		stop() // gives up before the call does
		r.is(r.run(run.Key), schedule.StatusLaunching, schedule.ReasonNone)
		r.executor.will(success)
		time.Sleep(7 * time.Second) // the open call ends without an outcome
		r.work(time.Second)
		r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
		if calls := r.executor.calls("s"); len(calls) != 2 || calls[0].Key != calls[1].Key {
			r.Errorf("%d calls, want the same key twice", len(calls))
		}
	})
}

func TestAnAnswerAfterTheLeaderHasGoneSettlesItsRun(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.DrainTimeout = time.Millisecond
		r.every("s", time.Second, byHand)
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(time.Second)
			return success(ctx, call)
		})
		stop := r.start()
		run := r.trigger("s", "one")
		time.Sleep(500 * time.Millisecond)
		stop()
		time.Sleep(30 * time.Minute) // longer than LAUNCH_RETRY_FOR
		after := r.run(run.Key)
		r.work(time.Second)
		r.is(after, schedule.StatusSuccess, schedule.ReasonNone)
		if after.LaunchedAt.IsZero() {
			r.Error("a run that took effect has no launched_at")
		}
		if n := len(r.executor.calls("s")); n != 1 {
			r.Errorf("the executor was called %d times", n)
		}
	})
}
