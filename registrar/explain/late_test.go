package explain_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

// claimedLater was claimed by after its fire time and launched at once.
func claimedLater(by time.Duration) func(*schedule.Run) {
	return func(r *schedule.Run) { r.ClaimedAt, r.LaunchedAt = r.FireAt.Add(by), r.FireAt.Add(by) }
}

func TestLateRunsSayWhy(t *testing.T) {
	const slot = "2026-03-07T07:30:00Z"
	for _, tt := range []expectation{
		{
			name: "one that is still to be made up for is not said to have jitter",
			facts: asked(nightly(), slot, row(func(r *schedule.Run) {
				r.Trigger, r.FireAt = schedule.TriggerCatchup, now.Add(20*time.Second)
			})),
			verdict: explain.VerdictWillFire,
			says:    []string{"will fire at 2026-03-08T12:00:50Z, 1 day 4 hours later than its nominal time (catch-up, because it was late)"},
		},
		{
			name: "one of a schedule that is deleted says so",
			facts: asked(nightly(func(s *schedule.Schedule) { s.DeletedAt = at("2026-03-08T00:00:00Z") }), slot, row(ended(schedule.StatusSuccess, "")),
				event(schedule.EventDeleted, "2026-03-08T00:00:00Z")),
			verdict: explain.VerdictRan, says: []string{"The schedule was deleted later, at 2026-03-08T00:00:00Z by bob."},
		},
		{
			name: "one that waited for its turn says for how long, and for whom",
			facts: asked(nightly(), slot, row(ended(schedule.StatusSuccess, ""), claimedLater(12*time.Second), func(r *schedule.Run) {
				r.OverlapPolicy = schedule.OverlapQueue
			}), blocked),
			verdict: explain.VerdictRan,
			says:    []string{"Queued for 12 seconds (overlap_policy queue).", "Blocked by run " + blocker.Key.String()},
		},
		{
			name: "one that nobody claimed in time says so", facts: asked(nightly(), slot, row(ended(schedule.StatusSuccess, ""), claimedLater(25*time.Second))),
			verdict: explain.VerdictRan, says: []string{"No worker claimed it for 25 seconds"},
		},
		{
			name: "one that was planned late says so",
			facts: asked(nightly(), slot, row(ended(schedule.StatusSuccess, ""), claimedLater(25*time.Second), func(r *schedule.Run) {
				r.CreatedAt = r.FireAt.Add(24500 * time.Millisecond)
			})),
			verdict: explain.VerdictRan, says: []string{"Planned 25 seconds after its fire time: until then no worker led the shard, or the planner was behind."},
		},
		{
			name: "one that was handed over late says so",
			facts: asked(nightly(), slot, row(ended(schedule.StatusSuccess, ""), func(r *schedule.Run) {
				r.LaunchedAt, r.Deliveries = r.FireAt.Add(3*time.Second), 2
			})),
			verdict: explain.VerdictRan, says: []string{"Sending it to the executor took 3 seconds"},
		},
		{
			name: "one that was accepted and does not report says so, and when it ends",
			facts: asked(nightly(), slot, row(func(r *schedule.Run) {
				r.Status, r.ClaimedAt, r.LaunchedAt, r.TimeoutAt = schedule.StatusEnqueued, r.FireAt, r.FireAt, r.FireAt.Add(time.Hour)
			})),
			verdict: explain.VerdictInFlight, says: []string{"is in progress: the executor accepted it and has not reported since; it fails at 2026-03-07T08:30:00Z unless its end is reported before (run_timeout_ms)."},
		},
		{
			name: "one that was never launched is not said to have run",
			facts: asked(nightly(), slot, row(ended(schedule.StatusFailed, schedule.ReasonWorkflowNotFound), func(r *schedule.Run) {
				r.LaunchedAt = time.Time{}
			})),
			verdict: explain.VerdictFailed, why: "workflow_not_found", says: []string{"The slot at 2026-03-07T02:30:00-05:00 EST failed before it was launched."},
		},
		{
			name: "one that may have been launched is not said to have been, nor not to have been",
			facts: asked(nightly(), slot, row(ended(schedule.StatusFailed, schedule.ReasonLost), func(r *schedule.Run) {
				r.LaunchedAt = time.Time{}
			})),
			verdict: explain.VerdictFailed, why: "lost", says: []string{"The slot at 2026-03-07T02:30:00-05:00 EST failed: it is unknown whether the executor accepted it.", "The executor did not accept it in time. It may have received it."},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

// The anchor of an interval is no slot, and nothing comes before the first one.
func TestNothingComesBeforeTheFirstSlotOfAnInterval(t *testing.T) {
	every := nightly(func(s *schedule.Schedule) {
		s.CronExpr, s.IntervalMS, s.CreatedAt = "", 90_000, created.Add(500*time.Millisecond)
	})
	every.Revisions[0].CreatedAt = every.Schedule.CreatedAt
	first := explain.Derive(asked(every, "2026-03-01T00:01:31Z", row(ended(schedule.StatusSuccess, ""))))
	if first.Verdict != explain.VerdictRan || first.Previous != nil {
		t.Errorf("the first slot is %s, and the one before it %+v", first.Verdict, first.Previous)
	}
	second := explain.Derive(asked(every, "2026-03-01T00:03:01Z", row(ended(schedule.StatusSuccess, ""))))
	if second.Previous == nil || !second.Previous.RunAt.Equal(first.Slot.RunAt) {
		t.Errorf("the slot before the second is %+v", second.Previous)
	}
}
