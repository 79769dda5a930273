package worker_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// quietAfter holds a schedule to what a pause and a deletion promise: nothing
// of it is sent later than a second after the answer.
func (r *rig) quietAfter(id string, answered, until time.Time) {
	r.Helper()
	for _, call := range r.executor.calls(id) {
		if late := call.at.Sub(answered); late > time.Second && call.at.Before(until) {
			r.Errorf("a run of %s was sent %s after the answer", id, late)
		}
	}
}

func TestAPauseWithAnEndEndsByItself(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second)
		stop := r.start()
		defer stop()
		r.until(3 * time.Second)
		r.pause("s", r.at(8*time.Second))
		r.until(11 * time.Second)
		var fired []time.Duration
		for _, call := range r.executor.calls("s") {
			fired = append(fired, call.ScheduledFor.Sub(r.began))
		}
		want := []time.Duration{2 * time.Second, 8 * time.Second, 10 * time.Second}
		if len(fired) != len(want) || fired[0] != want[0] || fired[1] != want[1] || fired[2] != want[2] {
			r.Errorf("fired at %v, want %v: the first slot at or after paused_until too", fired, want)
		}
		if n := len(r.events("s", schedule.EventPauseEnded)); n != 1 {
			r.Errorf("%d events of the pause's end, want 1", n)
		}
		if missed := r.events("s", schedule.EventMissed); len(missed) != 0 {
			r.Errorf("slots that fell into the pause count as missed: %v", missed)
		}
	})
}

func TestNothingIsSentLaterThanASecondAfterAPauseOrDeletion(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		stop := r.start()
		defer stop()
		// At the very instant of a slot, and just before and after.
		for i, off := range []time.Duration{0, -time.Millisecond, time.Millisecond, 0} {
			r.until(time.Duration(3*i+2)*time.Second + off)
			r.pause("s", time.Time{})
			answered := time.Now()
			time.Sleep(1800 * time.Millisecond)
			if _, err := r.registrar.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "s"}); err != nil {
				r.Fatal(err)
			}
			r.quietAfter("s", answered, time.Now())
		}
		r.until(14 * time.Second)
		if err := r.registrar.Delete(r.Context(), "s", "me"); err != nil {
			r.Fatal(err)
		}
		answered := time.Now()
		time.Sleep(3 * time.Second)
		r.quietAfter("s", answered, time.Now())
		for _, run := range r.runs("s") {
			if !run.Status.Terminal() {
				r.Errorf("the run at %s is still %s", run.RunAt, run.Status)
			}
		}
	})
}

func TestAPauseStopsTheRepeatsOfAnUnknownOutcome(t *testing.T) {
	for _, asks := range []bool{false, true} {
		name := map[bool]string{false: "the executor cannot say: it ends lost", true: "the executor can say"}[asks]
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.RetryFor = 5 * time.Second
				r.every("s", 2*time.Second, runTimeout(8*time.Second), func(in *registrar.UpsertInput) {
					in.Definition.EndAt = r.at(2 * time.Second)
				})
				r.executor.will(lose)
				stop := r.start()
				defer stop()
				r.until(2500 * time.Millisecond)
				r.pause("s", time.Time{})
				answered := time.Now()
				r.until(5 * time.Second)
				r.is(r.slot("s", 2*time.Second), schedule.StatusLaunching, schedule.ReasonNone)
				if asks {
					r.executor.knows(schedule.Outcome{Status: schedule.StatusSuccess})
				}
				r.until(12 * time.Second)
				r.quietAfter("s", answered, time.Now())
				if asks {
					r.is(r.slot("s", 2*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
				} else {
					r.is(r.slot("s", 2*time.Second), schedule.StatusFailed, schedule.ReasonLost)
				}
			})
		})
	}
}

func TestADeletionEndsWhatIsPlannedAndLetsGoOnWhatRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second, overlap(schedule.OverlapQueue))
		r.takes(8 * time.Second)
		stop := r.start()
		defer stop()
		r.until(5 * time.Second) // the first runs, the second waits
		byHand := r.trigger("s", "one")
		time.Sleep(100 * time.Millisecond)
		if err := r.registrar.Delete(r.Context(), "s", "me"); err != nil {
			r.Fatal(err)
		}
		r.is(r.slot("s", 4*time.Second), schedule.StatusCancelled, schedule.ReasonDeleted)
		r.is(r.run(byHand.Key), schedule.StatusCancelled, schedule.ReasonDeleted)
		r.until(11 * time.Second)
		r.is(r.slot("s", 2*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
		if n := len(r.executor.calls("s")); n != 1 {
			r.Errorf("%d runs were sent, want only the one before the deletion", n)
		}
	})
}

func TestASlotSurvivesPauseAndResumeAndDeletionInsideTheLookahead(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 5*time.Second)
		stop := r.start()
		defer stop()
		r.until(2 * time.Second) // the slots at 5 and 10 are planned
		r.pause("s", time.Time{})
		if _, err := r.registrar.Resume(r.Context(), registrar.ResumeInput{ScheduleID: "s"}); err != nil {
			r.Fatal(err)
		}
		r.until(7 * time.Second)
		if err := r.registrar.Delete(r.Context(), "s", "me"); err != nil {
			r.Fatal(err)
		}
		r.every("s", 5*time.Second, func(in *registrar.UpsertInput) { in.Definition.StartAt = r.at(5 * time.Second) })
		r.until(11 * time.Second)
		for _, at := range []time.Duration{5 * time.Second, 10 * time.Second} {
			r.is(r.slot("s", at), schedule.StatusSuccess, schedule.ReasonNone)
		}
		if n := len(r.executor.calls("s")); n != 2 {
			r.Errorf("%d runs were sent, want each of the two slots once", n)
		}
	})
}
