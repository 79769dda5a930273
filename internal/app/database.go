package app

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/schema"
)

// OpenOptions are the choices of OpenStore. The zero value opens what is there,
// at once or not at all.
type OpenOptions struct {
	Create bool          // make the SQLite file if there is none
	Wait   time.Duration // how long a Postgres that cannot be reached is tried
	// ClockStepped hears of a host clock that was set back by more than the
	// lookahead (SQLite only). It is called from within Now, and may be nil.
	ClockStepped func(from, to time.Time)
}

// OpenStore opens the database that the configuration names.
func OpenStore(ctx context.Context, cfg Config, log *slog.Logger, o OpenOptions) (Store, error) {
	if cfg.OnPostgres() {
		return openPostgres(ctx, cfg, log, o.Wait)
	}
	path := cfg.sqlitePath()
	if _, err := os.Stat(path); !o.Create && os.IsNotExist(err) {
		return nil, schedule.Explain(fs.ErrNotExist, "no database file %s: set DATABASE_URL, "+
			"or create this file with `DATABASE_URL=sqlite:%s carillon migrate`", absolute(path), path)
	}
	if cfg.DatabaseURL == "" {
		if err := cfg.useDataDir(); err != nil {
			return nil, err
		}
	}
	s, err := sqlite.Open(ctx, "sqlite:"+path, sqlite.Options{Logger: log, HoldBack: ms(cfg.LookaheadMS), OnClockStep: o.ClockStepped, QueuedRetry: cfg.queuedRetry()})
	if err != nil {
		return nil, err
	}
	return s, nil
}

const (
	firstRetry = 200 * time.Millisecond
	mostRetry  = 2 * time.Second
	waitReport = 5 * time.Second // between two lines about a database that is away
)

// openPostgres waits for a server that is still starting. What no waiting mends,
// such as a wrong password, is answered at once.
func openPostgres(ctx context.Context, cfg Config, log *slog.Logger, wait time.Duration) (Store, error) {
	began, reported := time.Now(), time.Time{}
	var s *postgres.Store
	err := backoff.Retry(ctx, backoff.Delays{First: firstRetry, Last: mostRetry}, func() (err error) {
		// A leader that hangs for as long as its term lasts leads no more, and must
		// not keep the next one waiting.
		s, err = postgres.Open(ctx, cfg.DatabaseURL.Reveal(), postgres.Options{Logger: log, QueuedRetry: cfg.queuedRetry()})
		return err
	}, func(err error) bool {
		again := postgres.Unreachable(err) && time.Since(began) < wait
		if again && time.Since(reported) >= waitReport {
			reported = time.Now()
			log.Warn("waiting for the database", "database", cfg.DatabaseName(),
				"waited", time.Since(began).Round(time.Second).String(), "limit", wait.String(), "err", cfg.Scrub(err))
		}
		return again
	})
	switch {
	case err != nil && wait > 0 && postgres.Unreachable(err):
		return nil, fmt.Errorf("%s cannot be reached after %s (DATABASE_WAIT_MS): %w", cfg.DatabaseName(), wait, cfg.Scrub(err))
	case err != nil:
		return nil, cfg.Scrub(err)
	}
	if !reported.IsZero() {
		log.Info("database reached", "database", cfg.DatabaseName(), "waited", time.Since(began).Round(time.Millisecond).String())
	}
	return s, nil
}

// DatabaseName names the database for people, without user and password:
// "SQLite /var/lib/carillon/carillon.db" or "Postgres db:5432/carillon".
func (c *Config) DatabaseName() string {
	if c.OnPostgres() {
		return "Postgres " + postgres.Address(c.DatabaseURL.Reveal())
	}
	return "SQLite " + absolute(c.sqlitePath())
}

// NamesSQLiteFile reports whether the path of the SQLite file is set: only
// then does a command other than dev create it.
func (c *Config) NamesSQLiteFile() bool {
	return c.DatabaseURL != "" || !slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Name == "DATA_DIR" && s.Default == c.DataDir })
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// sqlitePath is the file that SQLite keeps, for the store and its lock.
func (c *Config) sqlitePath() string {
	if c.DatabaseURL == "" {
		return filepath.Join(c.DataDir, "carillon.db")
	}
	return strings.TrimPrefix(strings.TrimPrefix(c.DatabaseURL.Reveal(), "sqlite:"), "//")
}

// Migrate brings the database to this binary's schema.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger, progress schema.Progress) (applied int, err error) {
	return applied, withStore(ctx, cfg, log, cfg.NamesSQLiteFile(), func(s Store) error {
		applied, err = s.Migrate(ctx, progress)
		return err
	})
}

// MigrateDown takes the database back to the schema before this binary's.
func MigrateDown(ctx context.Context, cfg Config, log *slog.Logger) error {
	return withStore(ctx, cfg, log, false, func(s Store) error { return s.MigrateDown(ctx) })
}

// withStore calls do with the store open.
func withStore(ctx context.Context, cfg Config, log *slog.Logger, create bool, do func(Store) error) (err error) {
	store, err := OpenStore(ctx, cfg, log, OpenOptions{Create: create, Wait: ms(cfg.DatabaseWaitMS)})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close store: %w", closeErr)
		}
	}()
	return do(store)
}

// checkSchema refuses a schema of another version, or migrates it.
func (a *App) checkSchema(ctx context.Context, migrate bool) error {
	if migrate {
		if err := a.migrate(ctx); err != nil {
			return err
		}
	}
	return a.store.EnterSchema(ctx, func(ctx context.Context) error { return a.store.Heartbeat(ctx, a.self()) })
}

func (a *App) migrate(ctx context.Context) error {
	tenths := 0
	applied, err := a.store.Migrate(ctx, func(moved, total int) {
		if moved*10/max(total, 1) == tenths {
			return // a line for each tenth
		}
		tenths = moved * 10 / max(total, 1)
		a.log.Info("moving history to the new tables", "moved", moved, "total", total)
	})
	if err == nil && applied > 0 {
		a.log.Info("schema migrated", "migrations", applied)
	}
	return err
}
