package memory

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// RunResult returns what the executor returned with the end of a run; nil: nothing, or it was
// deleted.
func (s *Store) RunResult(ctx context.Context, key schedule.Key) (found *schedule.RunResult, err error) {
	err = s.read(ctx, func() error {
		if r := s.results[key]; r != nil {
			kept := *r
			kept.Result, kept.Artifacts = slices.Clone(r.Result), slices.Clone(r.Artifacts)
			found = &kept
		}
		return nil
	})
	return found, err
}

// PruneRunResults deletes up to limit results that expire before now; 0: none is left.
func (s *Store) PruneRunResults(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		for key, r := range t.results {
			if n < limit && r.ExpiresAt.Before(now) {
				n++
				setUndone(t, t.results, key, nil)
			}
		}
		return nil
	})
	return n, err
}
