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

func TestARunThatIsNotOverInTimeFailsAndItsExecutorIsAskedToCancelIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("long", time.Second, byHand, func(in *registrar.UpsertInput) { in.Definition.MaxRunMS = 10_000 })
		r.executor.will(accept)
		cancelled := make(chan schedule.CancelRequest, 10)
		r.executor.cancel = func(req schedule.CancelRequest) error { cancelled <- req; return nil }
		stop := r.start()
		defer stop()
		run := r.trigger("long", "one")
		for range 3 {
			time.Sleep(3 * time.Second)
			if _, _, err := r.registrar.Report(r.Context(), registrar.ReportInput{Key: run.Key, Status: schedule.StatusStarted}); err != nil {
				r.Fatal(err)
			}
		}
		r.is(r.run(run.Key), schedule.StatusStarted, schedule.ReasonNone)
		time.Sleep(3 * time.Second)
		r.is(r.run(run.Key), schedule.StatusFailed, schedule.ReasonDeadline)
		if len(cancelled) != 1 {
			r.Fatalf("%d cancels are sent, want one", len(cancelled))
		}
		if req := <-cancelled; req.Key != run.Key || req.Reason != schedule.ReasonDeadline {
			r.Errorf("the cancel is %+v", req)
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
