package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// unattended registers s with a slot every second and lets nobody work for so long:
// by catch-up none its slots are missed and have no row.
func (r *rig) unattended(d time.Duration, more ...func(*registrar.UpsertInput)) {
	r.Helper()
	r.config.Grace = time.Second
	r.every("s", time.Second, append([]func(*registrar.UpsertInput){
		func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(d) },
	}, more...)...)
	r.until(d + 3*time.Second)
}

// backfill asks for the slots of s from so long after the beginning until so long.
func (r *rig) backfill(from, to time.Duration, more ...func(*registrar.BackfillInput)) *schedule.Backfill {
	r.Helper()
	in := registrar.BackfillInput{ScheduleID: "s", From: r.at(from), To: r.at(to), RequestID: "one", Actor: "ada"}
	for _, change := range more {
		change(&in)
	}
	done, err := r.registrar.Backfill(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	return done.Backfill
}

func (r *rig) backfilled(id string) *schedule.Backfill {
	r.Helper()
	b, err := r.registrar.GetBackfill(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// ended holds a backfill to its end and its counts.
func (r *rig) ended(id string, want schedule.BackfillCounts) {
	r.Helper()
	b := r.backfilled(id)
	want.ToRun = b.ToRun
	if b.State != schedule.BackfillFinished || b.BackfillCounts != want || b.Open {
		r.Errorf("the backfill is %s (%s): %+v, want it finished: %+v", b.State, b.StateNote, b.BackfillCounts, want)
	}
}

func TestABackfillRunsMissedSlotsAsThemselvesOldestFirst(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.unattended(20 * time.Second)
		stop := r.start()
		defer stop()
		time.Sleep(2 * time.Second)
		if n := len(r.runs("s")); n != 0 {
			r.Fatalf("%d slots have rows, want all of them missed", n)
		}
		b := r.backfill(3*time.Second, 9*time.Second)
		time.Sleep(3 * time.Second)
		r.ended(b.BackfillID, schedule.BackfillCounts{Slots: 6, Inserted: 6, Succeeded: 6})
		for i, call := range r.executor.calls("s") {
			at := time.Duration(3+i) * time.Second
			if run := r.slot("s", at); run.Trigger != schedule.TriggerBackfill || call.Key != run.Key {
				r.Errorf("call %d is %s at %s, want the slot at +%s", i, call.Trigger, call.ScheduledFor, at)
			}
		}
		if n := len(r.events("s", schedule.EventBackfillAsked, schedule.EventBackfillFinished)); n != 2 {
			r.Errorf("%d events, want that it was asked for and that it finished", n)
		}
		// What is filled is not missed any more.
		again := r.backfill(3*time.Second, 10*time.Second, func(in *registrar.BackfillInput) { in.RequestID = "two" })
		time.Sleep(3 * time.Second)
		r.ended(again.BackfillID, schedule.BackfillCounts{Slots: 7, PassedOver: 6, Inserted: 1, Succeeded: 1})
	})
}

func TestABackfillOfFailedSlotsRunsThemBesideTheirRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.Grace = time.Second
		r.every("s", time.Second, overlap(schedule.OverlapAllow), func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(6 * time.Second) })
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			if call.ScheduledFor.Before(r.at(4 * time.Second)) {
				return schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}, nil
			}
			return success(ctx, call)
		})
		stop := r.start()
		defer stop()
		r.until(8 * time.Second)
		r.executor.will(success)
		missed := r.backfill(0, 7*time.Second)
		failed := r.backfill(0, 7*time.Second, func(in *registrar.BackfillInput) {
			in.RequestID, in.Reprocess, in.Order = "two", schedule.ReprocessFailed, schedule.NewestFirst
		})
		time.Sleep(4 * time.Second)
		all := r.backfill(2*time.Second, 7*time.Second, func(in *registrar.BackfillInput) {
			in.RequestID, in.Reprocess, in.Concurrency = "three", schedule.ReprocessAll, 2
		})
		time.Sleep(4 * time.Second)
		r.ended(missed.BackfillID, schedule.BackfillCounts{Slots: 6, PassedOver: 6})
		r.ended(failed.BackfillID, schedule.BackfillCounts{Slots: 6, PassedOver: 3, Inserted: 3, Succeeded: 3})
		r.ended(all.BackfillID, schedule.BackfillCounts{Slots: 5, Inserted: 5, Succeeded: 5})
		run := r.run(schedule.BackfillKey("s", "two", r.at(1*time.Second)))
		r.is(run, schedule.StatusSuccess, schedule.ReasonNone)
		r.is(r.slot("s", time.Second), schedule.StatusFailed, schedule.ReasonWorkflowFailed) // stays as it was
	})
}

func TestABackfillKeepsItsConcurrencyAndItsRate(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.unattended(40*time.Second, overlap(schedule.OverlapAllow))
		r.takes(3 * time.Second)
		stop := r.start()
		defer stop()
		b := r.backfill(0, 20*time.Second, func(in *registrar.BackfillInput) { in.Concurrency = 3 })
		for b.State == schedule.BackfillRunning {
			time.Sleep(100 * time.Millisecond)
			if b = r.backfilled(b.BackfillID); b.InFlight+b.Waiting > 3 {
				r.Fatalf("%d in flight and %d waiting, more than 3", b.InFlight, b.Waiting)
			}
		}
		r.ended(b.BackfillID, schedule.BackfillCounts{Slots: 19, Inserted: 19, Succeeded: 19})
		r.executor.will(success)
		began := len(r.executor.calls("s"))
		slow := r.backfill(20*time.Second, 30*time.Second, func(in *registrar.BackfillInput) {
			in.RequestID, in.RatePerMinute, in.Concurrency = "two", 120, 10
		})
		time.Sleep(7 * time.Second)
		r.ended(slow.BackfillID, schedule.BackfillCounts{Slots: 10, Inserted: 10, Succeeded: 10})
		calls := r.executor.calls("s")[began:]
		for i := 1; i < len(calls); i++ {
			if gap := calls[i].at.Sub(calls[i-1].at); gap < 490*time.Millisecond || gap > 600*time.Millisecond {
				r.Errorf("start %d came %s after the one before, want half a second", i, gap)
			}
		}
	})
}

func TestAPausedBackfillGoesOnWhereItWasAndACancelledOneEnds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.unattended(40 * time.Second)
		r.takes(2 * time.Second)
		stop := r.start()
		defer stop()
		b := r.backfill(0, 11*time.Second)
		time.Sleep(5 * time.Second)
		change := registrar.BackfillChangeInput{BackfillID: b.BackfillID, Note: "too slow", Actor: "bob"}
		paused, err := r.registrar.PauseBackfill(r.Context(), change)
		if err != nil || paused.State != schedule.BackfillPaused || paused.StateNote != "too slow" || paused.ChangedBy != "bob" {
			r.Fatalf("paused: %+v, %v", paused, err)
		}
		time.Sleep(3 * time.Second)
		calls := len(r.executor.calls("s"))
		time.Sleep(10 * time.Second)
		if n := len(r.executor.calls("s")); n != calls || n >= 10 {
			r.Errorf("%d calls while it was paused, of %d", n-calls, n)
		}
		if _, err := r.registrar.ResumeBackfill(r.Context(), change); err != nil {
			r.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		r.ended(b.BackfillID, schedule.BackfillCounts{Slots: 10, Inserted: 10, Succeeded: 10})
		if n := len(r.executor.calls("s")); n != 10 {
			r.Errorf("%d calls for 10 slots", n)
		}
		second := r.backfill(11*time.Second, 31*time.Second, func(in *registrar.BackfillInput) { in.RequestID = "two" })
		time.Sleep(5 * time.Second)
		change = registrar.BackfillChangeInput{BackfillID: second.BackfillID}
		if _, err := r.registrar.CancelBackfill(r.Context(), change); err != nil {
			r.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		done := r.backfilled(second.BackfillID)
		if done.State != schedule.BackfillCancelled || done.Open || done.Remaining() != 0 || done.NotRun() == 0 || done.Started() != done.Succeeded+done.Cancelled {
			r.Errorf("the cancelled one is %s: %+v", done.State, done.BackfillCounts)
		}
		if _, err := r.registrar.ResumeBackfill(r.Context(), change); !errors.Is(err, schedule.ErrPrecondition) {
			r.Errorf("a cancelled one is resumed: %v", err)
		}
	})
}

func TestABackfillEndsWithItsScheduleOrItsGrant(t *testing.T) {
	inBubble(t, func(r *rig) {
		if _, err := r.registrar.CreateGrant(r.Context(), registrar.GrantInput{
			GrantID: "g", UserID: "u", BillingAccountID: "a", Scopes: []string{"graph:execute:w"},
		}); err != nil {
			r.Fatal(err)
		}
		r.unattended(20*time.Second, func(in *registrar.UpsertInput) { in.Definition.ExecutionGrantID = "g" })
		r.takes(2 * time.Second)
		stop := r.start()
		defer stop()
		b := r.backfill(0, 10*time.Second)
		time.Sleep(3 * time.Second)
		if _, err := r.registrar.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if b = r.backfilled(b.BackfillID); b.State != schedule.BackfillCancelled || b.Reason != schedule.ReasonGrantRevoked || b.Skipped != 1 {
			r.Errorf("after the revocation it is %s(%s): %+v", b.State, b.Reason, b.BackfillCounts)
		}
		paused := r.backfill(10*time.Second, 15*time.Second, func(in *registrar.BackfillInput) { in.RequestID = "two" })
		if _, err := r.registrar.PauseBackfill(r.Context(), registrar.BackfillChangeInput{BackfillID: paused.BackfillID}); err != nil {
			r.Fatal(err)
		}
		if err := r.registrar.Delete(r.Context(), "s", "ada"); err != nil {
			r.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if b := r.backfilled(paused.BackfillID); b.State != schedule.BackfillCancelled || b.Reason != schedule.ReasonDeleted {
			r.Errorf("after the deletion it is %s(%s)", b.State, b.Reason)
		}
	})
}

func TestABackfillWaitsForWhatIsOnTime(t *testing.T) {
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapAllow} {
		t.Run(fmt.Sprint("overlap ", policy), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.config.Grace = time.Second
				r.every("s", 5*time.Second, overlap(policy))
				r.until(60 * time.Second)
				r.takes(300 * time.Millisecond)
				stop := r.start()
				defer stop()
				time.Sleep(time.Second) // the slot of now has ended, and is in nobody's way
				b := r.backfill(0, 52*time.Second)
				time.Sleep(60 * time.Second)
				r.ended(b.BackfillID, schedule.BackfillCounts{Slots: 10, Inserted: 10, Succeeded: 10})
				for _, run := range r.runs("s") {
					if late := run.LaunchedAt.Sub(run.RunAt); run.Trigger == schedule.TriggerSchedule && run.RunAt.After(r.at(61*time.Second)) && late > 50*time.Millisecond {
						r.Errorf("the slot at +%s was %s late, %s(%s)", run.RunAt.Sub(r.began), late, run.Status, run.Reason)
					}
				}
			})
		})
	}
}
