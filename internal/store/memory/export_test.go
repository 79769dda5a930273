package memory

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Poison makes a schedule's row impossible to decode.
func (s *Store) Poison(_ context.Context, scheduleID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable[scheduleID] = errors.New("read overlap_policy: none of the words that this binary knows")
	return nil
}

// DropRevisions deletes the revisions of a schedule.
func (s *Store) DropRevisions(_ context.Context, scheduleID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.revisions, func(id revisionID, _ *schedule.Revision) bool { return id.scheduleID == scheduleID })
	return nil
}

// Age makes it a storetest.Ager.
func (s *Store) Age(ctx context.Context, id string, by time.Duration) error {
	return s.write(ctx, func(t *tx) error {
		i := t.instance(id)
		i.SeenAt = i.SeenAt.Add(-by)
		return nil
	})
}

// DropCancelReason deletes the cancel_reason of a run.
func (s *Store) DropCancelReason(ctx context.Context, key schedule.Key) error {
	return s.write(ctx, func(t *tx) error {
		t.change(t.runs[key], func(r *schedule.Run) { r.CancelReason = "" })
		return nil
	})
}

// SetSeenUntil writes seen_until where the oracle has claimed.
func (s *Store) SetSeenUntil(ctx context.Context, term schedule.Term, until time.Time) error {
	return s.fenced(ctx, term, func(t *tx) error {
		t.sawUntil(term.Shard, until)
		return nil
	})
}

// OrphanUse makes a use of a limit without a run or reservation.
func (s *Store) OrphanUse(_ context.Context, limitID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := schedule.Key{0x0e}
	s.uses[key] = []ledger.LimitUse{{LimitNo: s.limits[limitID].No, UsedBy: key}}
	return nil
}
