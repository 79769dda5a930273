package schema_test

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/carillon/carillon/schema"
)

// Version 14 knows of no shares: whoever has a schedule of a workflow that is
// stored for all owners may run it. That stays so.
func TestTheMigrationGivesOwnersTheWorkflowsThatTheirSchedulesRun(t *testing.T) {
	for _, c := range []struct {
		dialect schema.Dialect
		goose   goose.Dialect
		open    func(*testing.T) *sql.DB
		now     string
		blob    string
	}{
		{schema.SQLite, goose.DialectSQLite3, openSQLite, "0", "x''"},
		{schema.Postgres, goose.DialectPostgres, openPostgres, "now()", "''"},
	} {
		t.Run(string(c.dialect), func(t *testing.T) {
			db := c.open(t)
			before, err := goose.NewProvider(c.goose, db, os.DirFS(string(c.dialect)+"/bridge"), goose.WithVerbose(false))
			if err == nil {
				_, err = before.UpTo(t.Context(), 14)
			}
			if err != nil {
				t.Fatal(err)
			}
			do := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			for _, w := range []string{`'report', 3, ''`, `'adas', 1, 'ada'`} {
				do(`INSERT INTO workflow_versions (workflow_id, version, user_id, dag, dag_hash, created_at) VALUES (` + w + `, '{"a": 1}', ` + c.blob + `, ` + c.now + `)`)
			}
			required := `version, timezone, dst, jitter_ms, overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms, run_timeout_ms, priority, revision, shard, revised_at, created_at, updated_at`
			values := `1, 'UTC', 'vixie', 0, 'skip', 'k', 1, 'none', 1, 1, 0, 1, 0, ` + c.now + `, ` + c.now + `, ` + c.now
			for _, s := range []string{
				`'a1', 'report', 'ada', NULL`, `'a2', 'report', 'ada', NULL`, `'b1', 'report', 'bob', NULL`,
				`'c1', 'report', 'carl', ` + c.now, `'a3', 'adas', 'ada', NULL`, `'b2', 'adas', 'bob', NULL`, `'b3', 'none', 'bob', NULL`,
			} {
				do(`INSERT INTO schedules (schedule_id, workflow_id, user_id, deleted_at, ` + required + `) VALUES (` + s + `, ` + values + `)`)
			}
			if _, err := schema.Migrate(t.Context(), db, c.dialect); err != nil {
				t.Fatal(err)
			}
			got := texts(t, db, `SELECT workflow_id || ' ' || user_id || ' ' || given_by FROM workflow_shares`)
			if want := []string{"report ada carillon migrate", "report bob carillon migrate"}; !slices.Equal(got, want) {
				t.Errorf("shares: %q, want %q", got, want)
			}
			got = texts(t, db, `SELECT workflow_id || ' ' || user_id || ' ' || version || ' ' || dag FROM workflow_versions`)
			if want := []string{`adas ada 1 {"a": 1}`, `report  3 {"a": 1}`}; !slices.Equal(got, want) {
				t.Errorf("versions: %q, want %q", got, want)
			}
			if err := schema.Down(t.Context(), db, c.dialect); err != nil {
				t.Fatal(err)
			}
			if _, err := before.DownTo(t.Context(), 14); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// texts are the rows of a query of one column, sorted.
func texts(t *testing.T, db *sql.DB, query string) (found []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		found = append(found, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}
