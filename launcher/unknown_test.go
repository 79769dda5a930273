package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

var errCut = errors.New("connection reset")

// lost makes the executor take the run and its answer never arrive.
func lost(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{}, errCut
}

// refusedDial is an executor that nobody can reach.
func refusedDial(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{}, fmt.Errorf("dial: %w", launcher.ErrNotSent)
}

func TestAnUnknownOutcomeIsAskedForByKey(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answer   schedule.Outcome
		feedback bool
		want     schedule.Status
		reason   schedule.Reason
	}{
		{"it was accepted", schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r1"}, true, schedule.StatusEnqueued, schedule.ReasonNone},
		{"it was accepted and no report will come", schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r1"}, false, schedule.StatusSuccess, schedule.ReasonAccepted},
		{"it has succeeded", schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r1"}, true, schedule.StatusSuccess, schedule.ReasonNone},
		{"it has failed", schedule.Outcome{Status: schedule.StatusFailed, RunID: "r1"}, true, schedule.StatusFailed, schedule.ReasonWorkflowFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, launcher.Config{Feedback: tc.feedback}, func(r *rig) {
				r.executor.run = lost
				r.executor.ask = func(schedule.Key) (schedule.Outcome, error) { return tc.answer, nil }
				req := r.request()
				if _, err := r.start(req); !errors.Is(err, launcher.ErrOutcomeUnknown) {
					r.Fatalf("got %v, want ErrOutcomeUnknown", err)
				}
				r.isOutcome(r.must(req), tc.want, tc.reason)
				r.isOutcome(r.must(req), tc.want, tc.reason)
				r.wantCalls(1, 1)
			})
		})
	}
}

func TestAKeyThatTheExecutorNeverSawIsSentAgain(t *testing.T) {
	for name, said := range map[string]error{"it says so": schedule.ErrNotFound, "it cannot say": launcher.ErrUnsupported} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.executor.run = lost
				r.executor.ask = func(schedule.Key) (schedule.Outcome, error) { return schedule.Outcome{}, said }
				req := r.request()
				_, _ = r.start(req)
				r.executor.run = accept
				r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
				runs := r.executor.runs()
				if len(runs) != 2 || runs[0].Key != runs[1].Key {
					r.Errorf("want the same key sent twice, got %d calls", len(runs))
				}
			})
		})
	}
}

func TestAnExecutorThatCannotBeAskedNowIsNotSentTheKeyBlindly(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.executor.run = lost
		r.executor.ask = func(schedule.Key) (schedule.Outcome, error) { return schedule.Outcome{}, errCut }
		req := r.request()
		_, _ = r.start(req)
		if _, err := r.start(req); !errors.Is(err, launcher.ErrOutcomeUnknown) {
			r.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		r.wantCalls(1, 1)
	})
}

func TestARequestThatWasNeverWrittenIsNotAskedFor(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.executor.run = refusedDial
		r.executor.ask = func(schedule.Key) (schedule.Outcome, error) { return schedule.Outcome{}, errCut }
		req := r.request()
		for range 3 {
			if _, err := r.start(req); !errors.Is(err, launcher.ErrNotSent) {
				r.Fatalf("got %v, want ErrNotSent", err)
			}
		}
		r.wantCalls(3, 0)
		// Nothing was ever sent, so a cancel can still close the key.
		confirmed, err := r.launcher.Cancel(r.Context(), schedule.CancelRequest{Key: req.Key, ScheduleID: "s", Reason: schedule.ReasonCancelled})
		if err != nil || !confirmed {
			r.Errorf("the cancel of a key that was never sent: confirmed %t, %v", confirmed, err)
		}
	})
}

func TestWhatOnceMayHaveBeenSentStaysSent(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		r.executor.run = lost
		_, _ = r.start(req)
		r.executor.run = refusedDial
		_, _ = r.start(req)
		confirmed, err := r.launcher.Cancel(r.Context(), schedule.CancelRequest{Key: req.Key, ScheduleID: "s", Reason: schedule.ReasonCancelled})
		if confirmed {
			r.Errorf("a cancel was confirmed (%v) though an earlier call may have arrived", err)
		}
	})
}

func TestACallWhoseCallerDiedIsTakenUpAfterItsLease(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		hung := make(chan struct{})
		r.executor.run = func(context.Context, launcher.Call) (schedule.Outcome, error) {
			<-hung
			return schedule.Outcome{}, errCut
		}
		done := make(chan struct{})
		go func() { defer close(done); _, _ = r.start(req) }()
		time.Sleep(12 * time.Second)
		r.executor.will(accept)
		if _, err := r.start(req); err != nil {
			r.Logf("while the lease lasts: %v", err)
		}
		time.Sleep(10 * time.Second)
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		close(hung)
		<-done
		r.isOutcome(r.must(req), schedule.StatusEnqueued, schedule.ReasonNone)
		if n := len(r.executor.runs()); n != 2 {
			r.Errorf("the executor was called %d times, want 2 with the same key", n)
		}
	})
}

func TestTheWorkflowStoreIsNotWaitedForLongerThanAnyStore(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.workflows.took = time.Hour
		began := time.Now()
		if _, err := r.start(r.request()); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("got %v, want a deadline that was exceeded", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			r.Errorf("loading was given up after %s, want 5 s", took)
		}
		r.wantCalls(0, 0)
	})
}

func TestNothingIsSentAgainAfterItsTimeButAskedFor(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.executor.run = lost
		r.executor.ask = func(schedule.Key) (schedule.Outcome, error) { return schedule.Outcome{}, schedule.ErrNotFound }
		req := r.request()
		req.SendUntil = req.FireAt.Add(time.Minute)
		_, _ = r.start(req)
		time.Sleep(2 * time.Minute)
		if _, err := r.start(req); !errors.Is(err, schedule.ErrOverdue) {
			r.Errorf("got %v, want ErrOverdue", err)
		}
		r.wantCalls(1, 1)
		r.executor.ask = func(schedule.Key) (schedule.Outcome, error) {
			return schedule.Outcome{Status: schedule.StatusSuccess}, nil
		}
		r.isOutcome(r.must(req), schedule.StatusSuccess, schedule.ReasonNone)
		r.wantCalls(1, 2)
	})
}
