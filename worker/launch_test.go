package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

func notSent(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{}, fmt.Errorf("dial: %w", launcher.ErrNotSent)
}

// A text that Postgres refuses would fail the settlement of a whole batch.
func TestWhyAnOutcomeIsUnknownIsKeptAsTextThatEveryStoreTakes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand)
		r.executor.will(func(context.Context, launcher.Call) (schedule.Outcome, error) {
			return schedule.Outcome{}, errors.New("reset \x00 \xff by " + strings.Repeat("ü", 4096))
		})
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		time.Sleep(500 * time.Millisecond)
		got, err := r.registrar.GetRun(r.Context(), run.Key)
		if err != nil {
			r.Fatal(err)
		}
		text := got.ErrorMessage
		if got.Status != schedule.StatusLaunching || !strings.Contains(text, "reset") {
			r.Errorf("the run is %s and says %.60q", got.Status, text)
		}
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > schedule.MaxErrorMessage {
			r.Errorf("%d bytes of %.60q are kept", len(text), text)
		}
	})
}

func TestAnUnknownOutcomeIsSentAgainWithTheSameKeyAndBackoff(t *testing.T) {
	for name, answer := range map[string]func(context.Context, launcher.Call) (schedule.Outcome, error){
		"the answer gets lost": lose, "the executor hangs": hang, "nobody can reach the executor": notSent,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.RetryFor = time.Minute
				r.every("s", time.Second, byHand)
				r.executor.will(answer)
				stop := r.start()
				defer stop()
				run := r.trigger("s", "one")
				time.Sleep(8500 * time.Millisecond)
				calls := r.executor.calls("s")
				if len(calls) != 3 && len(calls) != 4 {
					r.Errorf("%d sends in 8.5 s, want 1 s, 2 s, 4 s … apart", len(calls))
				}
				for i, call := range calls {
					if call.Key != run.Key {
						r.Errorf("send %d has another key", i)
					}
					if i > 0 && call.at.Sub(calls[i-1].at) < time.Second<<(i-1) {
						r.Errorf("send %d came %s after the one before, want a growing backoff", i, call.at.Sub(calls[i-1].at))
					}
				}
				r.is(r.run(run.Key), schedule.StatusLaunching, schedule.ReasonNone)
				r.executor.will(success)
				time.Sleep(8 * time.Second)
				after := r.run(run.Key)
				r.is(after, schedule.StatusSuccess, schedule.ReasonNone)
				sent := len(r.executor.calls("s"))
				if attempts := int(after.Attempts()); attempts != sent {
					r.Errorf("%d attempts are counted of %d", attempts, sent)
				}
				if name == "nobody can reach the executor" {
					sent = 1 // a call without a connection is no delivery
				}
				if int(after.Deliveries) != sent {
					r.Errorf("deliveries is %d after %d calls that reached the executor", after.Deliveries, sent)
				}
			})
		})
	}
}

// What other leaders sent tells nothing of the executor.
func TestARunThatLivedThroughManyFailoversIsSentAgainAfterTheFirstBackoff(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.RetryFor, r.config.DrainTimeout = time.Minute, 100*time.Millisecond
		r.every("s", time.Second, byHand)
		r.executor.will(hang)
		r.trigger("s", "one")
		const lives = 6
		for range lives {
			r.work(500 * time.Millisecond)
		}
		r.executor.will(lose)
		before := len(r.executor.calls("s"))
		defer r.start()()
		time.Sleep(10 * time.Second)
		calls := r.executor.calls("s")[before:]
		if len(calls) < 2 || calls[1].at.Sub(calls[0].at) > 2*time.Second {
			r.Errorf("want a second attempt a second after the first: %+v", calls)
		}
	})
}

func TestALaunchThatNeverReachedAConnectionEndsUnavailable(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.RetryFor = 6 * time.Second
		r.every("s", time.Second, byHand)
		r.executor.will(notSent)
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		time.Sleep(r.config.RetryFor - time.Second)
		r.is(r.run(run.Key), schedule.StatusLaunching, schedule.ReasonNone)
		time.Sleep(3 * time.Second)
		r.is(r.run(run.Key), schedule.StatusFailed, schedule.ReasonLaunchUnavailable)
	})
}

func TestALaunchThatMayHaveArrivedEndsLostAtItsBound(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.RetryFor = 4 * time.Second
		r.every("s", time.Second, byHand, runTimeout(10*time.Second))
		r.executor.will(lose)
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		time.Sleep(3 * time.Second)
		r.is(r.run(run.Key), schedule.StatusLaunching, schedule.ReasonNone)
		time.Sleep(3 * time.Second) // the run timeout is no bound of a launch
		for _, call := range r.executor.calls("s") {
			if late := call.at.Sub(run.FireAt); late > r.config.RetryFor {
				r.Errorf("sent again %s after its fire time; LAUNCH_RETRY_FOR is %s", late, r.config.RetryFor)
			}
		}
		r.is(r.run(run.Key), schedule.StatusFailed, schedule.ReasonLost)
	})
}

func TestAReportEndsALaunchWhoseAnswerWasLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand)
		r.executor.will(lose)
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		time.Sleep(2 * time.Second)
		r.report(run.Key, schedule.StatusSuccess)
		sent := len(r.executor.calls("s"))
		time.Sleep(3 * time.Second)
		r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
		if n := len(r.executor.calls("s")); n != sent {
			r.Errorf("sent %d times more after the run had ended", n-sent)
		}
	})
}

func TestWhatTheExecutorDefinitelySaysEndsTheRun(t *testing.T) {
	for _, tc := range []struct {
		name     string
		workflow int32
		feedback bool
		answer   func(context.Context, launcher.Call) (schedule.Outcome, error)
		status   schedule.Status
		reason   schedule.Reason
		code     string
	}{
		{"it refuses", 1, true, func(context.Context, launcher.Call) (schedule.Outcome, error) {
			return schedule.Outcome{}, &launcher.Refusal{Code: "http_403", Message: "no"}
		}, schedule.StatusFailed, schedule.ReasonLaunchRefused, "http_403"},
		{"it fails at once", 1, true, func(context.Context, launcher.Call) (schedule.Outcome, error) {
			return schedule.Outcome{Status: schedule.StatusFailed, ErrorCode: "E1"}, nil
		}, schedule.StatusFailed, schedule.ReasonWorkflowFailed, "E1"},
		{"the workflow is not stored", 7, true, success, schedule.StatusFailed, schedule.ReasonWorkflowNotFound, "workflow_not_found"},
		{"it accepts, and no report will come", 1, false, accept, schedule.StatusSuccess, schedule.ReasonAccepted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.launcher.Feedback = tc.feedback
				s := r.every("s", time.Second, byHand)
				s.Version = tc.workflow
				r.upsertAgain(s)
				r.executor.will(tc.answer)
				stop := r.start()
				defer stop()
				run := r.trigger("s", "one")
				time.Sleep(1500 * time.Millisecond)
				after := r.run(run.Key)
				r.is(after, tc.status, tc.reason)
				if after.ErrorCode != tc.code {
					r.Errorf("error_code is %q, want %q", after.ErrorCode, tc.code)
				}
				if n := len(r.executor.calls("s")); n > 1 {
					r.Errorf("the executor was called %d times", n)
				}
			})
		})
	}
}

func TestARunWithoutASignOfLifeFreesItsOverlapKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 3*time.Second, runTimeout(time.Second))
		r.executor.will(accept)
		r.work(6500 * time.Millisecond)
		r.is(r.slot("s", 3*time.Second), schedule.StatusFailed, schedule.ReasonTimeout)
		if n := len(r.executor.calls("s")); n != 2 {
			r.Errorf("%d slots were launched, want both: the first ended at its timeout", n)
		}
	})
}

func TestWhatWaitsForARunThatIsSweptDoesNotWaitForTheRestOfTheTick(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 3*time.Second, overlap(schedule.OverlapQueue), runTimeout(3500*time.Millisecond))
		r.executor.will(accept)
		r.work(8 * time.Second)
		calls := r.executor.calls("s")
		if len(calls) != 2 {
			r.Fatalf("%d calls, want 2: the second once the first was swept", len(calls))
		}
		if at := calls[1].at.Sub(r.began); at < 7*time.Second || at > 7050*time.Millisecond {
			r.Errorf("what waited went after %s, want as soon as the tick after 7s has swept", at)
		}
	})
}

// The answer to an open call arrives after the owner has asked for a cancel.
func TestAnAnswerSettlesARunWhoseCancelWasAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer schedule.Status
		want   schedule.Status
		reason schedule.Reason
	}{
		{name: "it has succeeded", answer: schedule.StatusSuccess, want: schedule.StatusSuccess},
		{name: "it has failed", answer: schedule.StatusFailed, want: schedule.StatusCancelled, reason: schedule.ReasonCancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.every("s", time.Second, byHand)
				r.executor.will(lose)
				r.executor.cancel = func(schedule.CancelRequest) error { return schedule.ErrNotFound }
				run := r.trigger("s", "one")
				r.work(1500 * time.Millisecond)
				r.is(r.run(run.Key), schedule.StatusLaunching, schedule.ReasonNone)
				if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: run.Key}); err != nil {
					r.Fatal(err)
				}
				done := schedule.FinishRequest{Key: run.Key, Outcome: schedule.Outcome{Status: tc.answer}}
				if _, err := r.store.Finish(r.Context(), []schedule.FinishRequest{done}, r.store.Now()); err != nil {
					r.Fatal(err)
				}
				r.is(r.run(run.Key), tc.want, tc.reason)
				sent := len(r.executor.calls("s"))
				r.work(8 * time.Second)
				r.is(r.run(run.Key), tc.want, tc.reason)
				if n := len(r.executor.calls("s")); n != sent {
					r.Errorf("the executor was called %d times more for an outcome that is recorded", n-sent)
				}
			})
		})
	}
}
