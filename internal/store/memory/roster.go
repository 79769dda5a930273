package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Shards returns the recorded number of shards; 0: none is recorded.
func (s *Store) Shards(ctx context.Context) (n int, err error) {
	err = s.read(ctx, func() error {
		n = s.shards
		return nil
	})
	return n, err
}

// ofShards refuses a process with another number of shards than is recorded.
func (t *tx) ofShards(shards int) error {
	if here := max(shards, 1); t.shards != 0 && here != t.shards {
		return schedule.Explain(schedule.ErrShardCount,
			"SHARDS is %d here and %d in the database: start this worker with SHARDS=%d, or change it for all with `carillon shards set %d`",
			here, t.shards, t.shards, here)
	}
	return nil
}

// RecordShards records n unless a number of shards is recorded. A leader from before
// leads all buckets: if n is more than one, its term ends.
func (s *Store) RecordShards(ctx context.Context, n int) (recorded int, err error) {
	err = s.write(ctx, func(t *tx) error {
		if recorded = t.shards; recorded != 0 {
			return nil
		}
		recorded = n
		return t.writeShards(n, n > 1)
	})
	if err != nil {
		return 0, fmt.Errorf("record %d shards: %w", n, err)
	}
	return recorded, nil
}

// SetShards records n and ends all terms.
func (s *Store) SetShards(ctx context.Context, n int, _ time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		t.wake = true
		return t.writeShards(n, true)
	})
	if err != nil {
		return fmt.Errorf("set %d shards: %w", n, err)
	}
	return nil
}

func (t *tx) writeShards(n int, endTerms bool) error {
	if n < 1 || n > schedule.MaxShards {
		return schedule.Invalid("shards", n, fmt.Sprintf("is not from 1 to %d", schedule.MaxShards), "choose a number in that range")
	}
	before := t.shards
	t.shards = n
	if !endTerms {
		return nil
	}
	epoch := t.newEpoch()
	seen := t.leastSeen(before)
	for shard, row := range t.leaders {
		row.seenUntil = seen
		row.Term, row.expires, row.lockHeld = schedule.Term{Shard: shard, Epoch: epoch}, time.Unix(0, 0).UTC(), false
	}
	for _, row := range t.terms {
		if row.EndedAt.IsZero() {
			t.endTerm(row, t.clock(t.Now()), schedule.TermEnd{Reason: schedule.EndShardsChanged})
		}
	}
	return nil
}

// leastSeen returns the least seen_until of the given shards: what another number of
// shards begins with. It is zero if one of them has seen nothing.
func (s *Store) leastSeen(shards int) (least time.Time) {
	for shard := range max(shards, 1) {
		seen := s.seenUntil(shard)
		if seen.IsZero() {
			return time.Time{}
		}
		if least.IsZero() || seen.Before(least) {
			least = seen
		}
	}
	return least
}
