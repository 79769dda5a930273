// Package database gives each run a Postgres database of its own on the harness's server,
// and measures the server's CPU.
package database

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon/carillon/internal/test/bench/proc"
)

// Database is a fresh, empty database.
type Database struct {
	URL        string
	Pool       *pgxpool.Pool // the harness' own connections to it
	name       string
	admin      *pgxpool.Pool
	postmaster int
}

// Create makes the database name on the server at serverURL, with a checkpoint
// behind it: so that no run meets the one that an earlier run has earned.
func Create(ctx context.Context, serverURL, name string) (d *Database, err error) {
	d = &Database{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.admin, err = open(ctx, serverURL); err != nil {
		return d, err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name, "CHECKPOINT"} {
		if _, err := d.admin.Exec(ctx, statement); err != nil {
			return d, fmt.Errorf("%s: %w", statement, err)
		}
	}
	if d.URL, err = withName(serverURL, name); err != nil {
		return d, err
	}
	if d.Pool, err = open(ctx, d.URL); err != nil {
		return d, err
	}
	d.postmaster, err = postmaster(ctx, d.admin)
	return d, err
}

// open keeps to two connections: what the harness asks must not cost much.
func open(ctx context.Context, serverURL string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(serverURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	cfg.MaxConns = 2
	return pgxpool.NewWithConfig(ctx, cfg)
}

func withName(serverURL, name string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return "", fmt.Errorf("DATABASE_URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// postmaster is the server's process on this machine; 0: it runs elsewhere, and its CPU
// is unknown.
func postmaster(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	if parent, err := proc.Parent(backend); err == nil {
		return parent, nil
	}
	return 0, nil
}

// Usage is what the server took since it was started.
func (d *Database) Usage() (proc.Usage, error) {
	if d.postmaster == 0 {
		return proc.Usage{}, nil
	}
	return proc.Family(d.postmaster)
}

// Bulk prepares for much that is loaded at once: the log is written out sooner,
// so that a ledger and its log do not fill the disk together. The function that
// it returns takes it back.
func (d *Database) Bulk(ctx context.Context) (end func(context.Context) error, err error) {
	set := func(ctx context.Context, statements ...string) error {
		for _, statement := range append(statements, "SELECT pg_reload_conf()") {
			if _, err := d.admin.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}
	err = set(ctx, "ALTER SYSTEM SET max_wal_size = '1GB'", "ALTER SYSTEM SET checkpoint_timeout = '30s'", "ALTER SYSTEM SET maintenance_work_mem = '1GB'")
	return func(ctx context.Context) error {
		return set(ctx, "ALTER SYSTEM RESET max_wal_size", "ALTER SYSTEM RESET checkpoint_timeout", "ALTER SYSTEM RESET maintenance_work_mem")
	}, err
}

// Rest lets the server do now what it would do in the middle of the run, once
// everything is loaded: statistics and visibility, as autovacuum would within
// the minute.
func (d *Database) Rest(ctx context.Context) error {
	_, err := d.Pool.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// Flush writes out what bulk has left in memory, which would be written during
// the run otherwise.
func (d *Database) Flush(ctx context.Context) error {
	_, err := d.Pool.Exec(ctx, "CHECKPOINT")
	return err
}

// Lock keeps all others from a table for a while.
func (d *Database) Lock(ctx context.Context, table string, long time.Duration) error {
	return pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return fmt.Errorf("lock %s: %w", table, err)
		}
		_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", long.Seconds())
		return err
	})
}

// Hold opens a transaction that sees today's rows, so that nothing dead after it can be
// cleaned up. The function that it returns ends it.
func (d *Database) Hold(ctx context.Context) (release func(context.Context) error, err error) {
	tx, err := d.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SELECT txid_current()"); err != nil {
		return nil, err
	}
	return tx.Rollback, nil
}

// Size of the database, in MB.
func (d *Database) Size(ctx context.Context) (mb float64, err error) {
	err = d.Pool.QueryRow(ctx, "SELECT pg_database_size(current_database()) / 1048576.0::float8").Scan(&mb)
	return mb, err
}

// closing bounds the end of a database.
const closing = 30 * time.Second

// Close drops the database, also with open connections.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if d.Pool != nil {
		d.Pool.Close()
	}
	if d.admin == nil {
		return nil
	}
	defer d.admin.Close()
	_, err := d.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
	return err
}

// Server describes the server: its version, and how durable it is.
func Server(ctx context.Context, serverURL string) (map[string]string, error) {
	pool, err := open(ctx, serverURL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	out := make(map[string]string)
	for _, name := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"} {
		var value string
		if err := pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return nil, fmt.Errorf("read the server's %s: %w", name, err)
		}
		out[name] = value
	}
	return out, nil
}
