// Package migrated gives each test a database of its own with Carillon's
// tables in it. It takes no step in a slot's life: only tests import it. The
// migrations run once per test binary, and each test gets a copy. The tests of
// the schema itself begin with an empty database instead: services.Postgres
// with a nil migration, or no file.
package migrated

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/schema"
)

// Postgres returns the URL of a migrated database that is this test's alone.
func Postgres(t testing.TB) string {
	t.Helper()
	return services.Postgres(t, migrate)
}

func migrate(ctx context.Context, url string) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("open the template database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = schema.Migrate(ctx, db, schema.Postgres)
	return err
}
