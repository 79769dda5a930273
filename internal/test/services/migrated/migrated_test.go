package migrated_test

import (
	"database/sql"
	"testing"

	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/schema"
)

func TestTheDatabaseIsAtTheVersionOfThisBinary(t *testing.T) {
	db, err := sql.Open("pgx", migrated.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := schema.Check(t.Context(), db, schema.Postgres); err != nil {
		t.Error(err)
	}
}
