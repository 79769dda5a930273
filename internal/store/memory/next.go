package memory

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// NextPlanned returns the earliest fire_at after then of the rows that do not wait; zero:
// there is none.
func (s *Store) NextPlanned(then time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due := len(s.live.due(at(then))); due < len(s.live.planned.rows) {
		next = s.live.planned.rows[due].FireAt
	}
	return next
}

// NextTick returns the earliest instant at which a tick may find work: a schedule to
// plan, a row that no leader saw in time, a run past a bound or to be sent again; zero:
// none. A simulation may leave out earlier ticks, which change nothing.
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
	for _, r := range s.live.planned.rows {
		shard := s.bucket(r.OverlapKey) * max(s.shards, 1) / schedule.Buckets
		if ledger.Missable(r, s.seenUntil(shard)) {
			sooner(r.FireAt.Add(grace))
			break // the others fire later
		}
	}
	for _, r := range s.live.started.rows {
		if sooner(r.TimeoutAt); !r.TimeoutAt.IsZero() {
			break // the others time out later
		}
	}
	for _, r := range s.live.launching.rows {
		sooner(r.TimeoutAt)
		sooner(r.ClaimedUntil)
		sooner(r.ClaimedAt.Add(retryFor))
	}
	for _, r := range s.live.cancelling.rows {
		sooner(r.CancelRequestedAt.Add(cancelWait))
	}
	return next
}
