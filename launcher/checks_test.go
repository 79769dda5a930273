package launcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

func TestAChangeThatComesFirstKeepsTheRunFromTheExecutor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trigger schedule.Trigger
		change  func(*rig)
		status  schedule.Status
		reason  schedule.Reason
		runs    int
	}{
		{"a slot of a paused schedule is skipped", schedule.TriggerSchedule, (*rig).pause, schedule.StatusSkipped, schedule.ReasonPaused, 0},
		{"a slot that is caught up obeys a pause too", schedule.TriggerCatchup, (*rig).pause, schedule.StatusSkipped, schedule.ReasonPaused, 0},
		{"a run by hand does not", schedule.TriggerManual, (*rig).pause, schedule.StatusEnqueued, schedule.ReasonNone, 1},
		{"nor does a retry", schedule.TriggerRetry, (*rig).pause, schedule.StatusEnqueued, schedule.ReasonNone, 1},
		{"a slot of a deleted schedule is cancelled", schedule.TriggerSchedule, (*rig).remove, schedule.StatusCancelled, schedule.ReasonDeleted, 0},
		{"a run by hand of a deleted schedule too", schedule.TriggerManual, (*rig).remove, schedule.StatusCancelled, schedule.ReasonDeleted, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.schedule()
				tc.change(r)
				req := r.request()
				req.Trigger = tc.trigger
				r.isOutcome(r.must(req), tc.status, tc.reason)
				r.wantCalls(tc.runs, 0)
			})
		})
	}
}

func (r *rig) remove() {
	r.Helper()
	if err := r.registrar.Delete(r.Context(), "s", ""); err != nil {
		r.Fatal(err)
	}
}

func TestARefusalIsFinal(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.schedule()
		r.pause()
		req := r.request()
		r.must(req)
		r.resume()
		r.isOutcome(r.must(req), schedule.StatusSkipped, schedule.ReasonPaused)
		r.wantCalls(0, 0)
	})
}

func TestAPauseThatEndsBeforeFireAtRefusesNothing(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.schedule()
		r.pause()
		req := r.request()
		req.FireAt = r.store.Now().Add(10 * time.Second)
		done := make(chan schedule.StartReply)
		go func() { done <- r.must(req) }()
		time.Sleep(5 * time.Second)
		r.resume()
		r.isOutcome(<-done, schedule.StatusEnqueued, schedule.ReasonNone)
	})
}

func TestACheckOlderThanASecondIsMadeAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		paused bool
		slow   func(*rig)
		runs   int
		status schedule.Status
		reason schedule.Reason
	}{
		{"the DAG took long and nothing has changed", false, slowDAG, 1, schedule.StatusEnqueued, schedule.ReasonNone},
		{"the schedule was paused while the DAG was loaded", true, slowDAG, 0, schedule.StatusSkipped, schedule.ReasonPaused},
		{"asking by key took long and nothing has changed", false, slowAnswer, 2, schedule.StatusEnqueued, schedule.ReasonNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.schedule()
				req := r.request()
				tc.slow(r)
				if tc.paused {
					time.AfterFunc(time.Second, r.pause)
				}
				r.isOutcome(r.must(req), tc.status, tc.reason)
				if n := len(r.executor.runs()); n != tc.runs {
					r.Errorf("the executor was called %d times, want %d", n, tc.runs)
				}
			})
		})
	}
}

func slowDAG(r *rig) { r.workflows.took = 3 * time.Second }

// slowAnswer leaves the request with an unknown outcome, and an executor that
// takes its time to say that it never saw it.
func slowAnswer(r *rig) {
	r.executor.run = lost
	_, _ = r.start(r.request())
	r.executor.run = accept
	r.executor.ask = func(schedule.Key) (schedule.Outcome, error) {
		time.Sleep(3 * time.Second)
		return schedule.Outcome{}, schedule.ErrNotFound
	}
}

func TestNothingIsSentLaterThanASecondAfterAPause(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.schedule()
				r.workflows.took = 1200 * time.Millisecond
				answered := make(chan time.Time, 1)
				time.AfterFunc(after, func() { r.pause(); answered <- time.Now() })
				req := r.request()
				_, _ = r.start(req)
				time.Sleep(10 * time.Second)
				paused := <-answered
				for _, call := range r.executor.runs() {
					if late := call.at.Sub(paused); late > time.Second {
						r.Errorf("sent %s after the pause was answered", late)
					}
				}
			})
		})
	}
}

func TestAnUnknownOutcomeOfAPausedScheduleIsAskedForAndNotSent(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.schedule()
		r.executor.run = lost
		req := r.request()
		_, _ = r.start(req)
		r.pause()
		r.executor.run = accept
		if _, err := r.start(req); !errors.Is(err, launcher.ErrWithheld) {
			r.Errorf("got %v, want ErrWithheld: what may run already is not SKIPPED", err)
		}
		r.wantCalls(1, 1)
		r.executor.ask = func(schedule.Key) (schedule.Outcome, error) {
			return schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r1"}, nil
		}
		r.isOutcome(r.must(req), schedule.StatusSuccess, schedule.ReasonNone)
		r.wantCalls(1, 2)
	})
}

func TestALostLeadershipSendsNothingMoreAndKeepsAnAnswer(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.took = 500 * time.Millisecond
		ctx, lose := context.WithCancel(r.Context())
		time.AfterFunc(100*time.Millisecond, lose)
		req := r.request()
		if _, err := r.launcher.Start(ctx, req); err == nil {
			r.Error("a start went on after its leadership was lost")
		}
		r.wantCalls(0, 0)

		// An open call is not cut off: its answer is worth more than the seconds.
		r.workflows.took = 0
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(2 * time.Second)
			if ctx.Err() != nil {
				return schedule.Outcome{}, ctx.Err()
			}
			return accept(ctx, call)
		}
		ctx, lose = context.WithCancel(r.Context())
		time.AfterFunc(time.Second, lose)
		if _, err := r.launcher.Start(ctx, req); err != nil {
			r.Errorf("an open call was cut off: %v", err)
		}
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(1, 0)
	})
}

func TestACallSaysHowLongItsCheckIsGood(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ahead  time.Duration // of fire_at, when the launcher gets the run
		loads  time.Duration
		called time.Duration // how long before the check is too old
	}{
		{"at once", 0, 0, time.Second},
		{"after loading the DAG", 0, 300 * time.Millisecond, 700 * time.Millisecond},
		{"checked ahead of fire_at", 2 * time.Second, 0, 250 * time.Millisecond},
		{"checked anew, because loading outlived the first check", 0, 1500 * time.Millisecond, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.workflows.took = tc.loads
				req := r.request()
				req.FireAt = r.store.Now().Add(tc.ahead)
				r.must(req)
				for _, call := range r.executor.runs() {
					if left := call.SendBy.Sub(call.at); left != tc.called {
						r.Errorf("the call may be sent for another %s, want %s", left, tc.called)
					}
				}
				r.wantCalls(1, 0)
			})
		})
	}
}
