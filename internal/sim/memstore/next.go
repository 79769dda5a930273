package memstore

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// NextTick is the earliest instant at which a tick may find something to do: a
// schedule to plan, a row that nobody looked at in time, a run past a bound or
// to be sent again. zero = none. A tick before it changes nothing: so a
// simulation may leave it out.
func (s *Store) NextTick(grace, retryFor, cancelWait time.Duration) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, row := range s.schedules {
		if row.Alive() && (!row.Pause.Paused || !row.Pause.Until.IsZero()) {
			sooner(row.PlanAt)
		}
	}
	for _, r := range s.live {
		switch {
		case r.Status == schedule.StatusPlanned && r.Missable():
			sooner(r.FireAt.Add(grace))
		case r.Status != schedule.StatusPlanned:
			sooner(r.TimeoutAt)
			if !r.CancelRequestedAt.IsZero() {
				sooner(r.CancelRequestedAt.Add(cancelWait))
			}
			if r.Status == schedule.StatusLaunching {
				sooner(r.ClaimedUntil)
				sooner(r.ClaimedAt.Add(retryFor))
			}
		}
	}
	return next
}
