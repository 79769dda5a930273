// Package schema holds the tables of both stores and the migrations that make
// them. One folder per dialect, the same file names and the same columns in
// both; a test compares them.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql sqlite/*.sql
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
// advisory lock keeps two migrations apart. It returns how many migrations ran.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) (int, error) {
	p, err := provider(db, d)
	if err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate %s: %w", d, err)
	}
	return len(done), nil
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
	switch {
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
	// Migrations only add, so one that was merged after a later one may run after
	// it.
	options := []goose.ProviderOption{goose.WithVerbose(false), goose.WithAllowOutofOrder(true)}
	engine := goose.DialectSQLite3
	if d == Postgres {
		engine = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, fmt.Errorf("make migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(engine, db, dir, options...)
	if err != nil {
		return nil, fmt.Errorf("read migrations of %s: %w", d, err)
	}
	return p, nil
}
