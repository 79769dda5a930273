package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

func TestARunSaysWhichGroupItIsOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 0, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		edit func(*schedule.Run)
		says string // "": nothing about groups
	}{
		"a member":      {func(r *schedule.Run) { r.Queue.GroupNo, r.Queue.GroupSeq, r.Queue.GroupID = 4, 2, "q.ada.night.x" }, "It is member 2 of group q.ada.night.x."},
		"a late one":    {func(*schedule.Run) {}, "after the group was sealed, or the group could not take it"},
		"a backfill":    {func(r *schedule.Run) { r.Trigger = schedule.TriggerBackfill }, "not those started by a backfill"},
		"a job":         {func(r *schedule.Run) { r.Trigger, r.Epoch = schedule.TriggerJob, 0 }, ""},
		"outside of it": {func(r *schedule.Run) { r.Queue = schedule.QueuePlace{} }, ""},
	} {
		run := schedule.Run{
			Key: schedule.SlotKey("s", now), ScheduleID: "s", Status: schedule.StatusSuccess, Trigger: schedule.TriggerSchedule, Epoch: 3, Webhook: "billing",
			RunAt: now, FireAt: now, CreatedAt: now, CompletedAt: now, Queue: schedule.QueuePlace{No: 1, ID: "q", EnqueuedAt: now},
		}
		c.edit(&run)
		text := strings.Join(explain.DeriveRun(explain.RunFacts{Run: &run, Definition: &schedule.Definition{ScheduleID: "s", QueueID: "q", Group: "night"}, Now: now}).Lines, "\n")
		if c.says != "" && !strings.Contains(text, c.says) || c.says == "" && strings.Contains(text, "group") {
			t.Errorf("%s: %q is not said in\n%s", name, c.says, text)
		}
		if !strings.Contains(text, `webhook target "billing"`) {
			t.Errorf("%s: the target is not named in\n%s", name, text)
		}
	}
}
