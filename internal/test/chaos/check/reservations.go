package check

import (
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// heldSlot is the slot of a queue as the holder of a reservation sees it.
type heldSlot struct {
	queue       string
	from, until time.Time
}

// holders is Q12 as the clients see it: a reservation that was answered as granted is granted, and
// lasts until it is released or its time is over.
func (j *jobs) holders() {
	granted := make(map[string]record.JobWrite)
	gone := make(map[string]record.JobWrite)
	for _, w := range j.JobWrites {
		switch {
		case w.Kind != record.ReserveWrite:
		case w.After == "":
			gone[w.Key] = w
		case inFlight(w.After) && !inFlight(w.Before):
			granted[w.Key] = w
		}
	}
	j.report.Counts.Reserved = len(granted)
	for _, h := range j.Holders {
		shown := record.Run{Key: h.ID, ScheduleID: "queue " + h.Queue, RunAt: h.Asked}
		had, was := granted[h.ID]
		if h.Granted.IsZero() {
			continue
		}
		if !was || had.Committed.After(h.Granted.Add(tolerance+j.fell)) {
			j.violate("Q12", shown, "its holder had the slot at %s, and it was granted at %s", clock(h.Granted), clock(had.Committed))
			continue
		}
		// A busy machine takes its time from the decision to its write.
		if short := had.Committed.Add(h.Hold).Sub(had.Until); short > sloppiness+j.rose+j.stall {
			j.violate("Q12", shown, "it was granted at %s for %s, and it ends at %s", clock(had.Committed), h.Hold, clock(had.Until))
		}
		until := later(had.Until, h.Kept)
		if !h.Released.IsZero() && h.Released.Before(until) {
			until = h.Released
		}
		j.slots = append(j.slots, heldSlot{h.Queue, h.Granted, until})
		if at := gone[h.ID].Committed; at.Before(until.Add(-tolerance - j.fell)) {
			j.violate("Q12", shown, "it ended at %s, and its holder has it until %s", clock(at), clock(until))
		}
	}
}
