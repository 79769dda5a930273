package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// Takeover makes holder the leader with the next epoch if it holds the lock or
// the row has expired. It waits for every batch that is under way below the old
// epoch: once it has returned, nothing more is written there.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	if !req.LockHeld {
		var held bool
		if err := s.pool.QueryRow(ctx, sqlTakeoverHeld, req.Shard).Scan(&held); err != nil {
			return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
		}
		if held {
			return schedule.Term{}, false, nil
		}
	}
	term := schedule.Term{Shard: req.Shard, Holder: req.Holder}
	won := false
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlTakeoverPlace, req.Shard); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlTakeoverLock, req.Shard); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, sqlTakeover, req.Shard, req.Holder, interval(req.TTL), req.LockHeld).Scan(&term.Epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			won = false
			return nil
		}
		won = err == nil
		return err
	})
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
	}
	if !won {
		return schedule.Term{}, false, nil
	}
	return term, true, nil
}

// Renew extends the term from the database's now; schedule.ErrFenced when it
// is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, ttl time.Duration, _ time.Time) error {
	tag, err := s.pool.Exec(ctx, sqlRenew, term.Shard, term.Holder, term.Epoch, interval(ttl))
	if err != nil {
		return fmt.Errorf("renew shard %d: %w", term.Shard, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("renew shard %d, epoch %d: %w", term.Shard, term.Epoch, schedule.ErrFenced)
	}
	return nil
}

// Resign lets the term expire at once, if it still is the row's.
func (s *Store) Resign(ctx context.Context, term schedule.Term, _ time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlResign, term.Shard, term.Holder, term.Epoch); err != nil {
		return fmt.Errorf("resign shard %d: %w", term.Shard, err)
	}
	return nil
}

// Leader is the row as it stands; a zero Term when there is none.
func (s *Store) Leader(ctx context.Context, shard int) (schedule.Term, time.Time, error) {
	term := schedule.Term{Shard: shard}
	var expiresAt time.Time
	err := s.pool.QueryRow(ctx, sqlLeader, shard).Scan(&term.Holder, &term.Epoch, &expiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return schedule.Term{}, time.Time{}, nil
	}
	if err != nil {
		return schedule.Term{}, time.Time{}, fmt.Errorf("read leader of shard %d: %w", shard, err)
	}
	return term, expiresAt.UTC(), nil
}
