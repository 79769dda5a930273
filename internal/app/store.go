package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/launchqueue"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// Store is all that the roles need of one database.
type Store interface {
	worker.PlanStore
	worker.FireStore
	worker.BackfillStore
	worker.Waker
	leader.LeaseStore
	leader.Roster
	launcher.Store
	launcher.WorkflowStore
	launchqueue.Store
	registrar.ScheduleStore
	registrar.RunStore
	registrar.BackfillStore
	registrar.WorkflowStore
	registrar.AuditStore
	registrar.GrantStore
	alert.JudgeStore
	alert.Ledger
	alert.Outbox

	// Lag is what should have been claimed and planned by now, over all shards.
	Lag(ctx context.Context, now time.Time) (schedule.Lag, error)
	Migrate(ctx context.Context) (applied int, err error)
	CheckSchema(ctx context.Context) error
	Ping(ctx context.Context) error
	Now() time.Time
	MeasureClock(ctx context.Context) (skew time.Duration, err error)
	Close() error
}

// OpenStore opens the database that the configuration names.
//
// stepped hears of a host clock that was set back by more than the lookahead
// (SQLite only); it is called from within Now, and may be nil.
func OpenStore(ctx context.Context, cfg Config, log *slog.Logger, stepped func(from, to time.Time)) (Store, error) {
	if cfg.OnPostgres() {
		// A leader that hangs for as long as its term lasts leads no more, and must
		// not keep the next one waiting.
		s, err := postgres.Open(ctx, cfg.DatabaseURL.Reveal(), postgres.Options{Logger: log, HungAfter: min(ms(cfg.LeaderTTLMS), 10*time.Second)})
		if err != nil {
			return nil, cfg.Scrub(err)
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, "sqlite:"+cfg.sqlitePath(), sqlite.Options{
		Logger: log, HoldBack: ms(cfg.LookaheadMS), OnClockStep: stepped,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// sqlitePath is the file that SQLite keeps, for the store and its lock.
func (c *Config) sqlitePath() string {
	if c.DatabaseURL == "" {
		return filepath.Join(c.DataDir, "carillon.db")
	}
	return strings.TrimPrefix(strings.TrimPrefix(c.DatabaseURL.Reveal(), "sqlite:"), "//")
}

// Migrate brings the database to this binary's schema.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) (applied int, err error) {
	store, err := OpenStore(ctx, cfg, log, nil)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close store: %w", closeErr)
		}
	}()
	return store.Migrate(ctx)
}

// closeTimeout bounds the wait for calls that are still under way in the store.
const closeTimeout = time.Second

// closeStore does not let a database that does not answer hold up the end.
func (a *App) closeStore() error {
	closed := make(chan error, 1)
	go func() { closed <- a.store.Close() }()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case err := <-closed:
		return err
	case <-timeout.C:
		a.log.Warn("the store has calls under way and is left as it is")
		return nil
	}
}
