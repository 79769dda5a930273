package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestAJitteredScheduleFiresExactlyAsPreviewed(t *testing.T) {
	inBubble(t, func(r *rig) {
		jitter := uint32(1200)
		r.every("s", 3*time.Second, func(in *registrar.UpsertInput) { in.JitterMS = &jitter })
		r.until(time.Second)
		page, _, err := r.registrar.Preview(r.Context(), registrar.PreviewInput{ScheduleID: "s", Count: 3})
		if err != nil {
			r.Fatal(err)
		}
		r.work(9500 * time.Millisecond)
		calls := r.executor.calls("s")
		if len(calls) < len(page) {
			r.Fatalf("%d calls, want %d or more", len(calls), len(page))
		}
		moved := false
		for i, fire := range page {
			if !calls[i].ScheduledFor.Equal(fire.RunAt) || calls[i].at.Sub(fire.FireAt).Abs() > time.Millisecond {
				r.Errorf("slot %s fired at %s, previewed were %s and %s", calls[i].ScheduledFor, calls[i].at, fire.RunAt, fire.FireAt)
			}
			moved = moved || !fire.FireAt.Equal(fire.RunAt)
		}
		if !moved {
			r.Error("no slot was jittered")
		}
	})
}

func TestADeployOfTheSameAgainMovesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.every("s", 2*time.Second)
		stop := r.start()
		defer stop()
		for range 9 {
			time.Sleep(500 * time.Millisecond)
			r.upsertAgain(s)
		}
		r.until(4500 * time.Millisecond)
		r.onceEach("s", 2*time.Second, 4*time.Second)
		if revisions, err := r.registrar.Revisions(r.Context(), "s", 0, 10); err != nil || len(revisions) != 1 {
			r.Errorf("%d revisions (%v), want one", len(revisions), err)
		}
	})
}

func TestADeployOfAChangeLosesAndDoublesNoSlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.every("s", 2*time.Second)
		stop := r.start()
		defer stop()
		for i := range 13 { // at whole and half seconds, so also at the instant of a slot
			time.Sleep(500 * time.Millisecond)
			s.Labels = map[string]string{"build": string(rune('a' + i))}
			r.upsertAgain(s)
		}
		r.until(6900 * time.Millisecond)
		r.onceEach("s", 2*time.Second, 6*time.Second)
		r.accounted("s", 2*time.Second, 6*time.Second)
	})
}

func TestTheLeaderPrunesWhatRetentionNoLongerKeeps(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.config.Retention = time.Hour
		end := func(in *registrar.UpsertInput) { in.Definition.EndAt = r.at(2 * time.Second) }
		r.every("kept", time.Second, end)
		r.every("deleted", time.Second, end)
		r.work(3 * time.Second)
		if err := r.registrar.Delete(r.Context(), "deleted", ""); err != nil {
			r.Fatal(err)
		}
		r.until(2 * time.Hour)
		r.work(2 * time.Second)
		for _, id := range []string{"kept", "deleted"} {
			runs, err := r.store.ListRuns(r.Context(), schedule.RunFilter{ScheduleID: id, Now: r.store.Now(), Limit: 10})
			if err != nil || len(runs) != 0 {
				r.Errorf("%d runs of %s are left after their retention (%v)", len(runs), id, err)
			}
		}
		if _, err := r.store.GetSchedule(r.Context(), "kept"); err != nil {
			r.Errorf("a living schedule was pruned: %v", err)
		}
		if _, err := r.store.GetSchedule(r.Context(), "deleted"); !errors.Is(err, schedule.ErrNotFound) {
			r.Errorf("the tombstone is left: %v", err)
		}
	})
}
