package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

func ownedBy(user string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.UserID = user }
}

// storm starts n runs of an owner at once; none waits for another.
func (r *rig) storm(user string, n int) {
	r.Helper()
	r.every("storm-of-"+user, time.Second, byHand, ownedBy(user), overlap(schedule.OverlapAllow))
	for i := range n {
		r.trigger("storm-of-"+user, fmt.Sprint(user, i))
	}
}

// onTime holds every call of a schedule to its fire_at.
func (r *rig) onTime(id string, within time.Duration, atLeast int) {
	r.Helper()
	calls := r.executor.calls(id)
	if len(calls) < atLeast {
		r.Errorf("%s was called %d times, want %d or more", id, len(calls), atLeast)
	}
	for _, call := range calls {
		if late := call.at.Sub(call.FireAt); late > within {
			r.Errorf("the slot of %s at +%s was sent %s late", id, call.ScheduledFor.Sub(r.began), late)
		}
	}
}

func TestAnOwnerWhoseExecutorHangsDelaysNoOther(t *testing.T) {
	for _, tc := range []struct {
		name     string
		launches int
		hanging  map[string]int // as many as it tries to launch
	}{
		{"one owner", 20, map[string]int{"h1": 40}},
		{"three owners", 400, map[string]int{"h1": 400, "h2": 60, "h3": 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.MaxLaunches, r.launcher.CallTimeout = tc.launches, 5*time.Second
				r.every("s", time.Second, ownedBy("v"), overlap(schedule.OverlapAllow))
				r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
					if call.UserID == "v" {
						return success(ctx, call)
					}
					return hang(ctx, call)
				})
				stop := r.start()
				defer stop()
				r.until(1500 * time.Millisecond)
				for owner, runs := range tc.hanging {
					r.storm(owner, runs)
				}
				r.until(15500 * time.Millisecond)
				r.onTime("s", 20*time.Millisecond, 15)
				for owner := range tc.hanging {
					if n := len(r.executor.calls("storm-of-" + owner)); n < tc.launches/100 {
						r.Errorf("only %d calls of %s: what is free is to be used", n, owner)
					}
				}
			})
		})
	}
}

// What an owner could not launch goes on as soon as its own calls end.
func TestAnOwnersStormGoesOnAsItsCallsEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		const launches, runs = 10, 90
		r.config.MaxLaunches = launches
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(100 * time.Millisecond)
			return success(ctx, call)
		})
		r.storm("u", runs)
		stop := r.start()
		defer stop()
		time.Sleep(1500 * time.Millisecond)
		// Nine at a time, a tenth of a second each: a second for all of them, not a tick
		// for every nine.
		if n := len(r.executor.calls("storm-of-u")); n != runs {
			r.Errorf("%d of %d calls after 1.5 s", n, runs)
		}
	})
}

func TestAfterAnOutageOnTimeSlotsGoBeforeTwoThousandThatCatchUp(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	inBubble(t, func(r *rig) {
		const schedules, missed, on = 2000, 2, 10
		r.config.MaxLaunches = 300
		for i := range schedules {
			r.every(fmt.Sprint("late-", i), 30*time.Minute, catchup(schedule.CatchupFireImmediately), overlap(schedule.OverlapAllow))
		}
		r.until(time.Hour + 90*time.Second)
		for i := range on {
			owner := []string{"u", "v"}[i%2] // that of the storm, and another
			r.every(fmt.Sprint("on-", i), time.Second, ownedBy(owner), overlap(schedule.OverlapAllow))
		}
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(200 * time.Millisecond)
			return success(ctx, call)
		})
		stop := r.start()
		defer stop()
		time.Sleep(4500 * time.Millisecond)
		for i := range on {
			r.onTime(fmt.Sprint("on-", i), 250*time.Millisecond, 4)
		}
		caught := 0
		for i := range schedules {
			caught += len(r.executor.calls(fmt.Sprint("late-", i)))
		}
		if caught != schedules*missed {
			r.Errorf("%d of %d missed slots were made up for", caught, schedules*missed)
		}
	})
}
