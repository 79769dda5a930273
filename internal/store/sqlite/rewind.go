package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
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
		if _, err := t.exec(ctx, sqlRewindBacklogs, micros(to), from.Sub(to).Microseconds()); err != nil {
			return fmt.Errorf("shift backlogs: %w", err)
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
