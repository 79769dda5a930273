package dispatch_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/registrar"
)

func TestRunsStartInTheOrderOfTheQueueOneAfterTheOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{Delay: time.Second})
		priorities := []int32{0, 5, -5, 5, 0}
		keys := r.enqueue(1, nil)
		r.pass(10 * time.Millisecond)
		keys = append(keys, r.enqueue(len(priorities), func(i int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.Priority = priorities[i] })...)
		next := r.enqueue(1, func(_ int, _ *schedule.Run, req *schedule.EnqueueRequest) { req.Position = 1 })
		r.pass(10 * time.Second)
		r.wantCalls("in order", keys[0], keys[2], keys[4], next[0], keys[1], keys[5], keys[3])
		calls := r.executor.Calls()
		if calls[0].Attempt != 1 {
			r.Errorf("attempt %d", calls[0].Attempt)
		}
		for _, key := range keys {
			if run := r.wantStatus(key, schedule.StatusSuccess, ""); run.Deliveries != 1 || run.Queue.EnqueuedAt.IsZero() || run.ClaimedAt.IsZero() {
				r.Errorf("in history as %+v", run)
			}
		}
	})
}

func TestAnAcceptedRunKeepsItsSlotUntilItsReport(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		keys := r.enqueue(2, nil)
		r.pass(time.Minute)
		r.wantCalls("one is with the executor", keys[0])
		r.wantStatus(keys[0], schedule.StatusStarted, schedule.QueueRunning)
		r.wantStatus(keys[1], schedule.StatusEnqueued, schedule.QueueWaiting)
		if _, _, err := r.registrar.Report(r.Context(), registrar.ReportInput{Key: keys[0], Status: schedule.StatusSuccess}); err != nil {
			r.Fatal(err)
		}
		r.pass(10 * time.Millisecond)
		r.wantCalls("the next one follows at once", keys...)
		r.wantStatus(keys[0], schedule.StatusSuccess, "")
	})
}

func TestAnExecutorThatIsAwayCostsNoAttemptAndNoOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{NotSent: true})
		keys := r.enqueue(6, nil)
		r.pass(2 * time.Minute)
		if n := len(r.called()); n < 20 || n > 60 {
			r.Errorf("%d calls in two minutes of an executor that is away", n)
		}
		away := len(r.called())
		for _, key := range keys {
			if run := r.get(key); run.Attempt != 1 || run.Deliveries != 0 {
				r.Errorf("it costs: %+v", run)
			}
		}
		r.executor.Behave(launchertest.Behavior{})
		r.pass(6 * time.Second)
		if got := r.called()[away:]; !slices.Equal(got, keys) {
			r.Errorf("called %s, want %s", short(got), short(keys))
		}
		for _, key := range keys {
			r.wantStatus(key, schedule.StatusSuccess, "")
		}
		events, err := r.store.ListQueueEvents(r.Context(), "q", 0, 10)
		if err != nil {
			r.Fatal(err)
		}
		var kinds []schedule.QueueEventKind
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		if want := []schedule.QueueEventKind{schedule.QueueUnstalled, schedule.QueueStalled}; !slices.Equal(kinds[:2], want) {
			r.Errorf("the log has %v", kinds)
		}
	})
}

func TestAnExecutorThatIsBusyIsLeftAloneForSoLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		keys := r.enqueue(1, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.FireAt = run.FireAt.Add(time.Second) })
		busy := &launcher.CallError{Code: schedule.CodeExecutorError, Err: errors.New("429"), NotTaken: 20 * time.Second}
		r.executor.BehaveFor(keys[0], launchertest.Behavior{Fail: busy})
		r.pass(2 * time.Second)
		keys = append(keys, r.enqueue(2, nil)...)
		r.pass(18 * time.Second)
		r.wantCalls("before the pause is over", keys[0])
		r.pass(2 * time.Second)
		r.wantCalls("after it", keys[0], keys[0], keys[1], keys[2])
		if run := r.wantStatus(keys[0], schedule.StatusSuccess, ""); run.Attempt != 1 || run.Deliveries != 1 {
			r.Errorf("it costs: %+v", run)
		}
	})
}

func TestWithBackpressureRunOnlyThatRunWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ana", MaxInFlight: 1, Backpressure: schedule.BackpressureRun}}
		if _, err := r.registrar.UpsertQueue(r.Context(), in); err != nil {
			r.Fatal(err)
		}
		keys := r.enqueue(1, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.FireAt = run.FireAt.Add(time.Second) })
		busy := &launcher.CallError{Code: schedule.CodeExecutorError, Err: errors.New("429"), NotTaken: 20 * time.Second}
		r.executor.BehaveFor(keys[0], launchertest.Behavior{Fail: busy})
		r.pass(2 * time.Second)
		keys = append(keys, r.enqueue(2, nil)...)
		r.pass(time.Second)
		r.wantCalls("the others go on", keys...)
		r.wantStatus(keys[0], schedule.StatusEnqueued, schedule.QueueDelayed)
		r.pass(20 * time.Second)
		r.wantStatus(keys[0], schedule.StatusSuccess, "")
	})
}

func TestTheTimeoutOfAQueueGoesBeforeThatOfTheSchedule(t *testing.T) {
	inBubble(t, func(r *rig) {
		in := registrar.QueueInput{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ana", MaxInFlight: 1, RunTimeoutMS: 60_000}}
		if _, err := r.registrar.UpsertQueue(r.Context(), in); err != nil {
			r.Fatal(err)
		}
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		keys := r.enqueue(1, nil)
		r.pass(50 * time.Second)
		if _, _, err := r.registrar.Report(r.Context(), registrar.ReportInput{Key: keys[0], Status: schedule.StatusStarted}); err != nil {
			r.Fatal(err)
		}
		r.pass(50 * time.Second)
		r.wantStatus(keys[0], schedule.StatusStarted, schedule.QueueRunning)
		r.pass(12 * time.Second)
		if run := r.wantStatus(keys[0], schedule.StatusFailed, ""); run.Reason != schedule.ReasonTimeout {
			r.Errorf("it ended with %s", run.Reason)
		}
	})
}

func TestACallWithoutAnAnswerKeepsItsSlotAndIsSentAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		keys := r.enqueue(2, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.FireAt = run.FireAt.Add(time.Second) })
		r.executor.WithoutGetByKey()
		r.executor.BehaveFor(keys[0], launchertest.Behavior{DropReply: true})
		r.pass(1500 * time.Millisecond)
		r.wantCalls("the first", keys[0])
		r.pass(2 * time.Second)
		r.wantCalls("the same key again, then the next", keys[0], keys[0], keys[1])
		if run := r.wantStatus(keys[0], schedule.StatusSuccess, ""); run.Deliveries != 2 || run.Attempt != 1 {
			r.Errorf("in history as %+v", run)
		}
		if doubled := r.executor.Effects.Doubled(); len(doubled) > 0 {
			r.Errorf("two effects of %v", doubled)
		}
	})
}

func TestNewRunsDoNotKeepOneWithoutAnAnswerFromItsCall(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		r.calls = 1
		r.upsert(5)
		r.run()
		r.executor.Behave(launchertest.Behavior{Delay: 300 * time.Millisecond})
		r.executor.WithoutGetByKey()
		keys := r.enqueue(200, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.FireAt = run.FireAt.Add(time.Second) })
		r.executor.BehaveFor(keys[0], launchertest.Behavior{DropReply: true})
		r.pass(15 * time.Second)
		r.wantStatus(keys[0], schedule.StatusSuccess, "")
		r.pass(time.Minute)
		r.wantStatus(keys[199], schedule.StatusSuccess, "")
	})
}

func TestAJobFailsThreeTimesAndIsDead(t *testing.T) {
	inBubble(t, func(r *rig) {
		in := registrar.UpsertInput{Definition: schedule.Definition{
			ScheduleID: "jobs", WorkflowID: "w", Version: 1, UserID: "ana", CronExpr: "0 0 1 1 *", Retry: schedule.RetryPolicy{MaxAttempts: 3, BackoffMS: 10_000},
		}}
		if _, err := r.registrar.Upsert(r.Context(), in); err != nil {
			r.Fatal(err)
		}
		r.executor.Behave(launchertest.Behavior{Outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}})
		keys := r.enqueue(1, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.MaxAttempts, run.Revision = 3, 2 })
		r.pass(time.Hour)
		second := schedule.AttemptKey(keys[0])
		third := schedule.AttemptKey(second)
		r.wantCalls("three attempts", keys[0], second, third)
		for i, key := range []schedule.Key{keys[0], second, third} {
			run := r.wantStatus(key, schedule.StatusFailed, "")
			if run.Attempt != int32(i+1) || run.IsDead() != (i == 2) {
				r.Errorf("attempt %d is %+v", i+1, run)
			}
		}
	})
}

func TestAPauseHoldsWhatWaitsAndItsEndLetsItGo(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{Delay: 100 * time.Millisecond})
		keys := r.enqueue(50, nil)
		r.pass(time.Second)
		if _, err := r.registrar.PauseQueue(r.Context(), registrar.PauseQueueInput{QueueID: "q", Note: "repair", Until: r.store.Now().Add(time.Hour)}); err != nil {
			r.Fatal(err)
		}
		paused := len(r.called())
		r.pass(30 * time.Minute)
		if n := len(r.called()); n > paused {
			r.Errorf("%d calls after the answer to the pause", n-paused)
		}
		r.end()
		r.run() // a restart does not end it
		r.pass(29 * time.Minute)
		if n := len(r.called()); n > paused {
			r.Errorf("%d calls after a restart in the pause", n-paused)
		}
		r.pass(2 * time.Minute)
		r.wantCalls("all, in order", keys...)
	})
}

func TestAChangeOfAQueueIsNoticedAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		change := func(_ any, err error) {
			r.Helper()
			if err != nil {
				r.Fatal(err)
			}
		}
		change(r.registrar.PauseQueue(r.Context(), registrar.PauseQueueInput{QueueID: "q", Note: "repair"}))
		keys := r.enqueue(3, nil)
		r.pass(10*time.Second + 300*time.Millisecond)
		change(r.registrar.ResumeQueue(r.Context(), "q", "", ""))
		r.pass(50 * time.Millisecond)
		r.wantCalls("50 ms after the resume", keys...)
	})
}

func TestWhatADeadProcessHasAdmittedIsSentByAnother(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		keys := r.enqueue(3, nil)
		out, err := r.store.Admit(r.Context(), schedule.AdmitRequest{
			QueueNo: r.queueNo, Now: r.store.Now(), Free: 10, RetryFor: time.Minute, Lease: func(schedule.Key) time.Duration { return 3 * time.Second },
		})
		if err != nil || len(out.Dispatches) != 1 {
			r.Fatalf("admitted %+v, %v", out, err)
		}
		r.run()
		r.pass(2 * time.Second)
		r.wantCalls("while its lease runs")
		r.pass(2 * time.Second)
		r.wantCalls("in order", keys...)
		if run := r.wantStatus(keys[0], schedule.StatusSuccess, ""); run.Deliveries != 2 {
			r.Errorf("in history as %+v", run)
		}
	})
}

func TestAStopPutsBackWhatWasNotCalledAndAwaitsWhatWas(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		r.upsert(4)
		keys := r.enqueue(4, nil)
		r.open = 1
		r.executor.Behave(launchertest.Behavior{Delay: time.Second})
		r.run()
		r.pass(100 * time.Millisecond)
		if len(r.called()) != 1 {
			r.Fatalf("called %s, want one call that is open", short(r.called()))
		}
		// Calls of one admission begin at the same time: any of them may be first.
		at := slices.Index(keys, r.called()[0])
		keys = slices.Concat(keys[at:at+1], keys[:at], keys[at+1:])
		for _, key := range keys {
			r.wantStatus(key, schedule.StatusEnqueued, schedule.QueueDispatching)
		}
		r.stop()
		r.pass(10 * time.Millisecond)
		for _, key := range keys[1:] {
			if run := r.wantStatus(key, schedule.StatusEnqueued, schedule.QueueWaiting); run.Deliveries != 0 || run.Attempt != 1 {
				r.Errorf("10 ms after the stop it is %+v", run)
			}
		}
		<-r.stopped
		r.wantStatus(keys[0], schedule.StatusSuccess, "")
		r.upsert(1)
		r.run()
		r.pass(5 * time.Second)
		r.wantCalls("each once, in order", keys...)
	})
}

func TestAStopDuringAnAdmissionPutsItsRunsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		r.upsert(4)
		keys := r.enqueue(4, nil)
		r.admitted = func() { r.stop() }
		r.run()
		<-r.stopped
		r.wantCalls("none")
		for _, key := range keys {
			if run := r.wantStatus(key, schedule.StatusEnqueued, schedule.QueueWaiting); run.Deliveries != 0 {
				r.Errorf("after the stop it is %+v", run)
			}
		}
		r.admitted = nil
		r.upsert(1)
		r.run()
		r.pass(100 * time.Millisecond)
		r.wantCalls("each once, at once", keys...)
	})
}

func TestACancelOfARunOfAQueue(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		keys := r.enqueue(3, nil)
		r.pass(1300 * time.Millisecond)
		for _, key := range keys[:2] {
			if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: key}); err != nil {
				r.Fatal(err)
			}
		}
		r.wantStatus(keys[1], schedule.StatusCancelled, "") // it waited
		r.pass(100 * time.Millisecond)
		r.wantStatus(keys[0], schedule.StatusCancelled, "") // the cancel was sent at once
		r.wantCalls("the next one has the slot", keys[0], keys[2])
		r.executor.WithoutCancel()
		if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: keys[2]}); err != nil {
			r.Fatal(err)
		}
		r.pass(20 * time.Second)
		r.wantStatus(keys[2], schedule.StatusStarted, schedule.QueueRunning)
		r.pass(20 * time.Second)
		r.wantStatus(keys[2], schedule.StatusCancelled, "") // it was not confirmed
	})
}

func TestAShortDelayIsNotRoundedUpToTheNextSecond(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.pass(10*time.Second + 100*time.Millisecond)
		keys := r.enqueue(1, func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) {
			run.FireAt = r.store.Now().Add(300 * time.Millisecond)
		})
		r.pass(290 * time.Millisecond)
		r.wantCalls("before its delay is over")
		r.pass(70 * time.Millisecond)
		r.wantCalls("after it", keys...)
	})
}

func TestARunThatGivesNoSignOfLifeTimesOut(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		keys := r.enqueue(1, nil)
		r.pass(59 * time.Minute)
		r.wantStatus(keys[0], schedule.StatusStarted, schedule.QueueRunning)
		r.pass(2 * time.Minute)
		if run := r.wantStatus(keys[0], schedule.StatusFailed, ""); run.Reason != schedule.ReasonTimeout {
			r.Errorf("it ended with %s", run.Reason)
		}
	})
}

func TestARunThatIsNotOverInTimeFailsAndItsExecutorIsAskedToCancelIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsert(1, func(d *schedule.QueueDefinition) { d.MaxRunMS, d.ExpiresMS = 30_000, 40_000 })
		r.executor.Behave(launchertest.Behavior{AcceptOnly: true})
		keys := r.enqueue(3, func(i int, run *schedule.Run, _ *schedule.EnqueueRequest) {
			if i == 2 {
				run.StartBy = r.store.Now().Add(40 * time.Second)
			}
		})
		for range 4 {
			r.pass(7 * time.Second)
			if _, _, err := r.registrar.Report(r.Context(), registrar.ReportInput{Key: keys[0], Status: schedule.StatusStarted}); err != nil {
				r.Fatal(err)
			}
		}
		r.wantStatus(keys[0], schedule.StatusStarted, schedule.QueueRunning)
		r.pass(3 * time.Second)
		if run := r.wantStatus(keys[0], schedule.StatusFailed, ""); run.Reason != schedule.ReasonDeadline || run.FailureClass != schedule.ClassDeadline {
			r.Errorf("it ended with %s, class %s", run.Reason, run.FailureClass)
		}
		if asked := r.executor.Cancels(); len(asked) != 1 || asked[0].Key != keys[0] || asked[0].Reason != schedule.ReasonDeadline {
			r.Errorf("the cancels are %+v", asked)
		}
		r.wantCalls("the next one has the slot", keys[0], keys[1])
		r.pass(10 * time.Second)
		if run := r.wantStatus(keys[2], schedule.StatusSkipped, ""); run.Reason != schedule.ReasonExpired {
			r.Errorf("the one that has waited ended with %s", run.Reason)
		}
	})
}

func TestTheScheduleOfARunInAQueueNoLongerMatters(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.executor.Behave(launchertest.Behavior{Delay: 5 * time.Second})
		keys := r.enqueue(3, nil)
		r.pass(time.Second)
		if _, err := r.registrar.Pause(r.Context(), registrar.PauseInput{ScheduleID: "jobs"}); err != nil {
			r.Fatal(err)
		}
		r.pass(3 * time.Second)
		if err := r.registrar.Delete(r.Context(), "jobs", "ana"); err != nil {
			r.Fatal(err)
		}
		r.pass(5 * time.Minute)
		r.wantCalls("all", keys...)
		for _, key := range keys {
			r.wantStatus(key, schedule.StatusSuccess, "")
		}
	})
}
