package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Keys of runs, in their rows. They leave updated_at: nothing that anybody watches has
// changed. Of a lease its end identifies the call, also after it has expired, as long as
// no other call was granted the key.
const (
	sqlRelease = `UPDATE open_runs SET holder = NULL, lease_until = NULL, deliveries = ?3, first_sent_at = CASE WHEN ?3 > 0 THEN first_sent_at END
 WHERE idempotency_key = ?1 AND lease_until = ?2 AND ` + launching
	sqlExtend    = `UPDATE open_runs SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2 AND state IN (3, 4, 5)`
	sqlHasEnded  = `SELECT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?)`
	sqlMoveKey   = `UPDATE open_runs SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL AND state IN (3, 4, 5)`
	sqlFirstSent = `SELECT COALESCE((SELECT o.first_sent_at FROM open_runs o WHERE o.idempotency_key = ?1),
 (SELECT e.first_sent_at FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?1))`
)

// Release ends the leases of calls with unknown outcomes that are still the granted ones.
func (s *Store) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		for _, r := range releases {
			n, err := t.exec(ctx, sqlRelease, keyArg(r.Key), micros(r.Held), int64(r.Calls))
			if err == nil && n == 0 {
				_, err = t.exec(ctx, sqlReleaseRequest, keyArg(r.Key), micros(r.Held), int64(r.Calls), now.UnixMicro())
			}
			if err != nil {
				return fmt.Errorf("key %s: %w", r.Key, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release %d keys: %w", len(releases), err)
	}
	return nil
}

// Extend renews the leases of open calls that are still held.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		held = make([]time.Time, len(open))
		type call struct {
			key  schedule.Key
			held int64
		}
		extended := make(map[call]time.Time, len(open))
		for i, x := range open {
			c := call{x.Key, x.Held.UnixMicro()}
			if until, again := extended[c]; again {
				held[i] = until
				continue
			}
			until := now.Add(x.Lease).UTC().Truncate(time.Microsecond)
			n, err := execEither(ctx, t, sqlExtend, sqlExtendRequest, keyArg(x.Key), micros(x.Held), until.UnixMicro())
			if err != nil {
				return fmt.Errorf("key %s: %w", x.Key, err)
			}
			ended := false
			if n == 0 {
				if err := t.query(ctx, sqlHasEnded, func(scan scan) error { return scan(&ended) }, keyArg(x.Key)); err != nil {
					return fmt.Errorf("key %s: %w", x.Key, err)
				}
			}
			if n == 1 || ended {
				held[i], extended[c] = until, until
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	return held, nil
}

// MoveKeys gives keys that the number From still holds to the number To, and returns
// those.
func (s *Store) MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		moved = nil
		for _, k := range m.Keys {
			n, err := execEither(ctx, t, sqlMoveKey, sqlMoveRequest, keyArg(k), m.From, m.To)
			if err != nil {
				return err
			}
			if n == 1 {
				moved = append(moved, k)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move keys to instance %d: %w", m.To, err)
	}
	return moved, nil
}

// execEither changes the key of an open run, or else its record.
func execEither(ctx context.Context, t tx, ofRun, ofRecord string, args ...any) (n int64, err error) {
	if n, err = t.exec(ctx, ofRun, args...); err == nil && n == 0 {
		n, err = t.exec(ctx, ofRecord, args...)
	}
	return n, err
}

// CloseKey cancels a key without a call.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		known, outside, err := keyAsItIs(ctx, t, key)
		if err != nil {
			return err
		}
		if after, closed = ledger.CloseKey(known, reason, now); !closed {
			return nil
		}
		if outside {
			return dialect.WriteRecords(ctx, queries{t}, []schedule.ExecutionRequest{after}, now)
		}
		_, _, err = settle(ctx, t, []schedule.Settlement{ledger.EndOfKey(&after, now)}, now)
		return err
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	if closed {
		s.wakes.call()
	}
	return closed, after, nil
}

// keyAsItIs reads one key. outside: the ledger does not have it.
func keyAsItIs(ctx context.Context, t tx, key schedule.Key) (known schedule.ExecutionRequest, outside bool, err error) {
	open, err := openRowsOf(ctx, t, []schedule.Key{key})
	if err != nil {
		return known, false, err
	}
	if r := open[key]; r != nil {
		return ledger.KeyOf(&r.Run, r.Lease), false, nil
	}
	ended, err := readRuns(ctx, t, sqlEndedRuns, keyList([]schedule.Key{key}))
	if err != nil {
		return known, false, fmt.Errorf("read ended run: %w", err)
	}
	if len(ended) > 0 {
		return ledger.KeyOf(&ended[0], schedule.KeyLease{}), false, nil
	}
	records, err := dialect.Records(ctx, queries{t}, []schedule.Key{key})
	if there, recorded := records[key]; recorded {
		return there, true, err
	}
	return schedule.ExecutionRequest{Key: key}, true, err
}
