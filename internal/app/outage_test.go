package app_test

import (
	"net/url"
	"runtime"
	"strings"
	"testing"

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

func TestMetricsShowADatabaseThatIsAway(t *testing.T) {
	for name, breakOff := range map[string]func(link *proxy.Link){
		"nothing comes back on open connections": func(link *proxy.Link) { link.Set(proxy.BlackHole) },
		"connections end, and new ones hang": func(link *proxy.Link) {
			link.Set(proxy.BlackHole)
			link.Reset()
		},
	} {
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
