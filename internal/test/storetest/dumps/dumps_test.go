// Package dumps_test holds a dump of each database and the answers of every reader.
// The dumps have schema version 26, with one wide table for all runs. A later
// version must migrate such a database and give the same answers.
//
// The product itself makes the dumps: 35 schedules and three days on a virtual
// clock (world_test.go and script_test.go). Delete these files when the product no
// longer writes version 26, and keep the dumps, the answers and the readers.
package dumps_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/pressly/goose/v3"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/schema"
)

var update = flag.Bool("update", false, "make the dumps and the recorded answers again")

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
	Migrate(ctx context.Context) (int, error)
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
	return goose.NewProvider(d, db, os.DirFS(filepath.Join("../../../../schema", folder)), goose.WithAllowOutofOrder(true))
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

// A dump is migrated up, down and up again, and then read.
func TestAMigratedDumpGivesTheRecordedAnswers(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the dumps are being made")
	}
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			dump := readFile(t, name+".sql.gz")
			d.load(t, d.db, dump)
			d.upgrade(t)
			d.downgrade(t)
			compare(t, name+".sql.gz, up and down again", dump, d.dump(t, d.db))
			d.upgrade(t)
			compare(t, "answers.txt", readFile(t, "answers.txt"), read(t, d))
		})
	}
}

// The same calls on both databases lead to the same answers. With -update they
// become the dumps and the recorded answers.
func TestBothDatabasesAnswerTheSameOfOneWorld(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	said := make(map[string]string)
	t.Run("stored", func(t *testing.T) {
		for name, open := range databases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := open(t)
				d.upgrade(t)
				if version := rows(t.Context(), t, d.db, versionQuery, 1)[0][0]; *update && version != strconv.Itoa(dumped) {
					t.Fatalf("the dumps are of version %d, and this revision writes version %s", dumped, version)
				}
				d.setClocks(t, fill(t, d))
				holdsEverything(t, d)
				if *update {
					writeFile(t, name+".sql.gz", d.dump(t, d.db))
				}
				answers := read(t, d)
				mu.Lock()
				defer mu.Unlock()
				said[name] = answers
			})
		}
	})
	if *update {
		writeFile(t, "answers.txt", said["sqlite"])
	}
	if said["postgres"] != "" && said["sqlite"] != "" { // without a server there is one
		compare(t, "sqlite", said["sqlite"], said["postgres"])
	}
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
	p, err := migrations(d.db, engine, string(d.name))
	if err == nil {
		_, err = p.DownTo(t.Context(), dumped)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// setClocks replaces times of the machine's clock with times of the virtual clock, in
// leaders, terms, workers and processes.
func (d *database) setClocks(t testing.TB, terms []term) {
	t.Helper()
	for _, set := range []string{"leaders SET expires_at", "workers SET seen_at", "processes SET seen_at"} {
		exec(t, d.db, "UPDATE "+set+" = "+d.instant(end))
	}
	for _, term := range terms {
		exec(t, d.db, fmt.Sprintf("UPDATE leader_terms SET started_at = %s, ended_at = %s WHERE epoch = %d", d.instant(term.began), d.instant(term.ended), term.epoch))
	}
}

// instant is an instant as the database keeps it; zero is NULL.
func (d *database) instant(at time.Time) string {
	switch {
	case at.IsZero():
		return "NULL"
	case d.name == schema.SQLite:
		return strconv.FormatInt(at.UnixMicro(), 10)
	}
	return "'" + at.Format(time.RFC3339Nano) + "'"
}

// holdsEverything fails unless the world has runs of every kind.
func holdsEverything(t testing.TB, store storetest.Store) {
	t.Helper()
	runs, err := store.ListRuns(t.Context(), schedule.RunFilter{Now: far, Statuses: schedule.Statuses, Limit: page})
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for i := range runs {
		r := &runs[i]
		has["status "+string(r.Status)], has["reason "+string(r.Reason)], has["trigger "+string(r.Trigger)] = true, true, true
		has["policy "+string(r.OverlapPolicy)] = true
		has["waits"] = has["waits"] || !r.WaitingSince.IsZero() && r.Status == schedule.StatusPlanned
		has["cancel asked in flight"] = has["cancel asked in flight"] || r.Status.InFlight() && !r.CancelRequestedAt.IsZero()
		has["retrying"] = has["retrying"] || r.Retrying()
		has["judged"] = has["judged"] || !r.JudgedAt.IsZero()
	}
	var want []string
	for _, s := range schedule.Statuses {
		want = append(want, "status "+string(s))
	}
	for _, r := range schedule.Reasons {
		want = append(want, "reason "+string(r))
	}
	for _, r := range schedule.Triggers {
		want = append(want, "trigger "+string(r))
	}
	for _, p := range schedule.OverlapPolicies {
		want = append(want, "policy "+string(p))
	}
	for _, what := range append(want, "waits", "judged", "retrying", "cancel asked in flight") {
		if !has[what] {
			t.Errorf("of %d runs none is or has: %s", len(runs), what)
		}
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

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	content := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		content = packed.Bytes()
	}
	if err := os.WriteFile(filepath.Join("testdata", name), content, 0o644); err != nil {
		t.Fatal(err)
	}
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
