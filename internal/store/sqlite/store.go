// Package sqlite is step 3 of a slot's life, the commit, on one file and one
// machine: SQLite in pure Go. It says the same as its twin on Postgres, file by
// file; package storetest has the contract of both.
//
// One connection writes, and other writers wait for it, so a transaction never sees
// another's half: what Postgres needs row locks for is here so by construction. Readers
// have a pool of their own and, by the write-ahead log, neither wait nor are waited for.
// A commit is on the disk before it returns (synchronous=FULL).
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
	"github.com/carillon/carillon/schema"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	Logger   *slog.Logger  // default: slog.Default
	MaxConns int           // readers; default 4
	HoldBack time.Duration // the host clock may step back so far and now only stands still; default 1 minute

	// OnClockStep hears of a step back that is larger than HoldBack and was
	// accepted. It is called from within Now: it must return soon and not call
	// the store.
	OnClockStep func(from, to time.Time)
	// QueuedRetry decides on the retries of runs in queues where neither their schedule nor their
	// queue has a policy; zero: schedule.DefaultRetry.
	QueuedRetry schedule.RetryPolicy
	// HostClock is the clock of this machine; default time.Now.
	HostClock func() time.Time
}

// Store is the whole of the ledger in one SQLite file.
type Store struct {
	*tables.Tables

	log         *slog.Logger
	clock       *clock
	writer      *writer
	readers     *readers
	checkpoints *checkpoints
	definitions revision.Cache
	wakes       wakes
	queueWakes  wakes
	path        string // of the file
	opening     string // of the file, drawn at random: see position

	close    sync.Once
	closed   chan struct{}
	closeErr error
}

// Open opens the file that dsn names (sqlite:PATH or sqlite://PATH) and makes
// it, and its folder, if there is none. It neither migrates nor checks the
// schema.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	path, err := prepareFile(dsn)
	if err != nil {
		return nil, fmt.Errorf("open SQLite store: %w", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.MaxConns <= 0 {
		opts.MaxConns = 4
	}
	w, err := openWriter(path, opts.Logger.With("component", "store"))
	if err != nil {
		return nil, fmt.Errorf("open SQLite store %s: %w", path, err)
	}
	w.queuedRetry = opts.QueuedRetry
	r, err := openReaders(path, opts.MaxConns)
	if err != nil {
		return nil, fmt.Errorf("open SQLite store %s: %w", path, joinClose(err, w.close))
	}
	c, err := startCheckpoints(path, w, opts.Logger.With("component", "store"))
	if err != nil {
		return nil, fmt.Errorf("open SQLite store %s: %w", path, joinClose(joinClose(err, r.db.Close), w.close))
	}
	s := &Store{
		path: path, opening: rand.Text(), log: opts.Logger.With("component", "store"), writer: w, readers: r, checkpoints: c,
		closed: make(chan struct{}),
	}
	s.Tables = s.newTables()
	s.clock = newClock(opts, s.log)
	if err := s.recallClock(ctx); err != nil {
		return nil, fmt.Errorf("open SQLite store %s: %w", path, joinClose(err, s.Close))
	}
	return s, nil
}

// Close waits for the transaction that is under way and closes the file.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closed)
		s.closeErr = joinClose(joinClose(s.checkpoints.close(), s.readers.db.Close), s.writer.close)
	})
	return s.closeErr
}

// Migrate brings the file to this binary's schema and returns how many
// migrations ran.
func (s *Store) Migrate(ctx context.Context, progress ...schema.Progress) (applied int, err error) {
	err = s.writer.lend(ctx, func(db *sql.DB) error {
		applied, err = schema.Migrate(ctx, db, schema.SQLite, progress...)
		return err
	})
	return applied, err
}

// MigrateDown takes the file back to the schema before this one.
func (s *Store) MigrateDown(ctx context.Context) error {
	return s.writer.lend(ctx, func(db *sql.DB) error { return schema.Down(ctx, db, schema.SQLite) })
}

// CheckSchema answers schema.ErrUnknownSchema, in words, unless the file is at
// this binary's schema.
func (s *Store) CheckSchema(ctx context.Context) error {
	return s.writer.lend(ctx, func(db *sql.DB) error { return schema.Check(ctx, db, schema.SQLite) })
}

// EnterSchema is CheckSchema for a process that starts, and then register.
func (s *Store) EnterSchema(ctx context.Context, register func(context.Context) error) error {
	if err := s.CheckSchema(ctx); err != nil {
		return err
	}
	return register(ctx)
}

// lockTolerated is how long another process may hold the file's lock before the
// database counts as away. A backup or a migration takes it for less.
const lockTolerated = 2 * time.Second

// Ping reports whether the file can be read and written. It writes nothing: that
// the disk is full it knows from the last transaction.
func (s *Store) Ping(ctx context.Context) error {
	var tables int64
	err := s.readers.query(ctx, sqlPing, func(scan scan) error { return scan(&tables) })
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	var failed error
	err = s.writer.transact(ctx, func(_ context.Context, t tx) error {
		failed = t.w.failed
		return errNothingToWrite
	})
	var held lockHeld
	switch {
	case errors.As(err, &held) && time.Since(held.since) > lockTolerated:
		return held.explain()
	case isBusy(err):
		return nil
	case !errors.Is(err, errNothingToWrite):
		return fmt.Errorf("ping: %w", diskFailed(err))
	}
	return diskFailed(failed)
}

// errNothingToWrite ends the transaction of a ping.
var errNothingToWrite = errors.New("nothing to write")
