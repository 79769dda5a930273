package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Of a lease Until identifies the call, also after it has expired, as long as no other
// call was granted the key.
const (
	sqlRelease = `
UPDATE open_runs o SET holder = NULL, lease_until = NULL, deliveries = u.calls, first_sent_at = CASE WHEN u.calls > 0 THEN o.first_sent_at END
FROM unnest($1::bytea[], $2::timestamptz[], $3::integer[]) AS u(key, held, calls)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.lease_until = u.held AND ` + launching

	sqlExtend = `
UPDATE open_runs o SET lease_until = u.lease_until
FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.lease_until = u.held AND o.status > 1
RETURNING o.idempotency_key, u.held, o.lease_until`

	// sqlExtendEnded: nobody can take the key of a run that has ended.
	sqlExtendEnded = `
SELECT u.key, u.held, u.lease_until FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE (SELECT true FROM ended_runs e WHERE e.idempotency_key = u.key LIMIT 1)`

	sqlMoveKeys = `
UPDATE open_runs SET holder = $3
WHERE idempotency_key = ANY($1::bytea[]) AND holder = $2::integer AND lease_until IS NOT NULL AND status > 1
RETURNING idempotency_key`

	// Of keys that the ledger does not have.
	sqlReleaseRecords = `
UPDATE execution_requests e SET lease_until = NULL, calls = u.calls, updated_at = $4
FROM unnest($1::bytea[], $2::timestamptz[], $3::integer[]) AS u(key, held, calls)
WHERE e.idempotency_key = u.key AND e.lease_until = u.held`

	sqlExtendRecords = `
UPDATE execution_requests e SET lease_until = u.lease_until
FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE e.idempotency_key = u.key AND e.lease_until = u.held
RETURNING e.idempotency_key, u.held, e.lease_until`

	sqlMoveRecords = `
UPDATE execution_requests SET holder = $3
WHERE idempotency_key = ANY($1::bytea[]) AND holder = $2::integer AND lease_until IS NOT NULL
RETURNING idempotency_key`
)

// Release ends the leases of calls with unknown outcomes that are still the granted ones.
func (s *Store) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	type release = schedule.KeyRelease
	sorted := slices.SortedFunc(slices.Values(releases), func(x, y release) int { return slices.Compare(x.Key[:], y.Key[:]) })
	args := []any{
		column(sorted, func(r *release) []byte { return r.Key[:] }),
		column(sorted, func(r *release) time.Time { return r.Held }),
		column(sorted, func(r *release) int32 { return r.Calls }),
	}
	err := s.transact(ctx, func(tx pgx.Tx) error {
		released, err := affect(ctx, tx, sqlRelease, args...)
		if err == nil && released < len(sorted) {
			_, err = affect(ctx, tx, sqlReleaseRecords, append(args, now)...)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("release %d keys: %w", len(releases), err)
	}
	return nil
}

// Extend renews the leases of open calls that are still held.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) ([]time.Time, error) {
	type extension = schedule.LeaseExtension
	type call struct {
		key  schedule.Key
		held int64
	}
	callOf := func(x *extension) call { return call{x.Key, x.Held.UnixMicro()} }
	var extended map[call]time.Time
	err := s.transact(ctx, func(tx pgx.Tx) error {
		extended = make(map[call]time.Time, len(open))
		left := slices.SortedFunc(slices.Values(open), func(x, y extension) int { return slices.Compare(x.Key[:], y.Key[:]) })
		for _, statement := range []string{sqlExtend, sqlExtendRecords, sqlExtendEnded} {
			if left = slices.DeleteFunc(left, func(x extension) bool { return !extended[callOf(&x)].IsZero() }); len(left) == 0 {
				return nil
			}
			var (
				raw         []byte
				held, until time.Time
			)
			err := each(ctx, tx, []any{&raw, &held, &until}, func() error {
				extended[call{schedule.Key(raw), held.UnixMicro()}] = until.UTC()
				return nil
			}, statement,
				column(left, func(x *extension) []byte { return x.Key[:] }),
				column(left, func(x *extension) time.Time { return x.Held }),
				column(left, func(x *extension) time.Time { return now.Add(x.Lease) }))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	until := make([]time.Time, len(open))
	for i := range open {
		until[i] = extended[callOf(&open[i])]
	}
	return until, nil
}

// MoveKeys gives keys that the number From still holds to the number To, and returns
// those.
func (s *Store) MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		moved = nil
		for _, statement := range []string{sqlMoveKeys, sqlMoveRecords} {
			keys, err := keysOf(ctx, tx, statement, keyBytes(inKeyOrder(m.Keys)), m.From, m.To)
			if err != nil {
				return err
			}
			for key := range keys {
				moved = append(moved, key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move keys to instance %d: %w", m.To, err)
	}
	return moved, nil
}

// CloseKey cancels a key without a call.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		known, outside, err := lockKey(ctx, tx, key, now)
		if err != nil {
			return err
		}
		after, closed = ledger.CloseKey(known, reason, now)
		switch {
		case !closed:
			return nil
		case outside:
			return dialect.WriteRecords(ctx, queries{tx}, []schedule.ExecutionRequest{after}, now)
		}
		return endKeys(ctx, tx, []schedule.Settlement{ledger.EndOfKey(&after, now)}, now)
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close %s: %w", key, err)
	}
	return closed, after, nil
}

// lockKey locks one key. outside: the ledger does not have it.
func lockKey(ctx context.Context, tx pgx.Tx, key schedule.Key, now time.Time) (known schedule.ExecutionRequest, outside bool, err error) {
	open, err := lockKeys(ctx, tx, []schedule.Key{key})
	if err != nil {
		return known, false, err
	}
	if len(open) > 0 {
		return ledger.KeyOf(&open[0].Run, open[0].Lease), false, nil
	}
	ended, err := collectRuns(ctx, tx, sqlEndedRuns, keyBytes([]schedule.Key{key}))
	if err != nil {
		return known, false, fmt.Errorf("read ended run: %w", err)
	}
	if len(ended) > 0 {
		return ledger.KeyOf(&ended[0], schedule.KeyLease{}), false, nil
	}
	records, err := lockRecords(ctx, tx, []schedule.BeginRequest{{Key: key}}, now)
	return records[key], true, err
}
