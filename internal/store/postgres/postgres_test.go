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
	"github.com/carillon/carillon/internal/test/storetest"
)

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil) // without a server, skip here and say so once
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url := services.Postgres(t, migrate)
		return poisoner{open(t, url, postgres.Options{MaxConns: 8}), url}
	})
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
	return p.exec(ctx, `UPDATE open_runs SET cancel_reason = NULL WHERE idempotency_key = $1`, key[:])
}

// WritesBesideOthers makes it a storetest.OpenWriters.
func (poisoner) WritesBesideOthers() {}

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
