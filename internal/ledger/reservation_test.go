package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestReservationsAreGrantedInOrderWhileThereIsRoom(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	gpu := schedule.LimitRef{ID: "gpu"}
	id := func(n byte) schedule.Key { return schedule.Key{n} }
	at := func(n byte, edits ...func(*schedule.Reservation)) schedule.Reservation {
		r := schedule.Reservation{ID: id(n), UserID: "ada", Position: int64(n), HoldMS: 1000, CreatedAt: now.Add(-time.Second), EndsAt: now.Add(time.Second)}
		for _, edit := range edits {
			edit(&r)
		}
		return r
	}
	granted := func(r *schedule.Reservation) { r.GrantedAt = now.Add(-time.Millisecond) }
	over := func(r *schedule.Reservation) { r.EndsAt = now }
	needsGPU := func(r *schedule.Reservation) { r.Limits = "gpu" }
	for _, c := range []struct {
		name     string
		reserved []schedule.Reservation
		most     uint32
		runs     int
		gpus     int // in use, of 1
		paused   bool
		want     []byte // granted
	}{
		{name: "nothing waits", most: 1},
		{name: "one of two fits", reserved: []schedule.Reservation{at(1), at(2)}, most: 1, want: []byte{1}},
		{name: "a run has the only slot", reserved: []schedule.Reservation{at(1)}, most: 1, runs: 1},
		{name: "more runs than slots: max_in_flight was lowered", reserved: []schedule.Reservation{at(1)}, most: 1, runs: 3},
		{name: "a granted one has the only slot", reserved: []schedule.Reservation{at(1, granted), at(2)}, most: 1},
		{name: "the granted one is over", reserved: []schedule.Reservation{at(1, granted, over), at(2)}, most: 1, want: []byte{2}},
		{name: "nobody waits for the first one any more", reserved: []schedule.Reservation{at(1, over), at(2)}, most: 1, want: []byte{2}},
		{name: "the limit of the first one is full", reserved: []schedule.Reservation{at(1, needsGPU), at(2)}, most: 1, gpus: 1, want: []byte{2}},
		{name: "the first one takes the limit of the second", reserved: []schedule.Reservation{at(1, needsGPU), at(2, needsGPU), at(3)}, most: 5, want: []byte{1, 3}},
		{name: "the queue is paused", reserved: []schedule.Reservation{at(1)}, most: 1, paused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := ledger.QueueFacts{
				Queue:    &schedule.Queue{QueueDefinition: schedule.QueueDefinition{QueueID: "q", MaxInFlight: c.most}, Pause: schedule.Pause{Paused: c.paused}},
				Reserved: slices.Clone(c.reserved), InFlight: c.runs, Limits: map[schedule.LimitRef]*ledger.LimitNow{gpu: {No: 7, Max: 1, Used: c.gpus}},
			}
			anyOver := slices.ContainsFunc(c.reserved, func(r schedule.Reservation) bool { return r.EndsAt.Equal(now) })
			if got, want := f.MaySettle(now), len(c.want) > 0 || anyOver; got != want {
				t.Errorf("MaySettle is %t, want %t", got, want)
			}
			var out ledger.Reserved
			f.GrantReservations(now, &out)
			var got []byte
			for _, r := range out.Granted {
				got = append(got, r.ID[0])
				if !r.GrantedAt.Equal(now) || !r.EndsAt.Equal(now.Add(time.Second)) {
					t.Errorf("granted at %v until %v", r.GrantedAt, r.EndsAt)
				}
				uses := slices.Contains(out.Uses, ledger.LimitUse{LimitNo: 7, UsedBy: r.ID})
				if uses != (r.Limits == "gpu") {
					t.Errorf("reservation %d uses the limit: %t", r.ID[0], uses)
				}
			}
			if !slices.Equal(got, c.want) || len(out.Events) != len(c.want) {
				t.Errorf("granted %v with %d events, want %v", got, len(out.Events), c.want)
			}
			// An admission grants the same, before any run.
			f.Reserved = slices.Clone(c.reserved)
			f.Heads = []ledger.Head{{Runs: []ledger.WaitingRun{{Key: id(100)}, {Key: id(101)}, {Key: id(102)}}}}
			req := schedule.AdmitRequest{Now: now, Free: 100}
			choice := ledger.ChooseRuns(&req, &f)
			if len(choice.Granted) != len(c.want) {
				t.Errorf("an admission grants %d, want %d", len(choice.Granted), len(c.want))
			}
			held := 0
			for _, r := range c.reserved {
				if !r.GrantedAt.IsZero() && r.EndsAt.After(now) {
					held++
				}
			}
			room := max(0, int(c.most)-c.runs-held-len(c.want))
			if c.paused {
				room = 0
			}
			if len(choice.Runs) != min(room, 3) {
				t.Errorf("%d runs start behind them, want %d", len(choice.Runs), room)
			}
		})
	}
}
