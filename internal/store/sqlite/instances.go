package sqlite

import (
	"context"
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

// instancesFor is how long the row of an instance is kept after it was last seen,
// presenceFor its presence file. Its leases have ended long before.
const (
	instancesFor = 24 * time.Hour
	presenceFor  = time.Minute
)

// PresenceFile is the file that an instance holds locked while it lives.
func (s *Store) PresenceFile(no int32) string { return fmt.Sprintf("%s.instance-%d", s.path, no) }

// RegisterInstance writes the row of an instance and returns its new number. A
// second registration of the same process replaces the first.
func (s *Store) RegisterInstance(ctx context.Context, i schedule.Instance) (no int32, err error) {
	now := s.Now()
	var old []int32
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		old = nil
		var n int32
		err := t.query(ctx, sqlOldInstances, func(scan scan) error {
			err := scan(&n)
			old = append(old, n)
			return err
		}, now.Add(-presenceFor).UnixMicro())
		if err != nil {
			return fmt.Errorf("read old instances: %w", err)
		}
		if _, err := t.exec(ctx, sqlPruneInstances, now.Add(-instancesFor).UnixMicro(), i.ID); err != nil {
			return fmt.Errorf("prune instances: %w", err)
		}
		if _, err = t.exec(ctx, sqlRegisterInstance, i.ID, i.Host, i.StartedAt.UnixMicro(), now.UnixMicro()); err != nil {
			return err
		}
		return t.query(ctx, sqlInstanceNo, func(scan scan) error { return scan(&no) }, i.ID)
	})
	if err != nil {
		return 0, fmt.Errorf("register instance: %w", err)
	}
	for _, n := range old {
		if s.lockFree(n) {
			_ = os.Remove(s.PresenceFile(n)) // tried again by the next registration
		}
	}
	return no, nil
}

// ConfirmInstance records that the instance holds its presence lock.
func (s *Store) ConfirmInstance(ctx context.Context, no int32, generation string) error {
	return s.touchInstance(ctx, sqlConfirmInstance, no, generation)
}

// SeeInstance records that the instance lives; schedule.ErrNotFound: it has no row.
func (s *Store) SeeInstance(ctx context.Context, no int32) error {
	return s.touchInstance(ctx, sqlSeeInstance, no)
}

func (s *Store) touchInstance(ctx context.Context, statement string, no int32, args ...any) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, statement, append([]any{no, s.Now().UnixMicro()}, args...)...)
		if err == nil && n == 0 {
			err = schedule.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write instance %d: %w", no, err)
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
