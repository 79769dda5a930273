package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// BenchmarkClaimBesideAStorm is one pass that claims 100 runs of one owner while
// 30,000 of another are due, for whom no launch is free.
func BenchmarkClaimBesideAStorm(b *testing.B) {
	for _, c := range []struct {
		name    string
		without []string
		room    int
	}{
		{name: "it has no room"},
		{name: "it is known to have no room", without: []string{"storm"}},
		{name: "it has room for ten", room: 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHerd(b)
			h.owe(b, debt{name: "storm", schedules: batch, each: 30, owners: []string{"storm"}, policy: schedule.OverlapAllow})
			h.settleDown(b)
			req := h.claimRequest()
			req.Without, req.Room = c.without, func(owner string) int {
				if owner == "storm" {
					return c.room
				}
				return batch
			}
			n := 0
			for b.Loop() {
				b.StopTimer()
				n++
				h.now = h.now.Add(10 * time.Millisecond)
				h.owe(b, debt{name: fmt.Sprint("free-", n), schedules: 100, each: 1, owners: []string{"free"}, policy: schedule.OverlapSkip})
				req.Now = h.now
				b.StartTimer()
				result, err := h.store.Claim(b.Context(), req, claimFirst)
				if err != nil || len(result.Launches) != 100+c.room {
					b.Fatal(len(result.Launches), err)
				}
			}
		})
	}
}

// settleDown has the storm stamped, as it is after its first passes.
func (h *herd) settleDown(b *testing.B) {
	b.Helper()
	for range 8 {
		req := h.claimRequest()
		req.Limit = 0
		if _, err := h.store.Claim(b.Context(), req, claimFirst); err != nil {
			b.Fatal(err)
		}
	}
}

// debt is rows that are due: so many of each schedule, whose owners take turns.
type debt struct {
	name            string
	schedules, each int
	owners          []string
	policy          schedule.OverlapPolicy
}

// owe makes a debt due now.
func (h *herd) owe(b *testing.B, d debt) {
	b.Helper()
	changes := make([]schedule.Change, d.schedules)
	ids := make([]string, d.schedules)
	for i := range changes {
		s := everySecond(fmt.Sprintf("%s-%04d", d.name, i), h.now)
		s.UserID, s.OverlapPolicy, s.PlanAt = d.owners[i%len(d.owners)], d.policy, h.now.Add(time.Hour)
		ids[i] = s.ScheduleID
		changes[i] = schedule.Change{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, Now: h.now}
		for j := range d.each {
			changes[i].Runs = append(changes[i].Runs, slotOf(&s, h.now.Add(-time.Duration(j)*time.Second)))
		}
	}
	err := h.store.ChangeSchedules(b.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return changes, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
