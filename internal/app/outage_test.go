package app_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/proxy"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// cutOff is the DSN of a Postgres behind the link.
func cutOff(t *testing.T) (dsn string, link *proxy.Link) {
	t.Helper()
	u, err := url.Parse(migrated.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	if link, err = proxy.New(u.Host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	u.Host = link.Addr()
	return u.String(), link
}

func TestMetricsShowTheBuildAndAnAvailableDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings func(t *testing.T) map[string]any
	}{
		{"on SQLite", func(t *testing.T) map[string]any { return map[string]any{"data_dir": t.TempDir()} }},
		{"on Postgres", func(t *testing.T) map[string]any {
			dsn, _ := cutOff(t)
			return map[string]any{"data_dir": t.TempDir(), "database_url": dsn}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := begin(t, c.settings(t))
			eventually(t, "the database is up", func() bool { return strings.Contains(metricsOf(t, a), "\ncarillon_database_up 1\n") })
			if want := `carillon_build_info{go_version="` + runtime.Version() + `",version="v1.2.3"} 1`; !strings.Contains(metricsOf(t, a), want) {
				t.Errorf("/metrics lacks %s", want)
			}
		})
	}
}

// outage makes a database unavailable and available again.
type outage struct {
	name string
	of   func(t *testing.T) (settings map[string]any, begin, end func())
}

func outages() []outage {
	onPostgres := func(breakOff func(link *proxy.Link)) func(t *testing.T) (map[string]any, func(), func()) {
		return func(t *testing.T) (map[string]any, func(), func()) {
			t.Helper()
			dsn, link := cutOff(t)
			return map[string]any{"data_dir": t.TempDir(), "database_url": dsn},
				func() { breakOff(link) }, func() { link.Set(proxy.Pass) }
		}
	}
	return []outage{
		{"nothing comes back on open connections", onPostgres(func(link *proxy.Link) { link.Set(proxy.BlackHole) })},
		{"connections end, and new ones hang", onPostgres(func(link *proxy.Link) {
			link.Set(proxy.BlackHole)
			link.Reset()
		})},
		{"another process holds SQLite's lock", lockedFile},
		{"the SQLite file is moved", movedFile},
	}
}

func lockedFile(t *testing.T) (settings map[string]any, begin, end func()) {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "carillon.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var tx *sql.Tx
	return map[string]any{"data_dir": dir}, func() {
			if tx, err = db.BeginTx(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
}

func movedFile(t *testing.T) (settings map[string]any, begin, end func()) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "carillon.db")
	move := func(from, to string) func() {
		return func() {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	return map[string]any{"data_dir": dir}, move(path, path+".moved"), move(path+".moved", path)
}

func TestMetricsShowAnUnavailableDatabase(t *testing.T) {
	t.Parallel()
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			settings, breakOff, mend := o.of(t)
			a := begin(t, settings)
			breakOff()
			eventually(t, "it is away", func() bool { return strings.Contains(metricsOf(t, a), "\ncarillon_database_up 0\n") })
			mend()
			eventually(t, "it is back", func() bool { return strings.Contains(metricsOf(t, a), "\ncarillon_database_up 1\n") })
		})
	}
}

// logLines reads a log in JSON: level, message, and all fields.
func logLines(t *testing.T, text string) (lines []map[string]any) {
	t.Helper()
	for raw := range strings.Lines(text) {
		var line map[string]any
		if err := json.Unmarshal([]byte(raw), &line); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestADatabaseOutageLogsOneErrorAndOneRecovery(t *testing.T) {
	t.Parallel()
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			settings, breakOff, mend := o.of(t)
			settings["log_level"] = "debug"
			settings["leader_ttl_ms"] = 5000 // longer than a locked file is tolerated
			var out bytes.Buffer
			log := &locked{w: &out}
			read := func() []map[string]any {
				log.mu.Lock()
				defer log.mu.Unlock()
				return logLines(t, out.String())
			}
			having := func(level, message string) (found []map[string]any) {
				for _, line := range read() {
					if line["level"] == level && (message == "" || line["msg"] == message) {
						found = append(found, line)
					}
				}
				return found
			}
			before := time.Now() // a check that began before the outage may be the one that finds it
			a := beginLogging(t, settings, log)
			eventually(t, "it leads", func() bool { return strings.Contains(metricsOf(t, a), "carillon_leader{shard=\"0\"} 1") })
			breakOff()
			eventually(t, "three components' lines are at debug", func() bool {
				messages := make(map[any]bool)
				for _, line := range having("DEBUG", "") {
					if line["err"] != nil {
						messages[line["msg"]] = true
					}
				}
				return len(messages) >= 3
			})
			mend()
			eventually(t, "it leads again", func() bool {
				return len(having("INFO", "database available again")) > 0 && strings.Contains(metricsOf(t, a), "carillon_leader{shard=\"0\"} 1")
			})
			back := having("INFO", "database available again")
			away, err := time.ParseDuration(back[0]["away_for"].(string))
			if err != nil || len(back) != 1 || away <= 0 || away > time.Since(before) {
				t.Errorf("%d lines that it is back, away for %s (%v)", len(back), away, err)
			}
			loud := slices.Concat(having("ERROR", ""), having("WARN", ""))
			loud = slices.DeleteFunc(loud, func(line map[string]any) bool { return line["err"] == nil })
			if len(loud) != 1 || loud[0]["msg"] != "database unavailable" || loud[0]["level"] != "ERROR" || loud[0]["database"] == nil {
				t.Errorf("%d lines tell of an error, want one: %v", len(loud), loud)
			}
		})
	}
}
