package schema_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pressly/goose/v3/lock"

	"github.com/carillon/carillon/schema"
)

// A process that checks the schema while a migration runs must not go on with the old one.
// Other tests share the database and its lock: this one runs alone.
func TestAProcessEntersOnlyWhileNoMigrationRuns(t *testing.T) {
	db := openPostgres(t)
	migrateTwice(t, db, schema.Postgres)
	migration, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer migration.Close()
	migrates := func() (locked bool) {
		t.Helper()
		if err := migration.QueryRowContext(t.Context(), `SELECT pg_try_advisory_lock($1)`, lock.DefaultLockID).Scan(&locked); err != nil {
			t.Fatal(err)
		}
		return locked
	}
	registered := false
	err = schema.Enter(t.Context(), db, schema.Postgres, func(context.Context) error {
		registered = true
		if migrates() {
			t.Error("a migration begins before the process is registered")
		}
		return nil
	})
	if err != nil || !registered {
		t.Fatal(registered, err)
	}
	if !migrates() {
		t.Fatal("no migration can begin after a process has entered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error, 1)
	go func() {
		entered <- schema.Enter(ctx, db, schema.Postgres, func(context.Context) error { return errors.New("registered") })
	}()
	if _, err := migration.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := migration.ExecContext(t.Context(), `SELECT pg_advisory_unlock($1)`, lock.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	if err := <-entered; !errors.Is(err, schema.ErrUnknownSchema) {
		t.Errorf("got %v, want ErrUnknownSchema after the migration", err)
	}
	cancel()
}
