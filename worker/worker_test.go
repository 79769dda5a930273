package worker_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestASlotGoesThroughItsWholeLife(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, func(in *registrar.UpsertInput) {
			in.Definition.IntervalMS, in.Definition.CronExpr = 0, "*/5 * * * * *"
		})
		r.work(10500 * time.Millisecond)

		runs := r.runs("s")
		if len(runs) != 2 {
			r.Fatalf("%d runs in 10.5 s of a schedule every 5 s; want 2: %v", len(runs), runs)
		}
		for _, run := range runs {
			r.is(run, schedule.StatusSuccess, schedule.ReasonNone)
			if late := run.LaunchedAt.Sub(run.FireAt); late < 0 || late > 5*time.Millisecond {
				r.Errorf("run at %s was launched %s after fire_at; the timer should hit it", run.RunAt, late)
			}
		}
		s, err := r.store.GetSchedule(r.Context(), "s")
		if err != nil || !s.LastRunAt.Equal(r.at(10*time.Second)) {
			r.Errorf("last_run_at is %s (%v), want the slot at +10s", s.LastRunAt, err)
		}
	})
}
