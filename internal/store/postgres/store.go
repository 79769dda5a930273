// Package postgres stores schedules, runs and leaders on Postgres. Each method is one
// transaction. Package storetest tests its contract; package sqlite has mostly the same
// files.
//
// Locks are taken in one order everywhere, so that transactions do not deadlock: leaders,
// what a deploy manages (by name), workflow_versions (by id), schedules (by id),
// open_runs (by key), execution_requests, workflow_shares (by id). A claim updates its
// leaders row last. Only takeovers and renewals wait for that, and they lock no runs.
// Transactions that still collide are repeated (transaction.go). The level is READ
// COMMITTED: a decision's facts are read in a statement after its locks are held, and
// every UPDATE of a run names the statuses that it may leave. A claim locks nothing
// first: it reads changes, judges in memory, and starts again if a run is not in the
// state that was judged.
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
	"github.com/carillon/carillon/schema"
)

// Options are the options of Open. The zero value is valid.
type Options struct {
	Logger   *slog.Logger // nil: nothing is logged
	MaxConns int          // 0: the DSN's pool_max_conns, else 16
	// QueuedRetry decides on the retries of runs in queues where neither their schedule nor their
	// queue has a policy; zero: schedule.DefaultRetry.
	QueuedRetry schedule.RetryPolicy
}

// Store stores everything in one Postgres database. It is safe for concurrent use.
type Store struct {
	*tables.Tables

	opts        Options
	pool        *pgxpool.Pool
	log         *slog.Logger
	definitions revision.Cache
	names       revision.Names // of sids
	changes     *batch.Batcher[changeCall, changeAnswer]
	notifier    notifier
	fronts      fronts
	endedTwice  atomic.Uint64

	clock      atomic.Pointer[reading]
	partitions struct {
		kept     atomic.Pointer[time.Time] // the last try
		failures atomic.Uint64             // tries that failed
		inARow   atomic.Uint64             // of them, since the last that did not
	}
}

// Open connects, and refuses a pooler that shares sessions between clients. It
// neither migrates nor checks the schema.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	config, err := poolConfig(dsn, opts)
	if err != nil {
		return nil, err
	}
	if err := checkSession(ctx, config.ConnConfig); err != nil {
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open Postgres pool: %w", err)
	}
	s := &Store{opts: opts, pool: pool, log: opts.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("component", "store")
	s.Tables = s.newTables()
	s.notifier = notifier{pool: pool, log: s.log}
	s.changes = batch.New(mostGrouped, s.changeTogether)
	if _, err := s.MeasureClock(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open Postgres: %w", err)
	}
	return s, nil
}

const (
	defaultMaxConns = 16
	connLifetime    = time.Hour
	connectTimeout  = 5 * time.Second
)

func poolConfig(dsn string, opts Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read Postgres DSN: %w", err)
	}
	switch {
	case opts.MaxConns > 0:
		config.MaxConns = int32(min(opts.MaxConns, 10_000))
	case !strings.Contains(dsn, "pool_max_conns"):
		config.MaxConns = defaultMaxConns
	}
	// The jitter keeps connections that were opened together from ending together. No
	// pooled connection holds a lock: the leader has its own connection.
	config.MaxConnLifetime, config.MaxConnLifetimeJitter = connLifetime, connLifetime/4
	config.PingTimeout = connectTimeout
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if _, chosen := config.ConnConfig.RuntimeParams["application_name"]; !chosen {
		config.ConnConfig.RuntimeParams["application_name"] = "carillon"
	}
	config.AfterConnect = setUp
	return config, nil
}

// Close closes all connections after the open calls have ended.
func (s *Store) Close() error {
	s.notifier.work.Wait()
	s.pool.Close()
	return nil
}

// Migrate brings the database to this binary's schema, without the limits on
// statements; it returns how many migrations ran.
func (s *Store) Migrate(ctx context.Context, progress ...schema.Progress) (int, error) {
	db := stdlib.OpenDB(*s.unlimited(), stdlib.OptionAfterConnect(setPath))
	defer db.Close()
	return schema.Migrate(ctx, db, schema.Postgres, progress...)
}

// MigrateDown migrates the database to the previous schema.
func (s *Store) MigrateDown(ctx context.Context) error {
	db := stdlib.OpenDB(*s.unlimited(), stdlib.OptionAfterConnect(setPath))
	defer db.Close()
	return schema.Down(ctx, db, schema.Postgres)
}

// CheckSchema returns schema.ErrUnknownSchema unless the database has exactly this
// binary's schema.
func (s *Store) CheckSchema(ctx context.Context) error {
	db := stdlib.OpenDB(*s.unlimited(), stdlib.OptionAfterConnect(setPath))
	defer db.Close()
	return schema.Check(ctx, db, schema.Postgres)
}

// EnterSchema is CheckSchema for a process that starts; see schema.Enter.
func (s *Store) EnterSchema(ctx context.Context, register func(context.Context) error) error {
	db := stdlib.OpenDB(*s.unlimited(), stdlib.OptionAfterConnect(setPath))
	defer db.Close()
	return schema.Enter(ctx, db, schema.Postgres, register)
}

// unlimited returns the configuration of a connection outside the pool, without the DSN's
// limits.
func (s *Store) unlimited() *pgx.ConnConfig {
	config := s.pool.Config().ConnConfig.Copy()
	for name := range settings {
		if strings.HasSuffix(name, "_timeout") {
			delete(config.RuntimeParams, name)
		}
	}
	return config
}

// Ping checks that the database answers and accepts writes.
func (s *Store) Ping(ctx context.Context) error {
	var standby, readOnly bool
	err := s.pool.QueryRow(ctx, sqlPing).Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return fmt.Errorf("ping Postgres: %w", err)
	case standby:
		return schedule.Explain(schedule.ErrUnavailable, "Postgres is a standby and takes no writes: name the primary in DATABASE_URL, e.g. with target_session_attrs=read-write")
	case readOnly:
		return schedule.Explain(schedule.ErrUnavailable, "Postgres takes no writes from this session: see default_transaction_read_only of the server, database and role")
	}
	return nil
}
