package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// Takeover makes holder the leader with the next epoch if the row has expired, or if it
// holds the lock that the leader had. It waits for open batches of the old epoch: after
// it has returned, that epoch writes nothing more.
//
// Its locks, in this order: the number of shards (shared), the row, the greatest
// epoch.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	term := schedule.Term{Shard: req.Shard, Shards: req.Shards, Holder: req.Holder}
	won, err := s.takeOver(ctx, req, &term)
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
	}
	if !won {
		return schedule.Term{}, false, nil
	}
	return term, true, nil
}

func (s *Store) takeOver(ctx context.Context, req schedule.TakeoverRequest, term *schedule.Term) (won bool, err error) {
	if !req.LockHeld {
		if err := ofShards(ctx, s.pool, req.Shards); err != nil {
			return false, err
		}
		var held bool
		if err := s.pool.QueryRow(ctx, sqlTakeoverHeld, req.Shard).Scan(&held); err != nil || held {
			return false, err
		}
	}
	err = s.transactWith(ctx, pgx.TxOptions{BeginQuery: genericPlans.BeginQuery + shortIdle}, func(tx pgx.Tx) error {
		won = false
		if _, err := tx.Exec(ctx, sqlTakeoverCount); err != nil {
			return err
		}
		if err := ofShards(ctx, tx, req.Shards); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlTakeoverPlace, req.Shard); err != nil {
			return err
		}
		var before predecessor
		if err := tx.QueryRow(ctx, sqlTakeoverLock, req.Shard).Scan(&before.epoch, &before.expires, &before.expired); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlTakeoverEpoch); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, sqlTakeover, req.Shard, req.Holder, interval(req.TTL), req.LockHeld, req.LockKind).Scan(&term.Epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		won = true
		if err := succeed(ctx, tx, *term, &req, before); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlDropFutureChanges)
		return err
	})
	return won && err == nil, err
}

// Renew extends the term from the database's now; schedule.ErrFenced if it is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error) {
	renew := func(q rowQuerier) error {
		return q.QueryRow(ctx, sqlRenew, term.Shard, term.Holder, term.Epoch, interval(req.TTL), req.LockHeld).Scan(&askedToResign)
	}
	if req.Stall == nil {
		err = renew(s.pool)
	} else {
		err = s.transact(ctx, func(tx pgx.Tx) error {
			if err := renew(tx); err != nil {
				return err
			}
			return noteStall(ctx, tx, term, req.Stall)
		})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("epoch %d: %w", term.Epoch, schedule.ErrFenced)
	}
	if err != nil {
		return false, fmt.Errorf("renew shard %d: %w", term.Shard, err)
	}
	return askedToResign, nil
}

// Resign lets the term expire at once if the row still belongs to it, and records why it
// ended.
func (s *Store) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	end := r.End
	end.Reason = cmp.Or(end.Reason, schedule.EndResigned)
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlResignLock, term.Shard, term.Holder, term.Epoch); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlTermResign, term.Shard, term.Holder, term.Epoch, string(end.Reason),
			noneOrText(schedule.Storable(end.Detail, schedule.MaxEndDetail)), end.Reason.Lost(), end.Reason.Amends())
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlResign, term.Shard, term.Holder, term.Epoch)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign shard %d: %w", term.Shard, err)
	}
	return nil
}

// AskToResign records that the current term was asked to end, and wakes all workers.
func (s *Store) AskToResign(ctx context.Context, shard int, _ time.Time) (schedule.Leadership, error) {
	var asked schedule.Leadership
	err := s.transact(ctx, func(tx pgx.Tx) error {
		rows, err := leaderships(ctx, tx, sqlAskToResign, shard)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return schedule.Explain(schedule.ErrNotFound, "no worker leads shard %d", shard)
		}
		asked = rows[0]
		wakeListeners(tx)
		return nil
	})
	if err != nil {
		return schedule.Leadership{}, fmt.Errorf("ask the leader to resign: %w", err)
	}
	return asked, nil
}

// Leaders returns all rows in order of shard.
func (s *Store) Leaders(ctx context.Context, _ time.Time) ([]schedule.Leadership, error) {
	rows, err := leaderships(ctx, s.pool, sqlLeaders)
	if err != nil {
		return nil, fmt.Errorf("list leaders: %w", err)
	}
	return rows, nil
}

// leaderships reads rows of leadershipColumns.
func leaderships(ctx context.Context, q rowQuerier, statement string, args ...any) ([]schedule.Leadership, error) {
	shards, _, err := recordedShards(ctx, q)
	if err != nil {
		return nil, err
	}
	var (
		l    schedule.Leadership
		rows []schedule.Leadership
	)
	err = each(ctx, q, []any{&l.Shard, &l.Holder, &l.Epoch, &l.ExpiresAt, &l.Expired, &l.LockHeld, &l.LockKind, &l.AskedTo}, func() error {
		l.Shards, l.ExpiresAt = shards, l.ExpiresAt.UTC()
		rows = append(rows, l)
		return nil
	}, statement, args...)
	return rows, err
}

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	querier
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// recordedShards returns the number of shards, if one is recorded.
func recordedShards(ctx context.Context, q rowQuerier) (n int, ok bool, err error) {
	var recorded pgtype.Int4
	err = q.QueryRow(ctx, sqlShards).Scan(&recorded)
	return int(recorded.Int32), recorded.Valid, err
}

// Shards returns the recorded number of shards; 0: none is recorded.
func (s *Store) Shards(ctx context.Context) (int, error) {
	n, _, err := recordedShards(ctx, s.pool)
	if err != nil {
		return 0, fmt.Errorf("read the number of shards: %w", err)
	}
	return n, nil
}

// ofShards refuses a process with another number of shards than is recorded.
func ofShards(ctx context.Context, q rowQuerier, shards int) error {
	recorded, ok, err := recordedShards(ctx, q)
	if err != nil {
		return fmt.Errorf("read the number of shards: %w", err)
	}
	if here := max(shards, 1); ok && here != recorded {
		return schedule.Explain(schedule.ErrShardCount,
			"SHARDS is %d here and %d in the database: start this worker with SHARDS=%d, or change it for all with `carillon shards set %d`",
			here, recorded, recorded, here)
	}
	return nil
}

// RecordShards records n unless a number of shards is recorded. A leader from before
// leads all buckets: if n is more than one, its term ends.
func (s *Store) RecordShards(ctx context.Context, n int) (recorded int, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		var ok bool
		if recorded, ok, err = recordedShards(ctx, tx); err != nil || ok {
			return err
		}
		if _, err := tx.Exec(ctx, sqlSetShardsCount); err != nil {
			return err
		}
		if recorded, ok, err = recordedShards(ctx, tx); err != nil || ok {
			return err
		}
		recorded = n
		return writeShards(ctx, tx, n, n > 1)
	})
	if err != nil {
		return 0, fmt.Errorf("record %d shards: %w", n, err)
	}
	return recorded, nil
}

// SetShards records n and ends all terms. It waits for open batches.
func (s *Store) SetShards(ctx context.Context, n int, _ time.Time) error {
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlSetShardsCount); err != nil {
			return err
		}
		if err := writeShards(ctx, tx, n, true); err != nil {
			return err
		}
		wakeListeners(tx)
		return nil
	})
	if err != nil {
		return fmt.Errorf("set %d shards: %w", n, err)
	}
	return nil
}

func writeShards(ctx context.Context, tx pgx.Tx, n int, endTerms bool) error {
	if n < 1 || n > schedule.MaxShards {
		return schedule.Invalid("shards", n, fmt.Sprintf("is not from 1 to %d", schedule.MaxShards), "choose a number in that range")
	}
	before, _, err := recordedShards(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sqlSetShards, n); err != nil || !endTerms {
		return err
	}
	if _, err := tx.Exec(ctx, sqlSetShardsLock); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sqlSetShardsEnd, max(before, 1)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sqlTermsEndAll)
	return err
}
