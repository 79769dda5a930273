package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// turns says why a run of a fair queue is where it is.
func (x *runText) turns() {
	t := x.Turns
	if t == nil {
		return
	}
	key := x.Run.Queue.FairKey
	s := fmt.Sprintf("The queue is fair: its key %s has the weight %d", schedule.Quote(key), x.Queue.Queue.Weight(key))
	if t.All > 0 {
		s += fmt.Sprintf(", and %s of the key and %s of other keys start first", describe.Count(t.Own, "run"), describe.Count(t.All-t.Own, "run"))
	}
	if t.Later > 0 {
		s += fmt.Sprintf("; %d of them entered later, as the key has had its turns before", t.Later)
	}
	x.say("%s", s)
}

// reservations says who has slots of the queue, or goes before all runs.
func (x *runText) reservations() {
	held, until := 0, time.Time{}
	for i := range x.Queue.Reserved {
		r := &x.Queue.Reserved[i]
		if !r.Granted() || r.Over(x.Now) {
			continue
		}
		held++
		if until.IsZero() || r.EndsAt.Before(until) {
			until = r.EndsAt
		}
		if held <= maxReservationsShown {
			x.say("A slot of the queue is reserved by %s until %s, unless the reservation is extended or released before", x.holder(r), describe.Instant(r.EndsAt))
		}
	}
	if held > maxReservationsShown {
		x.say("%s hold slots of it", describe.Count(held-maxReservationsShown, "more reservation"))
	}
	waiting := len(x.Queue.Reserving(x.Now))
	switch {
	case waiting == 1:
		x.say("1 reservation waits for the next slot and goes before all runs")
	case waiting > 1:
		x.say("%d reservations wait for the next slots and go before all runs", waiting)
	}
	full := slices.ContainsFunc(x.out.BlockedBy, func(b RunBlock) bool { return b.What == ledger.BlockedByFull })
	if full && held+waiting > 0 {
		x.block(RunBlock{What: blockedByReserve, Used: held + waiting, Until: until})
	}
}

// maxReservationsShown bounds the reservations that an explanation names.
const maxReservationsShown = 5

// holder is who has a reservation, as far as the caller may know.
func (x *runText) holder(r *schedule.Reservation) string {
	if x.Sees != nil && !x.Sees(r.UserID) {
		return "another owner"
	}
	return cmp.Or(r.RequestedBy, r.UserID)
}
