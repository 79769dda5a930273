package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// recordedShards returns the number of shards; zero: none is recorded.
func recordedShards(ctx context.Context, q querier) (n int, err error) {
	var recorded text
	err = q.query(ctx, sqlShards, func(scan scan) error { return scan(&recorded) })
	if err != nil || recorded == "" {
		return 0, err
	}
	n, err = strconv.Atoi(string(recorded))
	if err != nil {
		return 0, fmt.Errorf("read the number of shards: %w", err)
	}
	return n, nil
}

// Shards returns the recorded number of shards; 0: none is recorded.
func (s *Store) Shards(ctx context.Context) (int, error) {
	n, err := recordedShards(ctx, s.readers)
	if err != nil {
		return 0, fmt.Errorf("read the number of shards: %w", err)
	}
	return n, nil
}

// ofShards refuses a process with another number of shards than is recorded.
func ofShards(ctx context.Context, q querier, shards int) error {
	recorded, err := recordedShards(ctx, q)
	if err != nil {
		return fmt.Errorf("read the number of shards: %w", err)
	}
	if here := max(shards, 1); recorded != 0 && here != recorded {
		return schedule.Explain(schedule.ErrShardCount,
			"SHARDS is %d here and %d in the database: start this worker with SHARDS=%d, or change it for all with `carillon shards set %d`",
			here, recorded, recorded, here)
	}
	return nil
}

// RecordShards records n unless a number of shards is recorded. A leader from before
// leads all buckets: if n is more than one, its term ends.
func (s *Store) RecordShards(ctx context.Context, n int) (recorded int, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		var err error
		if recorded, err = recordedShards(ctx, t); err != nil || recorded != 0 {
			return err
		}
		recorded = n
		return writeShards(ctx, t, n, n > 1, s.Now())
	})
	if err != nil {
		return 0, fmt.Errorf("record %d shards: %w", n, err)
	}
	return recorded, nil
}

// SetShards records n and ends all terms.
func (s *Store) SetShards(ctx context.Context, n int, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error { return writeShards(ctx, t, n, true, now) })
	if err != nil {
		return fmt.Errorf("set %d shards: %w", n, err)
	}
	s.wakes.call()
	return nil
}

func writeShards(ctx context.Context, t tx, n int, endTerms bool, now time.Time) error {
	if n < 1 || n > schedule.MaxShards {
		return schedule.Invalid("shards", n, fmt.Sprintf("is not from 1 to %d", schedule.MaxShards), "choose a number in that range")
	}
	if _, err := t.exec(ctx, sqlSetShards, strconv.Itoa(n)); err != nil || !endTerms {
		return err
	}
	if _, err := t.exec(ctx, sqlSetShardsEnd); err != nil {
		return err
	}
	_, err := t.exec(ctx, sqlTermsEndAll, now.UnixMicro())
	return err
}
