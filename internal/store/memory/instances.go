package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// instance is a row and its presence lock.
type instance struct {
	schedule.Instance
	locked bool
}

// RegisterInstance writes the row of an instance and returns its new number. A
// second registration of the same process replaces the first.
func (s *Store) RegisterInstance(ctx context.Context, i schedule.Instance) (no int32, err error) {
	err = s.write(ctx, func(t *tx) error {
		for n, there := range t.instances {
			if there.ID == i.ID {
				delete(t.instances, n)
			}
		}
		t.lastNo++
		no = t.lastNo
		i.No, i.Generation, i.SeenAt = no, "", s.clock(s.Now())
		t.instances[no] = &instance{Instance: i}
		return nil
	})
	return no, err
}

// HoldPresence takes the presence lock of an instance until drop is called or the
// server restarts.
func (s *Store) HoldPresence(ctx context.Context, no int32) (generation string, drop func(), err error) {
	err = s.touchInstance(ctx, no, func(i *instance) { i.locked, generation = true, s.serverGeneration() })
	return generation, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := s.instances[no]; i != nil {
			i.locked = false
		}
	}, err
}

// Restart frees all presence locks, as a restart of the server does.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	for _, i := range s.instances {
		i.locked = false
	}
}

// ConfirmInstance records that the instance holds its presence lock.
func (s *Store) ConfirmInstance(ctx context.Context, no int32, generation string) error {
	return s.touchInstance(ctx, no, func(i *instance) { i.Generation = generation })
}

// SeeInstance records that the instance lives; schedule.ErrNotFound: it has no row.
func (s *Store) SeeInstance(ctx context.Context, no int32) error {
	return s.touchInstance(ctx, no, func(*instance) {})
}

func (s *Store) touchInstance(ctx context.Context, no int32, edit func(*instance)) error {
	return s.write(ctx, func(t *tx) error {
		i := t.instances[no]
		if i == nil {
			return fmt.Errorf("write instance %d: %w", no, schedule.ErrNotFound)
		}
		i.SeenAt = s.clock(s.Now())
		edit(i)
		return nil
	})
}

// MoveKeys gives keys that the number From still holds to the number To, and returns
// those.
func (s *Store) MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error) {
	err = s.write(ctx, func(t *tx) error {
		for _, k := range m.Keys {
			if there, _ := t.openKey(k); there.Lease.Holder == m.From && !there.Lease.Until.IsZero() {
				t.putLease(k, schedule.KeyLease{Holder: m.To, Until: there.Lease.Until}, s.Now())
				moved = append(moved, k)
			}
		}
		return nil
	})
	return moved, err
}

// GoneInstances returns which of the instances are proven to be gone.
func (s *Store) GoneInstances(ctx context.Context, ids []string) (gone []string, err error) {
	err = s.read(ctx, func() error {
		for no, i := range s.instances {
			if slices.Contains(ids, i.ID) && s.holder(no).Gone() {
				gone = append(gone, i.ID)
			}
		}
		return nil
	})
	slices.Sort(gone)
	return gone, err
}

// holder returns what the database shows about an instance; nil: no row.
func (s *Store) holder(no int32) *ledger.Holder {
	i := s.instances[no]
	if i == nil {
		return nil
	}
	return &ledger.Holder{No: no, Generation: i.Generation, ServerGeneration: s.serverGeneration(), LockFree: !i.locked}
}

func (s *Store) serverGeneration() string { return strconv.Itoa(s.generation) }
