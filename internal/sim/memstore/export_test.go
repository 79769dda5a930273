package memstore

import (
	"context"
	"errors"
)

// Poison makes a schedule's row impossible to decode.
func (s *Store) Poison(_ context.Context, scheduleID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable[scheduleID] = errors.New("read overlap_policy: none of the words that this binary knows")
	return nil
}
