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

func TestAHangingExecutorStopsNoTickAndMakesNoSlotMissed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.MaxLaunches, r.config.Grace = 3, 2*time.Second
		r.launcher.CallTimeout = 9500 * time.Millisecond
		once := func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(2 * time.Second) }
		for i := range 3 {
			r.every(fmt.Sprint("hangs-", i), 2*time.Second, once)
		}
		const others = 8
		for i := range others {
			r.every(fmt.Sprint("other-", i), 3*time.Second, func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(3 * time.Second) })
		}
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			if call.ScheduledFor.Equal(r.at(2 * time.Second)) {
				<-ctx.Done()
				return schedule.Outcome{}, &launcher.Refusal{Code: "late"}
			}
			return success(ctx, call)
		})
		stop := r.start()
		defer stop()
		r.until(6 * time.Second)
		r.every("planned-meanwhile", 30*time.Second)
		r.until(8500 * time.Millisecond)
		s, err := r.store.GetSchedule(r.Context(), "planned-meanwhile")
		if err != nil || !s.PlanAt.After(r.at(6*time.Second)) {
			r.Errorf("the planner has not looked since +6s: plan_at is %s (%v)", s.PlanAt, err)
		}
		for i := range others {
			if n := len(r.executor.calls(fmt.Sprint("other-", i))); n != 0 {
				r.Errorf("a launch went out though none was free")
			}
		}
		r.until(13 * time.Second)
		for i := range others {
			id := fmt.Sprint("other-", i)
			r.is(r.slot(id, 3*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
			for _, call := range r.executor.calls(id) {
				// One owner never has all of the launches: they go in several turns.
				if late := call.at.Sub(r.at(11500 * time.Millisecond)); late < 0 || late > 200*time.Millisecond {
					r.Errorf("%s was launched %s after launches became free", id, late)
				}
			}
		}
	})
}

func TestACancelIsSentOnceALaunchIsFree(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.MaxLaunches, r.config.CancelWait = 1, time.Minute
		r.launcher.CallTimeout = 3300 * time.Millisecond
		r.every("a", time.Second, byHand)
		r.every("b", time.Second, byHand)
		r.executor.will(accept)
		stop := r.start()
		defer stop()
		run := r.trigger("a", "one")
		time.Sleep(time.Second)
		r.executor.will(func(ctx context.Context, _ launcher.Call) (schedule.Outcome, error) {
			<-ctx.Done()
			return schedule.Outcome{}, &launcher.Refusal{Code: "late"}
		})
		r.trigger("b", "one")
		time.Sleep(100 * time.Millisecond)
		if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: run.Key}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		r.is(r.run(run.Key), schedule.StatusCancelled, schedule.ReasonCancelled)
	})
}
