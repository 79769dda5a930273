package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestWhichRunsAreMissed(t *testing.T) {
	const grace = time.Minute
	cut := noon.Add(-grace)
	late := cut.Add(-time.Microsecond)
	seen := noon.Add(-time.Hour)
	for _, c := range []struct {
		name string
		edit func(*schedule.Run)
		seen time.Time
		want bool
	}{
		{"just later than the grace, and not seen", func(*schedule.Run) {}, seen, true},
		{"as late as the grace", func(r *schedule.Run) { r.RunAt, r.FireAt = cut, cut }, seen, false},
		{"in a shard that was never led", func(*schedule.Run) {}, time.Time{}, true},
		{"seen at its fire_at", func(*schedule.Run) {}, late, false},
		{"seen a microsecond before its fire_at", func(*schedule.Run) {}, late.Add(-time.Microsecond), true},
		{"fired late by jitter", func(r *schedule.Run) { r.FireAt = noon }, seen, false},
		{"of a run_at ahead, fired early by jitter", func(r *schedule.Run) { r.RunAt = noon }, seen, false},
		{"missed before, and fires after all", func(r *schedule.Run) { r.Trigger = schedule.TriggerCatchup }, seen, false},
		{"asked for by hand", func(r *schedule.Run) { r.Trigger = schedule.TriggerManual }, seen, false},
		{"of a backfill", func(r *schedule.Run) { r.Trigger = schedule.TriggerBackfill }, seen, false},
		{"waits for its group: a leader has seen it", func(r *schedule.Run) { r.WaitingSince = late }, seen, false},
		{"in flight", func(r *schedule.Run) { r.Status = schedule.StatusLaunching }, seen, false},
		{"ended", func(r *schedule.Run) { r.Status = schedule.StatusSkipped }, seen, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := schedule.Run{
				Key: schedule.SlotKey("s", late), ScheduleID: "s", OverlapKey: "ada/s", Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule,
				RunAt: late, FireAt: late,
			}
			c.edit(&r)
			term := schedule.Term{Shard: 3}
			if got := ledger.UnseenBy(term, noon, grace, map[int]time.Time{3: c.seen}).Missed(&r); got != c.want {
				t.Errorf("missed: %v, want %v", got, c.want)
			}
			if r.Status.Terminal() {
				return
			}
			// The leader's state decides in the same way.
			s := ledger.Rebuild(ownEpoch, &ledger.Open{SeenUntil: c.seen, Runs: []ledger.Run{ledger.RunOf(&r)}}, noon)
			if _, err := s.Judge(ledger.Pass{Now: noon, Grace: grace, Limit: 10}, func([]schedule.RevisionID) (ledger.Facts, error) { return ledger.Facts{}, nil }); err != nil {
				t.Fatal(err)
			}
			if got := len(s.Late()) > 0; got != c.want {
				t.Errorf("late in the state: %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhereSlotsAreMissedFollowsFromTheShards(t *testing.T) {
	cut := noon.Add(-time.Minute)
	for _, c := range []struct {
		name string
		term schedule.Term
		seen map[int]time.Time
		want string
	}{
		{"one shard whose leader is not behind", schedule.Term{Shard: 7}, map[int]time.Time{7: noon}, ""},
		{"one shard, just behind", schedule.Term{Shard: 7}, map[int]time.Time{7: cut.Add(-time.Microsecond)}, "0-1023 "},
		{"one shard, as far as the grace", schedule.Term{Shard: 7}, map[int]time.Time{7: cut}, ""},
		{"one shard that was never led", schedule.Term{Shard: 7}, nil, "0-1023 "},
		{"another shard's seen_until is not asked", schedule.Term{Shard: 7}, map[int]time.Time{0: noon}, "0-1023 "},
		{"two of three shards are behind", schedule.Term{Shard: 1, Shards: 3}, map[int]time.Time{0: seenAt(2), 1: noon, 2: seenAt(9)}, "0-341 683-1023 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, u := range ledger.UnseenBy(c.term, noon, time.Minute, c.seen) {
				got += fmt.Sprintf("%d-%d ", u.FirstBucket, u.LastBucket)
				if !u.Before.Equal(cut) {
					t.Errorf("before %s, want %s", u.Before, cut)
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func seenAt(minutesAgo int) time.Time { return noon.Add(-time.Duration(minutesAgo) * time.Minute) }
