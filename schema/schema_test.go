package schema_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/carillon/carillon/schema"
)

// column is what both dialects must agree on.
type column struct {
	Table, Name string
	Required    bool   // NOT NULL, or part of the primary key
	Kind        string // number, text, bytes: what code reads from it
}

func TestBothDialectsHaveTheSameTablesAndColumns(t *testing.T) {
	t.Parallel()
	postgres, sqlite := readFiles(t, "postgres"), readFiles(t, "sqlite")
	// The read position differs: a snapshot of transactions, and a row number.
	for table, name := range map[*map[string]column]string{&postgres: "changes.xid", &sqlite: "changes.change_id"} {
		if _, ok := (*table)[name]; !ok {
			t.Errorf("there is no %s", name)
		}
		delete(*table, name)
	}
	// A sequence on Postgres.
	maps.DeleteFunc(sqlite, func(_ string, c column) bool { return c.Table == "queue_positions" })
	// SQLite has one writer, so a change that is seen was committed when it says.
	maps.DeleteFunc(postgres, func(_ string, c column) bool { return c.Table == "change_snapshots" })
	// Only Postgres keeps index entries of rows that are deleted.
	delete(postgres, "open_runs.admission")
	// SQLite cannot add a required column to rows that exist.
	sid := postgres["schedules.sid"]
	sid.Required = false
	postgres["schedules.sid"] = sid
	if d := cmp.Diff(postgres, sqlite); d != "" {
		t.Errorf("the dialects differ (- postgres, + sqlite):\n%s", d)
	}
	if len(postgres) < 100 {
		t.Errorf("only %d columns were found", len(postgres))
	}
}

func TestNoColumnIsMadeForASecret(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`session|token|secret|password|passphrase|credential|private|cookie|bearer|salt|key`)
	// Keys that open nothing: what a run and what is exclusive are called by, an order, what a limit counts by, and what there is one run of.
	known := []string{"idempotency_key", "overlap_key", "keys", "position_key", "limit_key", "keyed", "unique_key", "run_key", "fair_key"}
	for _, dialect := range []string{"postgres", "sqlite"} {
		for name, column := range readFiles(t, dialect) {
			if secret.MatchString(strings.TrimPrefix(name, "limit_keys.")) && !slices.Contains(known, column.Name) {
				t.Errorf("%s: no column ever holds a session, token, key or secret", name)
			}
		}
	}
}

func TestMigrateIsDoneOnceOnSQLite(t *testing.T) {
	t.Parallel()
	migrateTwice(t, openSQLite(t), schema.SQLite)
}

func TestWhatSQLiteHasIsWhatTheFilesSay(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	migrateTwice(t, db, schema.SQLite)
	got := columns(t, db, `SELECT m.name, c.name, c."notnull" OR c.pk > 0, lower(c.type) FROM sqlite_schema m
 JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%'`)
	if d := cmp.Diff(readFiles(t, "sqlite"), got); d != "" {
		t.Errorf("the database differs (- files, + database):\n%s", d)
	}
}

func TestWhatPostgresHasIsWhatTheFilesSay(t *testing.T) {
	t.Parallel()
	db := openPostgres(t)
	migrateTwice(t, db, schema.Postgres)
	got := columns(t, db, `SELECT table_name, column_name, is_nullable = 'NO',
 CASE WHEN data_type = 'ARRAY' THEN ltrim(udt_name, '_') ELSE data_type END FROM information_schema.columns
 JOIN pg_class ON oid = to_regclass(table_name) AND relkind IN ('r', 'p') AND NOT relispartition
 WHERE table_schema = current_schema() AND table_name NOT LIKE 'goose_%'`)
	if d := cmp.Diff(readFiles(t, "postgres"), got); d != "" {
		t.Errorf("the database differs (- files, + database):\n%s", d)
	}
}

func TestCheckRefusesASchemaThatIsNotThisBinarys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, change, want string }{
		{name: "older", change: `DELETE FROM goose_db_version WHERE version_id > 0`, want: "run `carillon migrate`"},
		{name: "newer", change: `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`, want: "use a newer carillon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := openSQLite(t)
			migrateTwice(t, db, schema.SQLite)
			if _, err := db.ExecContext(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			err := schema.Check(t.Context(), db, schema.SQLite)
			if !errors.Is(err, schema.ErrUnknownSchema) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrUnknownSchema that says %q", err, c.want)
			}
		})
	}
}

func TestCheckRefusesAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	err := schema.Check(t.Context(), openSQLite(t), schema.SQLite)
	if !errors.Is(err, schema.ErrUnknownSchema) {
		t.Errorf("got %v, want ErrUnknownSchema", err)
	}
}

func migrateTwice(t *testing.T, db *sql.DB, d schema.Dialect) {
	t.Helper()
	for i, wantMore := range []bool{true, false} {
		applied, err := schema.Migrate(t.Context(), db, d)
		if err != nil || (applied > 0) != wantMore {
			t.Fatalf("migration %d: %d applied, %v", i+1, applied, err)
		}
	}
	if err := schema.Check(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
}

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "schema.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

var schemas atomic.Int32 // of tests

// openPostgres is a schema of its own in the database of TEST_DATABASE_URL.
func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		t.Skip("TEST_DATABASE_URL is not set")
	}
	admin, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, admin) })
	name := fmt.Sprintf("schema_test_%d_%d", os.Getpid(), schemas.Add(1))
	if _, err := admin.ExecContext(t.Context(), `CREATE SCHEMA `+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(`DROP SCHEMA ` + name + ` CASCADE`); err != nil {
			t.Error(err)
		}
	})
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	db, err := sql.Open("pgx", url+sep+"search_path="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

func closeDB(t *testing.T, db *sql.DB) {
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// columns reads rows of table, column, required and type.
func columns(t *testing.T, db *sql.DB, query string) map[string]column {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := make(map[string]column)
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.Table, &c.Name, &c.Required, &c.Kind); err != nil {
			t.Fatal(err)
		}
		c.Kind = kind(t, c.Kind)
		found[c.Table+"."+c.Name] = c
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	makesTable = regexp.MustCompile(`(?ms)^CREATE (?:UNLOGGED )?TABLE (\w+) \((.*?)^\)`)
	isColumn   = regexp.MustCompile(`^    ([a-z_]+)\s+([a-zA-Z]+)(.*)$`)
	addsColumn = regexp.MustCompile(`(?m)^ALTER TABLE (\w+) ADD COLUMN (\w+) ([a-zA-Z]+)(.*);$`)
	dropsTable = regexp.MustCompile(`(?m)^DROP TABLE (\w+);$`)
	dropColumn = regexp.MustCompile(`(?m)^ALTER TABLE (\w+) DROP COLUMN (\w+);$`)
	primaryKey = regexp.MustCompile(`PRIMARY KEY \(([^)]*)\)`)
)

// readFiles reads the columns out of a dialect's migrations: tables are made
// one column a line, and get or lose some, or are dropped, one statement a line.
func readFiles(t *testing.T, dialect string) map[string]column {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dialect, "*.sql"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	found := make(map[string]column)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, table := range makesTable.FindAllStringSubmatch(up, -1) {
			inKey := make(map[string]bool)
			for _, key := range primaryKey.FindAllStringSubmatch(table[2], -1) {
				for part := range strings.SplitSeq(key[1], ", ") {
					inKey[part] = true
				}
			}
			for line := range strings.SplitSeq(table[2], "\n") {
				if m := isColumn.FindStringSubmatch(line); m != nil {
					required := inKey[m[1]] || strings.Contains(m[3], "NOT NULL") || strings.Contains(m[3], "PRIMARY KEY") || m[2] == "serial"
					found[table[1]+"."+m[1]] = column{Table: table[1], Name: m[1], Required: required, Kind: kind(t, m[2])}
				}
			}
		}
		for _, m := range addsColumn.FindAllStringSubmatch(up, -1) {
			found[m[1]+"."+m[2]] = column{Table: m[1], Name: m[2], Required: strings.Contains(m[4], "NOT NULL"), Kind: kind(t, m[3])}
		}
		for _, m := range dropColumn.FindAllStringSubmatch(up, -1) {
			delete(found, m[1]+"."+m[2])
		}
		for _, m := range dropsTable.FindAllStringSubmatch(up, -1) {
			maps.DeleteFunc(found, func(_ string, c column) bool { return c.Table == m[1] })
		}
	}
	return found
}

func kind(t *testing.T, sqlType string) string {
	t.Helper()
	switch word, _, _ := strings.Cut(strings.ToLower(sqlType), " "); word {
	case "text", "jsonb":
		return "text"
	case "bytea", "blob":
		return "bytes"
	case "integer", "serial", "bigint", "smallint", "xid", "xid8", "boolean", "timestamptz", "timestamp":
		return "number" // SQLite has them all as INTEGER
	}
	t.Fatalf("no twin is known for type %q", sqlType)
	return ""
}
