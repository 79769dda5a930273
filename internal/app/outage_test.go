package app_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/chaos/proxy"
	"github.com/carillon/carillon/internal/testservices/migrated"
)

// cutOff is the DSN of a Postgres that is reached through the link only.
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

func TestMetricsShowTheBuildAndADatabaseThatAnswers(t *testing.T) {
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

// outages are the ways in which a database goes away.
var outages = map[string]func(link *proxy.Link){
	"nothing comes back on open connections": func(link *proxy.Link) { link.Set(proxy.BlackHole) },
	"connections end, and new ones hang": func(link *proxy.Link) {
		link.Set(proxy.BlackHole)
		link.Reset()
	},
}

func TestMetricsShowADatabaseThatIsAway(t *testing.T) {
	for name, breakOff := range outages {
		t.Run(name, func(t *testing.T) {
			dsn, link := cutOff(t)
			a := begin(t, map[string]any{"data_dir": t.TempDir(), "database_url": dsn})
			breakOff(link)
			eventually(t, "it is away", func() bool { return strings.Contains(metricsOf(t, a), "\ncarillon_database_up 0\n") })
			link.Set(proxy.Pass)
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

func TestOneOutageOfTheDatabaseIsOneErrorAndOneLineWhenItIsBack(t *testing.T) {
	for name, breakOff := range outages {
		t.Run(name, func(t *testing.T) {
			dsn, link := cutOff(t)
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
			a := beginLogging(t, map[string]any{"data_dir": t.TempDir(), "database_url": dsn, "log_level": "debug", "leader_ttl_ms": 2000}, log)
			eventually(t, "it leads", func() bool { return strings.Contains(metricsOf(t, a), "carillon_leader{shard=\"0\"} 1") })
			before := time.Now()
			breakOff(link)
			eventually(t, "three components' lines are at debug", func() bool {
				messages := make(map[any]bool)
				for _, line := range having("DEBUG", "") {
					if line["err"] != nil {
						messages[line["msg"]] = true
					}
				}
				return len(messages) >= 3
			})
			link.Set(proxy.Pass)
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
