// Package dumps_test holds a dump of each database and the answers of every reader.
// The dumps have schema version 26, from before the leader judged in memory. This
// version must migrate such a database and give the same answers. They were made by
// the product of that version: 35 schedules and three days on a virtual clock, with
// runs of every status, reason, trigger and policy.
package dumps_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/pressly/goose/v3"

	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/schema"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// dumped is the schema version of the dumps.
const dumped = 26

// database is one store, at the version of the dumps, and a plain connection to its
// database.
type database struct {
	store
	*dialect
	db *sql.DB
}

type store interface {
	storetest.Store
	Migrate(ctx context.Context, progress ...schema.Progress) (int, error)
}

var databases = map[string]func(testing.TB) database{
	"postgres": func(t testing.TB) database {
		url := services.Postgres(t, migrateToDump)
		s, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		return opened(t, s, &postgresDialect, "pgx", withUTC(url))
	},
	"sqlite": func(t testing.TB) database {
		path := filepath.Join(t.TempDir(), "carillon.db")
		s, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: mute})
		if err != nil {
			t.Fatal(err)
		}
		d := opened(t, s, &sqliteDialect, "sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
		if err := upTo(t.Context(), d.db, goose.DialectSQLite3, "sqlite"); err != nil {
			t.Fatal(err)
		}
		return d
	},
}

func migrateToDump(ctx context.Context, url string) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return upTo(ctx, db, goose.DialectPostgres, "postgres")
}

// upTo migrates an empty database to the version of the dumps.
func upTo(ctx context.Context, db *sql.DB, d goose.Dialect, folder string) error {
	p, err := migrations(db, d, folder)
	if err == nil {
		_, err = p.UpTo(ctx, dumped)
	}
	return err
}

func migrations(db *sql.DB, d goose.Dialect, folder string) (*goose.Provider, error) {
	return goose.NewProvider(d, db, os.DirFS(filepath.Join("../../../../schema", folder, "bridge")), goose.WithAllowOutofOrder(true))
}

// withUTC sets the time zone in which Postgres writes instants.
func withUTC(url string) string {
	if strings.Contains(url, "?") {
		return url + "&timezone=UTC"
	}
	return url + "?timezone=UTC"
}

func opened(t testing.TB, s store, d *dialect, driver, dsn string) database {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return database{s, d, db}
}

// forget clears what later tables do not keep: judged_at, and the columns of a run that
// is over which only say how it once waited. A LAUNCHING run counts the calls that the
// record of its key counted.
const forget = `UPDATE schedule_runs SET judged_at = NULL,
	waiting_since = CASE WHEN status NOT IN ('SUCCESS','FAILED','SKIPPED','CANCELLED') THEN waiting_since END,
	claimed_until = CASE WHEN status NOT IN ('SUCCESS','FAILED','SKIPPED','CANCELLED') THEN claimed_until END,
	deliveries = CASE WHEN status = 'LAUNCHING' THEN coalesce((SELECT CASE WHEN e.sent THEN e.calls ELSE 0 END FROM execution_requests e
		WHERE e.idempotency_key = schedule_runs.idempotency_key), deliveries) ELSE deliveries END`

// A dump is migrated up, down and up again, and then read.
func TestAMigratedDumpGivesTheRecordedAnswers(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			dump := readFile(t, name+".sql.gz")
			d.load(t, d.db, dump)
			exec(t, d.db, forget)
			dump = d.dump(t, d.db)
			d.upgrade(t)
			d.downgrade(t)
			compare(t, name+".sql.gz, up and down again", withoutKeys(dump), withoutKeys(d.dump(t, d.db)))
			d.upgrade(t)
			compare(t, "answers.txt", readFile(t, "answers.txt"), read(t, d))
		})
	}
}

// withoutKeys is a dump without the records of keys: only those that are needed come back
// on the way down, with other hashes.
func withoutKeys(dump string) string {
	const insert = "INSERT INTO "
	kept := strings.Split(dump, "\n"+insert)
	kept = slices.DeleteFunc(kept, func(rows string) bool { return strings.HasPrefix(rows, "execution_requests ") })
	return strings.Join(kept, "\n"+insert)
}

// upgrade brings the database to the version of this binary.
func (d *database) upgrade(t testing.TB) {
	t.Helper()
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// downgrade takes it back to the version of the dumps.
func (d *database) downgrade(t testing.TB) {
	t.Helper()
	engine := goose.DialectPostgres
	if d.name == schema.SQLite {
		engine = goose.DialectSQLite3
	}
	err := schema.Down(t.Context(), d.db, d.name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := migrations(d.db, engine, string(d.name))
	if err == nil {
		_, err = p.DownTo(t.Context(), dumped)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil && strings.HasSuffix(name, ".gz") {
		var unpacked *gzip.Reader
		if unpacked, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(unpacked)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compare fails at the first lines that differ.
func compare(t testing.TB, name, wanted, got string) {
	t.Helper()
	want, have := strings.Split(wanted, "\n"), strings.Split(got, "\n")
	shown := 0
	for i := range max(len(want), len(have)) {
		w, h := lineOf(want, i), lineOf(have, i)
		if w == h {
			continue
		}
		if shown++; shown > 10 {
			t.Errorf("%s: and more", name)
			return
		}
		from, about := cutTo(w, h)
		t.Errorf("%s, line %d, from byte %d:\nwant %s\ngot  %s\nof   %.80s", name, i+1, from, about[0], about[1], w)
	}
}

// cutTo cuts two lines to where they begin to differ.
func cutTo(a, b string) (from int, about [2]string) {
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	from = max(0, from-40)
	for i, line := range []string{a, b} {
		about[i] = line[from:min(len(line), from+160)]
	}
	return from, about
}

func lineOf(lines []string, i int) string {
	if i >= len(lines) {
		return "(nothing)"
	}
	return lines[i]
}
