package app_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// startingPostgres forwards to a real server, but hangs up on the first
// connections, as a server does that is still starting.
func startingPostgres(t *testing.T, dsn string, refused int32) string {
	t.Helper()
	target, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	server := target.Host
	var left atomic.Int32
	left.Store(refused)
	go func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			if left.Add(-1) >= 0 {
				_ = client.Close()
				continue
			}
			go forward(client, server)
		}
	}()
	target.Host = lis.Addr().String()
	return target.String()
}

func forward(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address) //nolint:noctx // ends with the connection
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

// databases are those that a process runs on: url is its DATABASE_URL, which makes
// a database of its own for each call.
var databases = []struct {
	name string
	url  func(t *testing.T) string
}{
	{"SQLite", func(*testing.T) string { return "" }},
	{"Postgres", func(t *testing.T) string { return migrated.Postgres(t) }},
}

// onDatabase is a configuration with this DATABASE_URL, read from a file.
func onDatabase(t *testing.T, dsn string) app.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "database-url")
	if err := os.WriteFile(path, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := load(t, "--database-url-file", path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// emptyStore is the migrated database of a configuration.
func emptyStore(t *testing.T, cfg app.Config) app.Store {
	t.Helper()
	store, err := app.OpenStore(t.Context(), cfg, slog.New(slog.DiscardHandler), app.OpenOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestOpeningWaitsForADatabaseThatIsStarting(t *testing.T) {
	t.Parallel()
	dsn := startingPostgres(t, migrated.Postgres(t), 3)
	cfg := onDatabase(t, dsn)
	var log bytes.Buffer
	store, err := app.OpenStore(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)), app.OpenOptions{Wait: time.Minute})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, part := range []string{"waiting for the database", "limit=1m0s", "database reached", strings.TrimPrefix(cfg.DatabaseName(), "Postgres ")} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, &log)
		}
	}
}

func TestOpeningDoesNotWaitForWhatNoWaitingMends(t *testing.T) {
	t.Parallel()
	good := migrated.Postgres(t)
	for _, tt := range []struct {
		name, says string
		change     func(*url.URL)
	}{
		{"an unknown database", "does not exist", func(u *url.URL) { u.Path = "/no_such_database" }},
		{"an unknown user", "", func(u *url.URL) { u.User = url.UserPassword("no_such_user", "x") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(good)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(u)
			cfg := onDatabase(t, u.String())
			var log bytes.Buffer
			// An hour: the test's own timeout would end it first.
			_, err = app.OpenStore(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)), app.OpenOptions{Wait: time.Hour})
			if err == nil || !strings.Contains(err.Error(), tt.says) || log.Len() > 0 {
				t.Errorf("err = %v, log = %s", err, &log)
			}
		})
	}
}

func TestWaitingForADatabaseEndsAndSaysWhichSettingBoundsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// No server listens on port 1, and nothing leaves the bubble's clock behind:
		// the connection is refused at once.
		cfg := onDatabase(t, "postgres://ada:s3cret@127.0.0.1:1/carillon")
		var log bytes.Buffer
		began := time.Now()
		_, err := app.OpenStore(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)), app.OpenOptions{Wait: 30 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "Postgres 127.0.0.1:1/carillon cannot be reached after 30s (DATABASE_WAIT_MS)") || strings.Contains(err.Error()+log.String(), "s3cret") {
			t.Errorf("err = %v, log = %s", err, &log)
		}
		if waited := time.Since(began); waited < 20*time.Second || waited > 34*time.Second { // one wait of up to 3 s may begin just before the limit
			t.Errorf("it waited %s, want about 30 s", waited)
		}
		if lines := strings.Count(log.String(), "waiting for the database"); lines < 4 || lines > 7 {
			t.Errorf("%d lines of progress, want one every 5 s:\n%s", lines, &log)
		}
	})
}

func TestNobodyCreatesASQLiteFileUnasked(t *testing.T) {
	t.Chdir(t.TempDir())
	quiet := slog.New(slog.DiscardHandler)
	cfg, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"migrate": func() error { _, err := app.Migrate(t.Context(), cfg, quiet, nil); return err },
		"serve": func() error {
			_, err := app.New(t.Context(), cfg, app.Options{Logger: quiet, Migrate: true})
			return err
		},
		"doctor and shards": func() error {
			_, err := app.OpenStore(t.Context(), cfg, quiet, app.OpenOptions{})
			return err
		},
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%s: %v, want a hint at DATABASE_URL", name, err)
		}
	}
	if found, _ := filepath.Glob(".carillon/carillon.db*"); len(found) > 0 {
		t.Errorf("%v were created", found)
	}
	chosen, err := load(t, "--data-dir", filepath.Join(t.TempDir(), "chosen"))
	if err != nil {
		t.Fatal(err)
	}
	if applied, err := app.Migrate(t.Context(), chosen, quiet, nil); err != nil || applied == 0 {
		t.Errorf("in a chosen DATA_DIR: %d migrations, %v", applied, err)
	}
	if _, err := os.Stat(filepath.Join(chosen.DataDir, "carillon.db")); err != nil {
		t.Error(err)
	}
}
