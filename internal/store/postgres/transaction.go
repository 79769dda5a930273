package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// The SQLSTATEs that are acted on.
const (
	stateUniqueViolation      = "23505"
	stateSerializationFailure = "40001"
	stateDeadlock             = "40P01"
	stateLockTimeout          = "55P03"
	stateInvalidText          = "22P02" // of a value, such as a snapshot
)

// errAgain repeats the transaction: a concurrent one came first.
var errAgain = errors.New("another transaction came between")

const (
	tries    = 6
	firstGap = 4 * time.Millisecond
	lastGap  = 250 * time.Millisecond
)

// genericPlans begins a transaction with generic plans that use an index for each row and each
// join, independent of statistics. Statistics lag behind a burst: a plan that follows
// them reads a whole table for a thousand keys, or compares each of a thousand rows with
// each key. Statements outside of transactions are lists with filters for people, which
// are planned by their values.
var genericPlans = pgx.TxOptions{BeginQuery: `BEGIN` + setGenericPlans}

const setGenericPlans = `; SET LOCAL plan_cache_mode = force_generic_plan;
SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`

// A process that is stopped in a transaction of its term delays a takeover by this long.
const shortIdle = `; SET LOCAL idle_in_transaction_session_timeout = '2s'`

// transact runs fn in a transaction, and repeats it after a deadlock, a lock timeout, a
// violation of a history index or errAgain.
func (s *Store) transact(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return s.transactWith(ctx, genericPlans, fn)
}

func (s *Store) transactWith(ctx context.Context, options pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	tried, refused, busy := 0, false, busyGroups(nil)
	return backoff.Retry(ctx, backoff.Delays{First: firstGap, Last: lastGap}, func() error {
		tried++
		err := s.onceWith(ctx, options, func(tx pgx.Tx) error {
			if err := busy.await(ctx, tx); err != nil {
				return err
			}
			if refused {
				tx = oneByOne{tx, s}
			}
			return fn(tx)
		})
		refused = refused || nthTaken(err)
		busy.note(err)
		return err
	}, func(err error) bool { return tried < tries && transient(err) })
}

// once runs fn in one transaction.
func (s *Store) once(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return s.onceWith(ctx, genericPlans, fn)
}

func (s *Store) onceWith(ctx context.Context, options pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	var wake bucketRange
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		err := fn(wakingTx{tx, &wake, &s.fronts, &s.opts})
		failpoint.Hit(failpoint.Committing)
		return err
	})
	failpoint.Hit(failpoint.Committed)
	if err == nil {
		s.notifier.wake(wake)
	}
	return err
}

// fenced is transact for a worker: its first statement checks that term leads, and keeps
// it leading until the transaction ends.
func (s *Store) fenced(ctx context.Context, term schedule.Term, fn func(tx pgx.Tx) error) error {
	return s.fencedWith(ctx, genericPlans, term, fn)
}

func (s *Store) fencedWith(ctx context.Context, options pgx.TxOptions, term schedule.Term, fn func(tx pgx.Tx) error) error {
	if term == (schedule.Term{}) {
		return fmt.Errorf("no term was given: %w", schedule.ErrFenced)
	}
	options.BeginQuery += shortIdle
	return s.transactWith(ctx, options, func(tx pgx.Tx) error {
		var found int
		err := tx.QueryRow(ctx, sqlFence, term.Shard, term.Holder, term.Epoch).Scan(&found)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("shard %d, epoch %d: %w", term.Shard, term.Epoch, schedule.ErrFenced)
		}
		if err != nil {
			return fmt.Errorf("check epoch: %w", err)
		}
		return fn(tx)
	})
}

func transient(err error) bool {
	switch stateOf(err) {
	case stateSerializationFailure, stateDeadlock, stateLockTimeout:
		return true
	}
	if _, busy := errors.AsType[*tables.GroupsBusy](err); busy {
		return true
	}
	return errors.Is(err, errAgain) || nthTaken(err) || pgconn.SafeToRetry(err)
}

// nthTaken reports whether history refused a run: another one of its slot has its nth.
// The name of the index is the partition's.
func nthTaken(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateUniqueViolation && strings.HasPrefix(refused.TableName, "ended_runs")
}

// violates says whether err is a violation of the named unique index.
func violates(err error, index string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateUniqueViolation && refused.ConstraintName == index
}

// runsKey is the index of the keys of open runs.
const runsKey = "open_runs_pkey"

// alreadyThere turns a unique violation into errAgain: the optimistic insert is retried
// with a lookup.
func alreadyThere(err error, index string) error {
	if violates(err, index) {
		return errors.Join(errAgain, err)
	}
	return err
}

func stateOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// affect runs a statement that changes rows and returns how many.
func affect(ctx context.Context, tx pgx.Tx, statement string, args ...any) (int, error) {
	tag, err := tx.Exec(ctx, statement, args...)
	return int(tag.RowsAffected()), err
}

// keysOf runs a statement that returns keys.
func keysOf(ctx context.Context, tx pgx.Tx, statement string, args ...any) (map[schedule.Key]bool, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	keys := make(map[schedule.Key]bool)
	var raw []byte
	_, err = pgx.ForEachRow(rows, []any{&raw}, func() error {
		keys[schedule.Key(raw)] = true
		return nil
	})
	return keys, err
}
