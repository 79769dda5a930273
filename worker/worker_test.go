package worker_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestASlotGoesThroughItsWholeLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newRig(t, filepath.Join(t.TempDir(), "carillon.db"))
		defer rig.close()
		rig.deploy("w", 1)
		rig.upsert(registrar.UpsertInput{Definition: schedule.Definition{
			ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "*/10 * * * * *",
		}})
		stop := rig.start()
		time.Sleep(65 * time.Second)
		stop()

		runs := rig.runs("s")
		if len(runs) != 6 {
			t.Fatalf("%d runs in 65 s of a schedule every 10 s; want 6: %v", len(runs), runs)
		}
		for _, run := range runs {
			if run.Status != schedule.StatusSuccess {
				t.Errorf("run at %s is %s(%s); want SUCCESS", run.RunAt, run.Status, run.Reason)
			}
			if late := run.LaunchedAt.Sub(run.FireAt); late < 0 || late > 5*time.Millisecond {
				t.Errorf("run at %s was launched %s after fire_at; the timer should hit it", run.RunAt, late)
			}
		}
	})
}

func TestATermThatEndsLosesAndDoublesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newRig(t, filepath.Join(t.TempDir(), "carillon.db"))
		defer rig.close()
		rig.deploy("w", 1)
		rig.upsert(registrar.UpsertInput{Definition: schedule.Definition{
			ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "* * * * * *", OverlapPolicy: schedule.OverlapAllow,
		}})
		for range 20 {
			stop := rig.start()
			time.Sleep(3500 * time.Millisecond)
			stop()
		}
		seen := make(map[schedule.Key]int)
		for _, call := range rig.executor.calls() {
			seen[call.Key]++
		}
		for _, run := range rig.runs("s") {
			if run.Status == schedule.StatusSuccess && seen[run.Key] != 1 {
				t.Errorf("run at %s was executed %d times", run.RunAt, seen[run.Key])
			}
		}
		if len(seen) < 68 {
			t.Errorf("%d slots fired in 70 s of a schedule every second", len(seen))
		}
	})
}
