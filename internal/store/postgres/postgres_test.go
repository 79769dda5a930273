package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/storetest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil) // without a server, skip here and say so once
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url := services.Postgres(t, migrate)
		return poisoner{open(t, url, postgres.Options{MaxConns: 8}), url}
	})
}

// migrate brings an empty database to the schema.
func migrate(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	return errors.Join(err, s.Close())
}

// fresh is a store in a database of its own, and the database's URL.
func fresh(t testing.TB) (*postgres.Store, string) {
	t.Helper()
	url := services.Postgres(t, migrate)
	return open(t, url, postgres.Options{}), url
}

// open opens a store that is closed when its test ends.
func open(t testing.TB, url string, opts postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect is a plain connection beside the store's.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// poisoner can also break a row, as a bug or a hand at the table might.
type poisoner struct {
	*postgres.Store
	url string
}

func (p poisoner) Poison(ctx context.Context, scheduleID string) error {
	return p.exec(ctx, `UPDATE schedules SET labels = '{"broken": 1}', next_run_at = 'infinity' WHERE schedule_id = $1`, scheduleID)
}

func (p poisoner) DropCancelReason(ctx context.Context, key schedule.Key) error {
	return p.exec(ctx, `UPDATE schedule_runs SET cancel_reason = NULL WHERE idempotency_key = $1`, key[:])
}

func (p poisoner) exec(ctx context.Context, statement string, arg any) error {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, arg)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("poison %v: %w", arg, err)
	}
	return nil
}
