package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Generation is that of every server: the kernel frees file locks only when their
// holders are gone, so a free lock is always a proof.
const Generation = "file"

// instancesFor is how long the row of an instance is kept at least after it was last
// seen, presenceFor its presence file. Its leases have ended long before.
const (
	instancesFor = 24 * time.Hour
	presenceFor  = time.Minute
)

// PresenceFile is the file that an instance holds locked while it lives.
func (s *Store) PresenceFile(no int32) string { return fmt.Sprintf("%s.instance-%d", s.path, no) }

// Register writes the row of an instance and returns its new number. A second
// registration of the same process replaces the number of the first.
func (s *Store) Register(ctx context.Context, i schedule.Instance) (no int32, err error) {
	now := s.Now()
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		roles, features := "[]", "[]"
		err := t.query(ctx, sqlForgetInstance, func(scan scan) error {
			return scan(&i.Version, &roles, &features, &i.Unhealthy)
		}, i.ID)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, sqlRegister, i.ID, i.Host, i.Version, roles, features, i.Unhealthy, micros(i.StartedAt), micros(now)); err != nil {
			return err
		}
		return t.query(ctx, sqlInstanceNo, func(scan scan) error { return scan(&no) }, i.ID)
	})
	if err != nil {
		return 0, fmt.Errorf("register instance: %w", err)
	}
	return no, nil
}

// ConfirmPresence records that the instance holds its presence lock.
func (s *Store) ConfirmPresence(ctx context.Context, no int32, generation string) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlConfirmPresence, no, s.Now().UnixMicro(), generation)
		if err == nil && n == 0 {
			err = schedule.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("confirm the presence lock of instance %d: %w", no, err)
	}
	return nil
}

// Heartbeat records that a process is alive, and its health. It also records what the
// clock says, so that a step back is noticed across a restart.
func (s *Store) Heartbeat(ctx context.Context, i schedule.Instance) error {
	now := s.Now()
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		// After an accepted step back, what others saw lies ahead; left there, it
		// would be taken for a step back again at the next start.
		if _, err := t.exec(ctx, sqlHeartbeatLower, micros(now)); err != nil {
			return err
		}
		n, err := t.exec(ctx, sqlHeartbeat, i.ID, i.Host, i.Version, list(i.Roles), list(i.Features), i.Unhealthy, micros(now))
		if err == nil && n == 0 {
			_, err = t.exec(ctx, sqlRegister, i.ID, i.Host, i.Version, list(i.Roles), list(i.Features), i.Unhealthy, micros(i.StartedAt), micros(now))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the heartbeat of %s: %w", i.ID, err)
	}
	return nil
}

// Leave takes the roles from a process that ends. Its row stays while keys may name it.
func (s *Store) Leave(ctx context.Context, id string) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		_, err := t.exec(ctx, sqlLeave, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("take the roles from instance %s: %w", id, err)
	}
	return nil
}

// Instances returns the processes with roles that were seen within a duration, by the
// store's clock.
func (s *Store) Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error) {
	var instances []schedule.Instance
	err := s.readers.query(ctx, sqlInstances, func(scan scan) error {
		var i schedule.Instance
		var roles, features []byte
		var started, seen instant
		if err := scan(&i.No, &i.ID, &i.Host, &i.Version, &roles, &features, &i.Unhealthy, &i.Generation, &started, &seen); err != nil {
			return err
		}
		i.StartedAt, i.SeenAt = started.Time, seen.Time
		instances = append(instances, i)
		last := &instances[len(instances)-1]
		return errors.Join(json.Unmarshal(roles, &last.Roles), json.Unmarshal(features, &last.Features))
	}, s.Now().Add(-within).UnixMicro())
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return instances, nil
}

// removePresenceFiles removes the files of processes that are gone, before their rows are
// pruned.
func (s *Store) removePresenceFiles(ctx context.Context) error {
	var no int32
	err := s.readers.query(ctx, sqlOldInstances, func(scan scan) error {
		if err := scan(&no); err != nil {
			return err
		}
		if s.lockFree(no) {
			_ = os.Remove(s.PresenceFile(no)) // tried again by the next call
		}
		return nil
	}, s.Now().Add(-presenceFor).UnixMicro())
	if err != nil {
		return fmt.Errorf("read old instances: %w", err)
	}
	return nil
}

// freeOfGone frees the keys of admitted runs whose holder is gone, and makes them due.
func (s *Store) freeOfGone(ctx context.Context, t tx, now time.Time) error {
	var gone []int32
	var h ledger.Holder
	err := t.query(ctx, sqlInstancesSeen, func(scan scan) error {
		if err := scan(&h.No, &h.Generation); err != nil {
			return err
		}
		if s.look(&h); h.Gone() {
			gone = append(gone, h.No)
		}
		return nil
	}, s.Now().Add(-time.Minute).UnixMicro()) // a lease is over long before
	if err != nil {
		return fmt.Errorf("look for instances that are gone: %w", err)
	}
	for _, no := range gone {
		if _, err := t.exec(ctx, sqlFreeOfGone, no, micros(now)); err != nil {
			return fmt.Errorf("free the keys of an instance that is gone: %w", err)
		}
	}
	return nil
}

// GoneInstances returns which of the instances are proven to be gone.
func (s *Store) GoneInstances(ctx context.Context, ids []string) (gone []string, err error) {
	var id string
	var h ledger.Holder
	err = s.readers.query(ctx, sqlInstancesByID, func(scan scan) error {
		if err := scan(&id, &h.No, &h.Generation); err != nil {
			return err
		}
		if s.look(&h); h.Gone() {
			gone = append(gone, id)
		}
		return nil
	}, list(ids))
	if err != nil {
		return nil, fmt.Errorf("look for instances that are gone: %w", err)
	}
	return gone, nil
}

func (s *Store) look(h *ledger.Holder) {
	h.ServerGeneration, h.LockFree = Generation, s.lockFree(h.No)
}

// lockFree reports whether the presence file is unlocked. A missing file proves nothing:
// it may have been deleted while its instance lives.
func (s *Store) lockFree(no int32) bool {
	file, err := os.Open(s.PresenceFile(no))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		s.log.Warn("cannot open the presence file of an instance; its keys are free when their leases end", "instance_no", no, "err", err)
		return false
	}
	defer file.Close() // which also unlocks
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}
