package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Two runs of a slot that draw the same number end one by one, which is slow.
func TestJobsOfOneMomentDrawDifferentNumbers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	drawn := make(map[int32]int)
	for i := range 5000 {
		run := schedule.Run{ScheduleID: "s", RunAt: now, Key: schedule.JobKey(now, "q", "u", "r", i)}
		if n := ledger.Nth(&run); n <= 0 {
			t.Fatalf("job %d has the number %d: want more than 0, which the slot's own run has", i, n)
		} else if other, taken := drawn[n]; taken {
			t.Fatalf("jobs %d and %d both have the number %d", other, i, n)
		}
		drawn[ledger.Nth(&run)] = i
	}
	own := schedule.Run{ScheduleID: "s", RunAt: now, Key: schedule.SlotKey("s", now)}
	if n := ledger.Nth(&own); n != 0 {
		t.Errorf("the slot's own run has the number %d: want 0", n)
	}
}
