package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// RegisterInstance writes the row of an instance and returns its new number. A
// second registration of the same process replaces the first.
func (s *Store) RegisterInstance(ctx context.Context, i schedule.Instance) (no int32, err error) {
	if _, err := s.pool.Exec(ctx, sqlPruneInstances); err != nil {
		return 0, fmt.Errorf("prune instances: %w", err)
	}
	if err := s.pool.QueryRow(ctx, sqlRegisterInstance, i.ID, i.Host, i.StartedAt).Scan(&no); err != nil {
		return 0, fmt.Errorf("register instance: %w", err)
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

func (s *Store) touchInstance(ctx context.Context, statement string, args ...any) error {
	tag, err := s.pool.Exec(ctx, statement, args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("write instance %d: %w", args[0], err)
	}
	return nil
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

// eachHolder calls visit with the instances that match.
func eachHolder(ctx context.Context, tx pgx.Tx, visit func(id string, h ledger.Holder), statement string, arg any) error {
	var (
		id string
		h  ledger.Holder
	)
	err := each(ctx, tx, []any{&h.No, &id, &h.Generation, &h.ServerGeneration, &h.LockFree}, func() error {
		visit(id, h)
		return nil
	}, statement, arg)
	if err != nil {
		return fmt.Errorf("read holders of keys: %w", err)
	}
	return nil
}
