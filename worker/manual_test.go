package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestATriggerFiresAtOnceAlsoWherePausedOrExhausted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("paused", time.Minute)
		r.pause("paused", time.Time{})
		r.every("over", time.Second, func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(time.Second) })
		stop := r.start()
		defer stop()
		r.until(2300 * time.Millisecond)
		for _, id := range []string{"paused", "over"} {
			run := r.trigger(id, "one")
			time.Sleep(20 * time.Millisecond)
			after := r.run(run.Key)
			r.is(after, schedule.StatusSuccess, schedule.ReasonNone)
			if after.Trigger != schedule.TriggerManual {
				r.Errorf("its trigger is %s", after.Trigger)
			}
			if again := r.trigger(id, "one"); again.Key != run.Key {
				r.Errorf("the same request made another run")
			}
		}
		if n := len(r.executor.calls("paused")); n != 1 {
			r.Errorf("%d runs of the paused schedule, want the one by hand", n)
		}
	})
}

func TestATriggerUnderSkipWithARunInFlightIsRefusedAndWritesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand)
		r.executor.will(accept)
		stop := r.start()
		defer stop()
		first := r.trigger("s", "one")
		time.Sleep(time.Second)
		in := registrar.TriggerInput{ScheduleID: "s", RequestID: "two"}
		if _, err := r.registrar.Trigger(r.Context(), in); !errors.Is(err, schedule.ErrPrecondition) {
			r.Errorf("got %v, want ErrPrecondition", err)
		}
		if n, events := len(r.runs("s")), len(r.events("s", schedule.EventTriggered)); n != 1 || events != 1 {
			r.Errorf("%d runs and %d events, want nothing written", n, events)
		}
		in.OverlapPolicy = schedule.OverlapQueue
		waits, err := r.registrar.Trigger(r.Context(), in)
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Second)
		r.is(r.run(waits.Key), schedule.StatusPlanned, schedule.ReasonNone)
		r.report(first.Key, schedule.StatusSuccess)
		time.Sleep(20 * time.Millisecond)
		r.is(r.run(waits.Key), schedule.StatusEnqueued, schedule.ReasonNone)
	})
}

func TestARetryIsANewAttemptOfTheSameSlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second, runTimeout(time.Second), func(in *registrar.UpsertInput) {
			in.Definition.EndAt, in.Definition.Input = r.at(2*time.Second), []byte(`{"a": 1}`)
		})
		r.executor.will(accept)
		stop := r.start()
		defer stop()
		r.until(5 * time.Second)
		failed := r.slot("s", 2*time.Second)
		r.is(failed, schedule.StatusFailed, schedule.ReasonTimeout)
		r.pause("s", time.Time{})
		r.executor.will(success)
		retry, err := r.registrar.RetryRun(r.Context(), registrar.RetryInput{Key: failed.Key, RequestID: "again"})
		if err != nil {
			r.Fatal(err)
		}
		again, err := r.registrar.RetryRun(r.Context(), registrar.RetryInput{Key: failed.Key, RequestID: "again"})
		if err != nil || again.Key != retry.Key {
			r.Errorf("the same request made %s (%v), want %s again", again.Key, err, retry.Key)
		}
		time.Sleep(20 * time.Millisecond)
		after := r.run(retry.Key)
		r.is(after, schedule.StatusSuccess, schedule.ReasonNone)
		if after.Attempt != 2 || after.RetryOf != failed.Key || !after.RunAt.Equal(failed.RunAt) || after.Trigger != schedule.TriggerRetry {
			r.Errorf("the retry is attempt %d of %s at %s with trigger %s", after.Attempt, after.RetryOf, after.RunAt, after.Trigger)
		}
		calls := r.executor.calls("s")
		if last := calls[len(calls)-1]; string(last.Input) != `{"a": 1}` || last.Attempt != 2 {
			r.Errorf("the executor was given attempt %d with input %s", last.Attempt, last.Input)
		}
		r.is(r.run(failed.Key), schedule.StatusFailed, schedule.ReasonTimeout)
	})
}

func TestCancelEndsARunWhereverItStands(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand, overlap(schedule.OverlapQueue))
		r.executor.will(accept)
		stop := r.start()
		defer stop()
		running := r.trigger("s", "one")
		time.Sleep(time.Second)
		waits := r.trigger("s", "two")
		time.Sleep(time.Second)
		cancel := func(key schedule.Key) error {
			_, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: key, Actor: "me"})
			return err
		}
		if err := cancel(waits.Key); err != nil {
			r.Error(err)
		}
		r.is(r.run(waits.Key), schedule.StatusCancelled, schedule.ReasonCancelled)
		if err := cancel(running.Key); err != nil {
			r.Error(err)
		}
		time.Sleep(20 * time.Millisecond)
		r.is(r.run(running.Key), schedule.StatusCancelled, schedule.ReasonCancelled)
		if len(r.executor.asked) != 1 || r.executor.asked[0].RunID != runID(running.Key) {
			r.Errorf("the executor was asked to cancel %v, want the one run by its run_id", r.executor.asked)
		}
		if err := cancel(running.Key); err != nil {
			r.Errorf("a second cancel: %v, want none", err)
		}
		done := r.trigger("s", "three")
		time.Sleep(20 * time.Millisecond)
		r.report(done.Key, schedule.StatusSuccess)
		if err := cancel(done.Key); !errors.Is(err, schedule.ErrPrecondition) {
			r.Errorf("the cancel of a run that succeeded: %v, want ErrPrecondition", err)
		}
	})
}

func TestACancelledRunThatFailsIsCancelledAndOneThatSucceedsIsASuccess(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.CancelWait = time.Minute
		r.every("s", time.Second, byHand, overlap(schedule.OverlapAllow))
		r.executor.will(accept)
		r.executor.cancel = func(schedule.CancelRequest) error { return errCut }
		stop := r.start()
		defer stop()
		fails, succeeds := r.trigger("s", "one"), r.trigger("s", "two")
		time.Sleep(time.Second)
		for _, run := range []schedule.Run{fails, succeeds} {
			if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: run.Key}); err != nil {
				r.Fatal(err)
			}
		}
		r.report(fails.Key, schedule.StatusFailed)
		r.report(succeeds.Key, schedule.StatusSuccess)
		r.is(r.run(fails.Key), schedule.StatusCancelled, schedule.ReasonCancelled)
		r.is(r.run(succeeds.Key), schedule.StatusSuccess, schedule.ReasonNone)
	})
}
