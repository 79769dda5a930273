package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// A large step back of the clock (Rewind). ?1 is the instant that it is now.
const (
	sqlRewindDrop = `DELETE FROM open_runs WHERE state IN (1, 2) AND trigger IN (1, 2) AND run_at > ?1`

	// What lies later than now by the old clock is shifted by ?2, the size of the
	// step. A row that was written since (until ?3) goes by the new clock already: so a
	// Rewind that is repeated shifts nothing twice.
	sqlRewindInFlight = `UPDATE open_runs SET claimed_at = claimed_at - ?2 * (claimed_at > ?1),
 send_after = send_after - ?2 * (send_after > ?1), timeout_at = timeout_at - ?2 * (timeout_at > ?1),
 deadline_at = deadline_at - ?2 * (deadline_at > ?1), start_by = start_by - ?2 * (start_by > ?1 AND queue_state IS NOT NULL),
 cancel_requested_at = cancel_requested_at - ?2 * (cancel_requested_at > ?1), due_at = min(due_at, ?1),
 fire_at = fire_at - ?2 * (fire_at > ?1 AND (status = 2 OR queue_state IS 1)), updated_at = ?1
 WHERE state IN (3, 4, 5) AND NOT updated_at BETWEEN ?1 AND ?3`
	// A slot that is left was due by now, and is at most put off by its jitter.
	sqlRewindPlanned = `UPDATE open_runs SET fire_at = fire_at - ?2 * (fire_at > ?1 AND trigger <> 1),
 due_at = CASE WHEN state = 1 THEN fire_at - ?2 * (fire_at > ?1 AND trigger <> 1) ELSE due_at END,
 waiting_since = waiting_since - ?2 * (waiting_since > ?1), updated_at = ?1
 WHERE state IN (1, 2) AND (fire_at > ?1 AND trigger <> 1 OR waiting_since > ?1) AND NOT updated_at BETWEEN ?1 AND ?3`
	// No lease by the new clock lasts until ?1.
	sqlRewindLeases        = `UPDATE open_runs SET lease_until = lease_until - ?2 WHERE state IN (3, 4, 5) AND lease_until > ?1`
	sqlRewindRequestLeases = `UPDATE execution_requests SET lease_until = lease_until - ?2 WHERE lease_until > ?1`
	// A repetition makes a portion due sooner, which is harmless.
	sqlRewindBacklogs = `UPDATE schedules SET backlog_at = backlog_at - ?2, plan_at = plan_at - ?2 * (plan_at > ?1) WHERE backlog_at > ?1`

	// Likewise: the group is sealed sooner.
	sqlRewindSeals = `UPDATE queue_groups SET seal_at = seal_at - ?2 WHERE seal_at > ?1 AND state = 'RUNNING' AND NOT sealed`

	// No heartbeat by the new clock is later than ?1.
	sqlRewindWorkers = `UPDATE queue_workers SET seen_at = seen_at - ?2 WHERE seen_at > ?1`

	// Consumers are looked at sooner.
	sqlRewindWakes = `UPDATE wakes SET fire_at = fire_at - ?2 WHERE fire_at > ?1`

	sqlRewindEvents = `INSERT INTO schedule_events (schedule_id, time, kind, from_at, to_at, note, revision)
SELECT schedule_id, ?1, 'clock_stepped', ?1, ?2, ?3, revision FROM schedules` + rewound

	// The cursor need not be a slot: the planner begins at the first one from there.
	sqlRewind = `UPDATE schedules SET next_run_at = ?2, plan_at = ?1` + rewound

	// What lies ahead was not looked at by the new clock.
	sqlRewindSeen = `UPDATE leaders SET seen_until = ?1 WHERE seen_until > ?1`

	rewound = `
WHERE deleted_at IS NULL AND NOT (paused = 1 AND (paused_until IS NULL OR paused_until > ?1))
  AND (cron_expr IS NOT NULL OR interval_ms IS NOT NULL OR once_at IS NOT NULL)
  AND (next_run_at IS NULL OR next_run_at > ?1)`
)

// rewindDelay is how long after a step its Rewind may come: rows written until
// then go by the new clock already.
const rewindDelay = 10 * time.Second

// longestLease is longer than any lease of a key.
const longestLease = 10 * time.Second

// Rewind brings the ledger back to a clock that was set back from one instant to another
// by more than HoldBack: plans for slots that lie ahead are removed, and cursors go back
// to the first slot after now. A row that was claimed or has ended stays, and as the
// planner respects it no slot fires twice. Bounds of open runs, and postponed work, keep
// their distance from now. Each schedule gets an event.
func (s *Store) Rewind(ctx context.Context, from, to time.Time) error {
	note := fmt.Sprintf("the clock was set back by %s", from.Sub(to))
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		if _, err := t.exec(ctx, sqlRewindDrop, micros(to)); err != nil {
			return fmt.Errorf("remove plans: %w", err)
		}
		for _, statement := range []string{sqlRewindInFlight, sqlRewindPlanned} {
			_, err := t.exec(ctx, statement, micros(to), from.Sub(to).Microseconds(), micros(to.Add(rewindDelay)))
			if err != nil {
				return fmt.Errorf("shift what is under way: %w", err)
			}
		}
		for _, statement := range []string{sqlRewindLeases, sqlRewindRequestLeases} {
			if _, err := t.exec(ctx, statement, micros(to.Add(rewindDelay+longestLease)), from.Sub(to).Microseconds()); err != nil {
				return fmt.Errorf("shift leases: %w", err)
			}
		}
		if _, err := t.exec(ctx, sqlRewindWorkers, micros(to.Add(rewindDelay)), from.Sub(to).Microseconds()); err != nil {
			return fmt.Errorf("shift heartbeats of workers: %w", err)
		}
		for _, statement := range []string{sqlRewindBacklogs, sqlRewindSeals, sqlRewindWakes} {
			if _, err := t.exec(ctx, statement, micros(to), from.Sub(to).Microseconds()); err != nil {
				return fmt.Errorf("shift backlogs and seals: %w", err)
			}
		}
		if _, err := t.exec(ctx, sqlRewindEvents, micros(to), micros(from), note); err != nil {
			return fmt.Errorf("note events: %w", err)
		}
		if _, err := t.exec(ctx, sqlRewind, micros(to), micros(schedule.CeilSecond(to))); err != nil {
			return fmt.Errorf("set cursors: %w", err)
		}
		if _, err := t.exec(ctx, sqlRewindSeen, micros(to)); err != nil {
			return fmt.Errorf("set what was seen: %w", err)
		}
		return loseChanges(ctx, t, to)
	})
	if err != nil {
		return fmt.Errorf("rewind to %s: %w", to.Format(time.RFC3339), err)
	}
	return nil
}
