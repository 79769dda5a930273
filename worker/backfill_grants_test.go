package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// requiringGrants is a rig in which nothing runs without one, as with
// REQUIRE_GRANT; what was registered before may have none.
func requiringGrants(r *rig) { r.config.RequireGrant, r.launcher.RequireGrant = true, true }

// A backfill runs on the grant of the definition that was in force when it was
// asked for.
func TestWhereAGrantIsRequiredABackfillRunsOnTheSchedules(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.grant("g")
		r.every("s", time.Second, overlap(schedule.OverlapAllow), onGrant("g"))
		r.pause("s", time.Time{})
		r.until(6500 * time.Millisecond)
		b := r.backfill(time.Second, 6*time.Second)
		r.work(8 * time.Second)
		r.ended(b.BackfillID, schedule.BackfillCounts{Slots: 5, Inserted: 5, Succeeded: 5})
		for _, call := range r.executor.calls("s") {
			if call.ExecutionGrantID != "g" {
				r.Errorf("the slot at %s was sent on the grant %q", call.ScheduledFor, call.ExecutionGrantID)
			}
		}
	}, requiringGrants)
}

// One without a grant ends with its first run, and sends nothing.
func TestWhereAGrantIsRequiredABackfillWithoutOneEnds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		r.pause("s", time.Time{})
		r.until(6500 * time.Millisecond)
		b := r.backfill(time.Second, 6*time.Second)
		r.work(8 * time.Second)
		got := r.backfilled(b.BackfillID)
		if got.State != schedule.BackfillCancelled || got.Reason != schedule.ReasonGrantDenied || got.Open || !strings.Contains(got.StateNote, "grant") {
			r.Errorf("it is %+v, want cancelled, and that a grant is missing", got)
		}
		if got.Inserted != 1 || got.Skipped != 1 {
			r.Errorf("it put down %d slots, of which %d were skipped, want one", got.Inserted, got.Skipped)
		}
		r.is(r.slot("s", time.Second), schedule.StatusSkipped, schedule.ReasonGrantDenied)
		if n := len(r.executor.calls("s")); n != 0 {
			r.Errorf("the executor was called %d times", n)
		}
	}, requiringGrants)
}
