package ledger_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestWhatIsAloneUnderItsKeyIsClaimedWhateverItsPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		run := schedule.Run{
			Key:           schedule.SlotKey("s", now),
			OverlapPolicy: rapid.SampledFrom(schedule.OverlapPolicies).Draw(t, "policy"),
			MaxQueued:     rapid.Uint32Range(0, 3).Draw(t, "max_queued"),
			Trigger:       rapid.SampledFrom(schedule.Triggers).Draw(t, "trigger"),
			FireAt:        now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Second)).Draw(t, "fire_at"))),
			Exclusive:     true,
		}
		verdicts := ledger.JudgeOverlap(schedule.OverlapGroup{Now: now, Due: []schedule.Run{run}})
		if len(verdicts) != 1 || verdicts[0].Key != run.Key || verdicts[0].Action != schedule.VerdictClaim {
			t.Errorf("got %+v, want a claim", verdicts)
		}
	})
}
