package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

func TestSkipLeavesOutWhatFallsIntoALongRun(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second)
		r.takes(5 * time.Second)
		r.work(12500 * time.Millisecond)
		for at, want := range map[time.Duration]schedule.Status{
			2: schedule.StatusSuccess, 4: schedule.StatusSkipped, 6: schedule.StatusSkipped, 8: schedule.StatusSuccess, 10: schedule.StatusSkipped, 12: schedule.StatusSkipped,
		} {
			reason := schedule.ReasonNone
			if want == schedule.StatusSkipped {
				reason = schedule.ReasonOverlap
			}
			if at == 8 { // reported after the worker was stopped
				r.executor.reports.Wait()
			}
			r.is(r.slot("s", at*time.Second), want, reason)
		}
	})
}

// slowSweep ends what is past its bound after a while.
type slowSweep struct{ ledger }

func (s slowSweep) Sweep(ctx context.Context, req schedule.SweepRequest) (rules.Swept, error) {
	time.Sleep(100 * time.Millisecond)
	return s.ledger.Sweep(ctx, req)
}

// A run that was silent past its timeout while nobody led is ended before the
// next term judges what fell due meanwhile: it does not stand in its way.
func TestATermEndsWhatIsPastItsBoundBeforeItJudges(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second, runTimeout(3*time.Second), func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(6 * time.Second) })
		r.executor.will(accept) // and never report
		r.work(2500 * time.Millisecond)
		r.until(6500 * time.Millisecond)
		r.over = func(s *sqlite.Store) ledger { return slowSweep{s} }
		r.work(time.Second)
		r.is(r.slot("s", 2*time.Second), schedule.StatusFailed, schedule.ReasonTimeout)
		r.is(r.slot("s", 4*time.Second), schedule.StatusEnqueued, schedule.ReasonNone)
		r.is(r.slot("s", 6*time.Second), schedule.StatusSkipped, schedule.ReasonOverlap)
	})
}

func TestAllowFiresWhateverRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", 2*time.Second, overlap(schedule.OverlapAllow))
		r.takes(time.Minute)
		r.work(9 * time.Second)
		if n := len(r.executor.calls("s")); n != 4 {
			r.Errorf("%d runs were launched, want 4 side by side", n)
		}
	})
}

func TestAQueueFiresInOrderAsSoonAsTheRunBeforeHasEnded(t *testing.T) {
	inBubble(t, func(r *rig) {
		two := uint32(2)
		r.every("s", 2*time.Second, overlap(schedule.OverlapQueue), func(in *registrar.UpsertInput) { in.MaxQueued = &two })
		const took = 5300 * time.Millisecond // ends between ticks
		r.takes(took)
		r.work(14 * time.Second)

		calls := r.executor.calls("s")
		if len(calls) < 3 {
			r.Fatalf("%d calls, want 3 or more", len(calls))
		}
		for i := 1; i < len(calls); i++ {
			if !calls[i].ScheduledFor.After(calls[i-1].ScheduledFor) {
				r.Errorf("slot %s went before %s", calls[i-1].ScheduledFor, calls[i].ScheduledFor)
			}
			if waited := calls[i].at.Sub(calls[i-1].at); waited < took || waited > took+20*time.Millisecond {
				r.Errorf("the next of the queue came %s after the one before, want as soon as that had ended (%s)", waited, took)
			}
		}
		// 2 runs; 4 and 6 wait; 4 runs from 7.3; 8 waits, 10 and 12 find it full.
		r.is(r.slot("s", 10*time.Second), schedule.StatusSkipped, schedule.ReasonQueueFull)
		r.is(r.slot("s", 12*time.Second), schedule.StatusSkipped, schedule.ReasonQueueFull)
	})
}

// The run that holds the key ends by its executor's answer, between ticks, and
// is not exclusive itself.
func TestWhatWaitsForARunGoesOnAsSoonAsItIsSettled(t *testing.T) {
	inBubble(t, func(r *rig) {
		shared := func(in *registrar.UpsertInput) { in.Definition.OverlapKey = "k" }
		r.every("first", time.Minute, shared, overlap(schedule.OverlapAllow))
		r.every("next", 61*time.Second, shared, overlap(schedule.OverlapQueue))
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(2300 * time.Millisecond)
			return success(ctx, call)
		})
		r.work(66 * time.Second)
		first, next := r.executor.calls("first"), r.executor.calls("next")
		if len(first) != 1 || len(next) != 1 {
			r.Fatalf("%d calls of the first and %d of the next, want one each", len(first), len(next))
		}
		if waited := next[0].at.Sub(first[0].at); waited < 2300*time.Millisecond || waited > 2320*time.Millisecond {
			r.Errorf("the next went %s after the first, want as soon as that was settled (2.3s)", waited)
		}
	})
}

func TestReplaceCancelsTheRunInFlight(t *testing.T) {
	for _, tc := range []struct {
		name     string
		cancel   func(*rig) func(schedule.CancelRequest) error
		work     time.Duration
		from, to time.Duration // when the next slot (due at 4 s) is launched
		event    bool
	}{
		{"the executor confirms at once", func(*rig) func(schedule.CancelRequest) error { return nil }, 5 * time.Second, 0, 50 * time.Millisecond, false},
		{"the executor says nothing, but the run reports its end", func(r *rig) func(schedule.CancelRequest) error {
			return func(ref schedule.CancelRequest) error {
				r.executor.reports.Go(func() {
					time.Sleep(1500 * time.Millisecond)
					_ = r.registrar.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: ref.Key, Status: schedule.StatusSuccess})
				})
				return errCut
			}
		}, 6 * time.Second, 1500 * time.Millisecond, 1550 * time.Millisecond, false},
		{"the executor accepts the cancel and reports the end later", func(r *rig) func(schedule.CancelRequest) error {
			return func(ref schedule.CancelRequest) error {
				if ref.ScheduleID != "s" || !ref.ScheduledFor.Equal(r.at(2*time.Second)) {
					r.Errorf("asked to cancel %s of %s, want the slot that is replaced", ref.ScheduleID, ref.ScheduledFor)
				}
				r.executor.reports.Go(func() {
					time.Sleep(1200 * time.Millisecond)
					_ = r.registrar.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: ref.Key, Status: schedule.StatusFailed, ErrorCode: "stopped", ErrorMessage: "asked to stop"})
				})
				return launcher.ErrCancelAccepted
			}
		}, 6 * time.Second, 1200 * time.Millisecond, 1250 * time.Millisecond, false},
		{"the executor accepts the cancel and never reports", func(*rig) func(schedule.CancelRequest) error {
			return func(schedule.CancelRequest) error { return launcher.ErrCancelAccepted }
		}, 8 * time.Second, 2 * time.Second, 3100 * time.Millisecond, true},
		{"nobody says anything until CANCEL_WAIT is over", func(*rig) func(schedule.CancelRequest) error {
			return func(schedule.CancelRequest) error { return errCut }
		}, 8 * time.Second, 2 * time.Second, 3100 * time.Millisecond, true},
		{"the executor cannot cancel", func(*rig) func(schedule.CancelRequest) error {
			return func(schedule.CancelRequest) error { return launcher.ErrUnsupported }
		}, 8 * time.Second, 2 * time.Second, 3100 * time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.CancelWait = 2 * time.Second
				r.every("s", 2*time.Second, overlap(schedule.OverlapReplace), func(in *registrar.UpsertInput) {
					in.Definition.EndAt = r.at(4 * time.Second)
				})
				r.executor.will(accept)
				r.executor.cancel = tc.cancel(r)
				r.work(tc.work)
				r.is(r.slot("s", 2*time.Second), schedule.StatusCancelled, schedule.ReasonReplaced)
				r.is(r.slot("s", 4*time.Second), schedule.StatusEnqueued, schedule.ReasonNone)
				calls := r.executor.calls("s")
				if len(calls) != 2 {
					r.Fatalf("%d calls, want 2", len(calls))
				}
				if after := calls[1].at.Sub(r.at(4 * time.Second)); after < tc.from || after > tc.to {
					r.Errorf("the newer slot was launched %s after it was due, want %s to %s", after, tc.from, tc.to)
				}
				if got := len(r.events("s", schedule.EventCancelTimedOut)) == 1; got != tc.event {
					r.Errorf("an event of a possible overlap: %t, want %t", got, tc.event)
				}
			})
		})
	}
}

func TestAnExecutorThatCannotCancelIsMentionedOnceAndIsNoFault(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r.config.CancelWait = 30 * time.Second
		r.every("s", 2*time.Second, overlap(schedule.OverlapReplace), func(in *registrar.UpsertInput) {
			in.Definition.EndAt = r.at(4 * time.Second)
		})
		r.executor.will(accept)
		asks := 0
		r.executor.cancel = func(schedule.CancelRequest) error { asks++; return launcher.ErrUnsupported }
		r.work(20 * time.Second)
		if asks < 2 {
			r.Fatalf("asked %d times, want it asked again", asks)
		}
		if n := strings.Count(log.String(), "cannot cancel"); n != 1 {
			r.Errorf("mentioned %d times, want once:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), "cannot send the cancel") {
			r.Errorf("it counts as a fault:\n%s", log.String())
		}
	})
}

func TestANewerSlotTakesThePlaceOfOneThatWaitsToReplace(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.CancelWait = 5 * time.Second
		r.every("s", 2*time.Second, overlap(schedule.OverlapReplace), func(in *registrar.UpsertInput) {
			in.Definition.EndAt = r.at(8 * time.Second)
		})
		r.executor.will(accept)
		r.executor.cancel = func(schedule.CancelRequest) error { return errCut }
		r.work(11 * time.Second)
		r.is(r.slot("s", 2*time.Second), schedule.StatusCancelled, schedule.ReasonReplaced)
		r.is(r.slot("s", 4*time.Second), schedule.StatusSkipped, schedule.ReasonCoalesced)
		r.is(r.slot("s", 6*time.Second), schedule.StatusSkipped, schedule.ReasonCoalesced)
		r.is(r.slot("s", 8*time.Second), schedule.StatusEnqueued, schedule.ReasonNone)
	})
}

func TestARunThatIsReplacedDuringItsCallEndsReplacedWhateverItAnswers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.launcher.CallTimeout = 20 * time.Second
		r.config.CancelWait = time.Minute
		r.every("s", 2*time.Second, overlap(schedule.OverlapReplace), func(in *registrar.UpsertInput) {
			in.Definition.EndAt = r.at(4 * time.Second)
		})
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(3 * time.Second)
			return success(ctx, call)
		})
		r.executor.cancel = func(schedule.CancelRequest) error { return launcher.ErrUnsupported }
		r.work(8500 * time.Millisecond)
		r.is(r.slot("s", 2*time.Second), schedule.StatusCancelled, schedule.ReasonReplaced)
		r.is(r.slot("s", 4*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
	})
}

func TestSchedulesOfOneOwnerMayShareAnOverlapKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		shared := func(in *registrar.UpsertInput) { in.Definition.OverlapKey = "k" }
		r.every("a", 4*time.Second, shared)
		r.every("b", 5*time.Second, shared)
		r.every("c", 5*time.Second, shared, func(in *registrar.UpsertInput) { in.Definition.UserID = "somebody-else" })
		r.takes(2 * time.Second)
		r.work(6500 * time.Millisecond) // between the ends of a and c
		r.is(r.slot("a", 4*time.Second), schedule.StatusSuccess, schedule.ReasonNone)
		r.is(r.slot("b", 5*time.Second), schedule.StatusSkipped, schedule.ReasonOverlap)
		r.is(r.slot("c", 5*time.Second), schedule.StatusEnqueued, schedule.ReasonNone)
	})
}
