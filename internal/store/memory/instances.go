package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// instance is a row and its presence lock.
type instance struct {
	schedule.Instance
	locked bool
}

// Register writes the row of an instance and returns its new number. A second
// registration of the same process replaces the number of the first.
func (s *Store) Register(ctx context.Context, i schedule.Instance) (no int32, err error) {
	err = s.write(ctx, func(t *tx) error {
		if there := t.instance(i.ID); there != nil {
			delete(t.instances, there.No)
			i = there.Instance
		}
		no = t.register(i)
		return nil
	})
	return no, err
}

func (t *tx) register(i schedule.Instance) int32 {
	t.lastNo++
	i.No, i.Generation, i.StartedAt, i.SeenAt = t.lastNo, "", at(i.StartedAt), t.clock(t.Now())
	t.instances[i.No] = &instance{Instance: i}
	return i.No
}

// instance returns the row of a process, or nil.
func (s *Store) instance(id string) *instance {
	for _, i := range s.instances {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// Heartbeat records that a process is alive, and its health.
func (s *Store) Heartbeat(ctx context.Context, i schedule.Instance) error {
	return s.write(ctx, func(t *tx) error {
		there := t.instance(i.ID)
		if there == nil {
			t.register(i)
			return nil
		}
		i.No, i.Generation, i.StartedAt, i.SeenAt = there.No, there.Generation, there.StartedAt, t.clock(t.Now())
		there.Instance = i
		return nil
	})
}

// Leave takes the roles from a process that ends. Its row stays while keys may name it.
func (s *Store) Leave(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		if there := t.instance(id); there != nil {
			there.Roles = nil
		}
		return nil
	})
}

// Instances returns the processes with roles that were seen within a duration.
func (s *Store) Instances(ctx context.Context, within time.Duration) (instances []schedule.Instance, err error) {
	err = s.read(ctx, func() error {
		since := s.clock(s.Now()).Add(-within)
		for _, i := range s.instances {
			if i.SeenAt.After(since) && len(i.Roles) > 0 {
				instances = append(instances, i.Instance)
			}
		}
		return nil
	})
	slices.SortFunc(instances, func(a, b schedule.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return instances, err
}

// pruneInstances keeps the row of a process that an open call still names.
func (t *tx) pruneInstances(limit int) (pruned int) {
	before := t.clock(t.Now()).Add(-24 * time.Hour)
	named := make(map[int32]bool)
	for key, lease := range t.leases {
		if r := t.runs[key]; r != nil && r.Status.InFlight() {
			named[lease.Holder] = true
		}
	}
	maps.DeleteFunc(t.instances, func(no int32, i *instance) bool {
		old := i.SeenAt.Before(before) && !named[no] && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned
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

// ConfirmPresence records that the instance holds its presence lock.
func (s *Store) ConfirmPresence(ctx context.Context, no int32, generation string) error {
	return s.touchInstance(ctx, no, func(i *instance) { i.Generation = generation })
}

func (s *Store) touchInstance(ctx context.Context, no int32, edit func(*instance)) error {
	return s.write(ctx, func(t *tx) error {
		i := t.instances[no]
		if i == nil {
			return fmt.Errorf("confirm the presence lock of instance %d: %w", no, schedule.ErrNotFound)
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

// freeOfGone frees the keys of admitted runs whose holder is gone, and makes them due.
func (t *tx) freeOfGone(now time.Time) {
	for _, r := range slices.Clone(t.live.queued.rows) {
		lease := t.leases[r.Key]
		if r.Queue.State != schedule.QueueDispatching || !lease.Until.After(now) || !t.holder(lease.Holder).Gone() {
			continue
		}
		t.putLease(r.Key, schedule.KeyLease{}, now)
		t.change(r, func(r *schedule.Run) { r.ClaimedUntil = time.Time{} })
		t.setDue(r.Key, now)
	}
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
