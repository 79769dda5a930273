// Package schema holds the tables of both stores and the migrations that make
// them. One folder per dialect, the same columns in both, with exceptions that
// a test names. A new database runs 00028_core.sql and later files. The
// folder bridge/ is for databases of the versions 1 to 27 (bridge.go).
package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres sqlite
var files embed.FS

// PostgresRoles is the SQL that makes one role for each part of Carillon and
// gives it the least it needs; see docs/hardening.md.
//
//go:embed roles/postgres.sql
var PostgresRoles string

// Dialect names a database engine and the folder of its migrations.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// ErrUnknownSchema says that the database is not at the version that this
// binary was built for.
var ErrUnknownSchema = errors.New("unknown schema")

// Migrate brings the database to this binary's version. On Postgres an
// advisory lock keeps two migrations apart. It returns how many migrations ran. An
// interrupted migration goes on where it stopped.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, progress ...Progress) (applied int, err error) {
	return applied, locked(ctx, db, d, func(p *goose.Provider, b *bridge) error {
		for _, report := range progress {
			b.progress = report
		}
		if applied, err = b.up(ctx); err != nil {
			return err
		}
		done, err := p.Up(ctx)
		applied += len(done)
		if err != nil {
			return fmt.Errorf("migrate %s: %w", d, err)
		}
		return nil
	})
}

// Down takes the database back to version 27 with all its runs, for the binary
// before this one.
func Down(ctx context.Context, db *sql.DB, d Dialect) error {
	return locked(ctx, db, d, func(p *goose.Provider, b *bridge) error {
		if b.version < core {
			return fmt.Errorf("%w: the database is at version %d; there is a way back from version %d only", ErrUnknownSchema, b.version, core)
		}
		if err := b.refuseInUse(ctx); err != nil {
			return err
		}
		if b.version > core {
			if _, err := p.DownTo(ctx, core); err != nil {
				return fmt.Errorf("migrate %s down: %w", d, err)
			}
		}
		return b.down(ctx)
	})
}

// locked calls do while no other migration runs. SQLite needs no lock: each step is
// a transaction that finds out where the move is, and one at a time writes.
func locked(ctx context.Context, db *sql.DB, d Dialect, do func(*goose.Provider, *bridge) error) (err error) {
	if d == Postgres {
		unlock, err := lockPostgres(ctx, db)
		if err != nil {
			return err
		}
		defer unlock()
	}
	p, err := provider(db, d)
	if err != nil {
		return err
	}
	version, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	return do(p, &bridge{db: db, dialect: d, version: version, portion: portion})
}

// Enter is Check for a process that starts. register records its first heartbeat, which a
// move finds. On Postgres no migration runs meanwhile, so none overlooks the process.
func Enter(ctx context.Context, db *sql.DB, d Dialect, register func(context.Context) error) error {
	if d == Postgres {
		unlock, err := sharePostgres(ctx, db)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := Check(ctx, db, d); err != nil {
		return err
	}
	return register(ctx)
}

// shareEvery is how often a process that starts looks whether a migration is over. A
// session that waits for the lock would hold up concurrent builds of indexes.
const shareEvery = 100 * time.Millisecond

// sharePostgres takes the lock of migrations shared.
func sharePostgres(ctx context.Context, db *sql.DB) (unlock func(), err error) {
	session, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for the migration lock: %w", err)
	}
	for locked := false; ; {
		err := session.QueryRowContext(ctx, `SELECT pg_try_advisory_lock_shared($1)`, lock.DefaultLockID).Scan(&locked)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("share the migration lock: %w", err), session.Close())
		}
		if locked {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("a migration is running: %w", ctx.Err()), session.Close())
		case <-time.After(shareEvery):
		}
	}
	return func() {
		if _, err := session.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock_shared($1)`, lock.DefaultLockID); err != nil {
			_ = session.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = session.Close()
	}, nil
}

// lockPostgres takes the advisory lock of migrations on a session of its own.
func lockPostgres(ctx context.Context, db *sql.DB) (unlock func(), err error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // every second, for 5 minutes
	if err != nil {
		return nil, fmt.Errorf("make migration lock: %w", err)
	}
	session, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for the migration lock: %w", err)
	}
	if err := locker.SessionLock(ctx, session); err != nil {
		return nil, errors.Join(fmt.Errorf("take the migration lock: %w", err), session.Close())
	}
	return func() {
		// The lock must not stay on a connection that goes back to the pool.
		if err := locker.SessionUnlock(context.WithoutCancel(ctx), session); err != nil {
			_ = session.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = session.Close()
	}, nil
}

// Check answers ErrUnknownSchema, in words, unless the database is exactly at
// this binary's version: an older binary must not write to a newer schema, nor
// a newer one to an older.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	p, err := provider(db, d)
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	unfinished, err := (&bridge{db: db, dialect: d, version: have}).unfinished(ctx)
	if err != nil {
		return err
	}
	switch {
	case unfinished:
		return fmt.Errorf("%w: the move to version %d was interrupted: run `carillon migrate` to go on, or `carillon migrate down` to go back", ErrUnknownSchema, core)
	case have < want:
		return fmt.Errorf("%w: the database is at version %d, this binary needs %d: run `carillon migrate`", ErrUnknownSchema, have, want)
	case have > want:
		return fmt.Errorf("%w: the database is at version %d, this binary knows %d: use a newer carillon", ErrUnknownSchema, have, want)
	}
	// The newest is there; one before it may have been added after it.
	pending, err := p.HasPending(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look for missing migrations: %w", err)
	case pending:
		return fmt.Errorf("%w: the database is at version %d and lacks an earlier migration: run `carillon migrate`", ErrUnknownSchema, have)
	}
	return nil
}

func provider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("open migrations of %s: %w", d, err)
	}
	return newProvider(db, d, dir)
}

func newProvider(db *sql.DB, d Dialect, dir fs.FS) (*goose.Provider, error) {
	engine := goose.DialectSQLite3
	if d == Postgres {
		engine = goose.DialectPostgres
	}
	// Migrations only add, so one that was merged after a later one may run after
	// it.
	p, err := goose.NewProvider(engine, db, dir, goose.WithVerbose(false), goose.WithAllowOutofOrder(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations of %s: %w", d, err)
	}
	return p, nil
}
