package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// BenchmarkClaimOfStorm claims 100 at a time while 30,000 are due.
func BenchmarkClaimOfStorm(b *testing.B) {
	anyRoom := func(string) int { return batch }
	for _, c := range []struct {
		name   string
		owners int
		room   func(string) int
	}{
		{name: "one owner, without Room", owners: 1},
		{name: "one owner", owners: 1, room: anyRoom},
		{name: "two owners", owners: 2, room: anyRoom},
		{name: "300 owners", owners: 300, room: anyRoom},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHerd(b)
			h.owe(b, 30, c.owners)
			req := h.claimRequest()
			req.Limit, req.Room = 100, c.room
			for b.Loop() {
				result, err := h.store.Claim(b.Context(), req, claimFirst)
				if err != nil || len(result.Launches) != req.Limit {
					b.Fatal(len(result.Launches), err)
				}
			}
		})
	}
}

// owe makes some rows of each schedule due now, under policy allow.
func (h *herd) owe(b *testing.B, each, owners int) {
	b.Helper()
	changes := make([]schedule.Change, batch)
	ids := make([]string, batch)
	for i := range changes {
		s := everySecond(fmt.Sprintf("owed-%04d", i), h.now)
		s.UserID, s.OverlapPolicy, s.PlanAt = fmt.Sprintf("owner-%03d", i%owners), schedule.OverlapAllow, h.now.Add(time.Hour)
		ids[i] = s.ScheduleID
		changes[i] = schedule.Change{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, Now: h.now}
		for j := range each {
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
