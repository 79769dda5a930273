package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestWhatAChangeOfItsScheduleDoesToAPlannedRun(t *testing.T) {
	edit := schedule.Change{DropPlannedAfter: noon, Now: noon}
	pause, deletion := edit, edit
	pause.EndDue.To, pause.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
	deletion.EndDue.To, deletion.EndDue.Reason, deletion.EndRest = schedule.StatusCancelled, schedule.ReasonDeleted, true
	due, future := noon, noon.Add(time.Microsecond)
	for _, c := range []struct {
		name    string
		change  schedule.Change
		trigger schedule.Trigger
		runAt   time.Time
		status  schedule.Status
		want    string
	}{
		{"an edit drops a slot that is later than now", edit, schedule.TriggerSchedule, future, schedule.StatusPlanned, "dropped"},
		{"an edit drops a missed slot of the future too", edit, schedule.TriggerCatchup, future, schedule.StatusPlanned, "dropped"},
		{"an edit keeps a slot of now", edit, schedule.TriggerSchedule, due, schedule.StatusPlanned, "stays"},
		{"an edit keeps a run by hand", edit, schedule.TriggerManual, future, schedule.StatusPlanned, "stays"},
		{"a pause ends a slot of now", pause, schedule.TriggerSchedule, due, schedule.StatusPlanned, "SKIPPED(paused)"},
		{"a pause drops a later slot", pause, schedule.TriggerSchedule, future, schedule.StatusPlanned, "dropped"},
		{"a pause keeps a retry", pause, schedule.TriggerRetry, due, schedule.StatusPlanned, "stays"},
		{"a deletion ends a run by hand", deletion, schedule.TriggerManual, future, schedule.StatusPlanned, "CANCELLED(deleted)"},
		{"a deletion ends a run of a backfill", deletion, schedule.TriggerBackfill, due, schedule.StatusPlanned, "CANCELLED(deleted)"},
		{"a deletion keeps what is in flight", deletion, schedule.TriggerSchedule, due, schedule.StatusLaunching, "stays"},
		{"a change of a label keeps everything", schedule.Change{Now: noon}, schedule.TriggerSchedule, future, schedule.StatusPlanned, "stays"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := schedule.Run{Key: schedule.ManualKey("s", "r"), Status: c.status, Trigger: c.trigger, RunAt: c.runAt}
			got := "stays"
			switch drop, end := ledger.ChangePlanned(&c.change, &r); {
			case drop && end != nil:
				got = "dropped and ended"
			case drop:
				got = "dropped"
			case end != nil:
				got = string(end.To) + "(" + string(end.Reason) + ")"
				if end.Key != r.Key || !end.CompletedAt.Equal(noon) {
					t.Errorf("it ends as %s at %s, want %s at %s", end.Key, end.CompletedAt, r.Key, noon)
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if touches := ledger.ChangesPlanned(&c.change); !touches && got != "stays" {
				t.Error("the change does not say that it changes planned runs")
			}
		})
	}
}
