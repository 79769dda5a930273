package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// tickSlack is how much later than its pause an attempt may come: until the next
// pass of the worker.
const tickSlack = 1200 * time.Millisecond

func TestThePausesBetweenAttempts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(context.Context, launcher.Call) (schedule.Outcome, error)
		pauses []time.Duration
	}{
		{
			"of a connection that is refused: five seconds at most", notSent,
			[]time.Duration{1e9, 2e9, 4e9, 5e9, 5e9, 5e9, 5e9, 5e9, 5e9},
		},
		{
			"of an answer that is lost: thirty seconds at most", lose,
			[]time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.RetryFor = 10 * time.Minute
				r.every("s", time.Second, byHand)
				r.executor.will(tc.answer)
				defer r.start()()
				r.trigger("s", "one")
				for len(r.executor.calls("s")) <= len(tc.pauses) {
					if time.Since(r.began) > 5*time.Minute {
						r.Fatalf("%d attempts in five minutes", len(r.executor.calls("s")))
					}
					time.Sleep(time.Second)
				}
				calls := r.executor.calls("s")
				for i, want := range tc.pauses {
					if pause := calls[i+1].at.Sub(calls[i].at); pause < want || pause > want+tickSlack {
						r.Errorf("pause %d is %s, want %s", i+1, pause, want)
					}
				}
			})
		})
	}
}

// An executor that is back gets all that waits for it at once, not each run when
// its own pause is over.
func TestTheFirstAcceptedRunWakesThoseThatWait(t *testing.T) {
	inBubble(t, func(r *rig) {
		const waiting = 5
		r.config.RetryFor = 10 * time.Minute
		r.executor.will(lose)
		defer r.start()()
		var runs []schedule.Run
		for i := range waiting {
			id := fmt.Sprint("s", i)
			r.every(id, time.Second, byHand)
			runs = append(runs, r.trigger(id, "one"))
		}
		r.every("fresh", time.Second, byHand)
		time.Sleep(20 * time.Second) // each waits 16 s after its fifth attempt
		for _, run := range runs {
			if wait := time.Until(r.run(run.Key).ClaimedUntil); wait < 5*time.Second {
				r.Fatalf("%s is tried in %s: too soon for this test", run.ScheduleID, wait)
			}
		}
		r.executor.will(success)
		r.trigger("fresh", "one")
		time.Sleep(tickSlack)
		for _, run := range runs {
			got := r.run(run.Key)
			r.is(got, schedule.StatusSuccess, schedule.ReasonNone)
			if calls := r.executor.calls(run.ScheduleID); len(calls) != int(got.Attempts()) {
				r.Errorf("%s: %d calls, %d attempts are counted", run.ScheduleID, len(calls), got.Attempts())
			}
		}
	})
}
