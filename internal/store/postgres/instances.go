package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Register writes the row of an instance and returns its new number. A second
// registration of the same process replaces the number of the first.
func (s *Store) Register(ctx context.Context, i schedule.Instance) (no int32, err error) {
	if err := s.pool.QueryRow(ctx, sqlRegister, i.ID, i.Host, i.StartedAt).Scan(&no); err != nil {
		return 0, fmt.Errorf("register instance: %w", err)
	}
	return no, nil
}

// ConfirmPresence records that the instance holds its presence lock.
func (s *Store) ConfirmPresence(ctx context.Context, no int32, generation string) error {
	tag, err := s.pool.Exec(ctx, sqlConfirmPresence, no, generation)
	if err == nil && tag.RowsAffected() == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("confirm the presence lock of instance %d: %w", no, err)
	}
	return nil
}

// Heartbeat records that a process is alive, by the database's clock, and its health.
func (s *Store) Heartbeat(ctx context.Context, i schedule.Instance) error {
	if _, err := s.pool.Exec(ctx, sqlHeartbeat, i.ID, i.Host, i.Version, i.Roles, i.Features, i.Unhealthy, i.StartedAt); err != nil {
		return fmt.Errorf("write the heartbeat of %s: %w", i.ID, err)
	}
	return nil
}

// Leave takes the roles from a process that ends. Its row stays while keys may name it.
func (s *Store) Leave(ctx context.Context, id string) error {
	if _, err := s.pool.Exec(ctx, sqlLeave, id); err != nil {
		return fmt.Errorf("take the roles from instance %s: %w", id, err)
	}
	return nil
}

// Instances returns the processes with roles that were seen within a duration, by the
// database's clock.
func (s *Store) Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error) {
	var i schedule.Instance
	var instances []schedule.Instance
	err := each(ctx, s.pool, []any{&i.No, &i.ID, &i.Host, &i.Version, &i.Roles, &i.Features, &i.Unhealthy, &i.Generation, &i.StartedAt, &i.SeenAt}, func() error {
		i.StartedAt, i.SeenAt = i.StartedAt.UTC(), i.SeenAt.UTC()
		instances = append(instances, i)
		return nil
	}, sqlInstances, interval(within))
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return instances, nil
}

// GoneInstances returns which of the instances are proven to be gone.
func (s *Store) GoneInstances(ctx context.Context, ids []string) (gone []string, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		gone = nil
		return eachHolder(ctx, tx, func(id string, h ledger.Holder) {
			if h.Gone() {
				gone = append(gone, id)
			}
		}, sqlHoldersByID, ids)
	})
	if err != nil {
		return nil, fmt.Errorf("look for instances that are gone: %w", err)
	}
	return gone, nil
}

// freeOfGone frees the keys of admitted runs whose holder is gone, and makes them due.
func freeOfGone(ctx context.Context, tx pgx.Tx, now time.Time) error {
	var gone []int32
	if err := eachHolder(ctx, tx, func(_ string, h ledger.Holder) {
		if h.Gone() {
			gone = append(gone, h.No)
		}
	}, sqlHoldersSeen); err != nil || len(gone) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, sqlFreeOfGone, gone, now); err != nil {
		return fmt.Errorf("free the keys of instances that are gone: %w", err)
	}
	return nil
}

// eachHolder calls visit with the instances that match.
func eachHolder(ctx context.Context, tx pgx.Tx, visit func(id string, h ledger.Holder), statement string, args ...any) error {
	var (
		id string
		h  ledger.Holder
	)
	err := each(ctx, tx, []any{&h.No, &id, &h.Generation, &h.ServerGeneration, &h.LockFree}, func() error {
		visit(id, h)
		return nil
	}, statement, args...)
	if err != nil {
		return fmt.Errorf("read holders of keys: %w", err)
	}
	return nil
}
