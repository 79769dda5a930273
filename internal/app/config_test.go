package app_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
)

func load(t *testing.T, args ...string) (app.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return app.Load(fs, map[string]any{"executor": "local"})
}

func TestPrecedenceIsFlagEnvironmentFileDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "carillon.yaml")
	if err := os.WriteFile(file, []byte("tick_ms: 100\nlookahead_ms: 2000\nretention_days: 40\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TICK_MS", "200")
	t.Setenv("LOOKAHEAD_MS", "3000")
	cfg, err := load(t, "--config", file, "--tick-ms", "300")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.TickMS != 300 || cfg.LookaheadMS != 3000 || cfg.RetentionDays != 40 || cfg.MaxCatchupPerTick != 100 || cfg.Executor != "local" {
		t.Errorf("flag %d, environment %d, file %d, default %d, command %s; want 300, 3000, 40, 100, local",
			cfg.TickMS, cfg.LookaheadMS, cfg.RetentionDays, cfg.MaxCatchupPerTick, cfg.Executor)
	}
}

func TestInvalidSettingsAreRefusedWithNameValueAndBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"below the bound", map[string]string{"TICK_MS": "10"}, []string{"TICK_MS: 10 is not within 50 to 10000"}},
		{"over the bound", map[string]string{"LOOKAHEAD_MS": "600001"}, []string{"LOOKAHEAD_MS: 600001 is not within 1000 to 600000"}},
		{"no number", map[string]string{"SHARDS": "1", "MAX_LAUNCHES": "many"}, []string{`MAX_LAUNCHES: "many" is not a whole number`}},
		{"another word", map[string]string{"DEFAULT_OVERLAP_POLICY": "wait"}, []string{`DEFAULT_OVERLAP_POLICY: "wait" is not one of allow`}},
		{"an unknown role", map[string]string{"ROLES": "worker,launcher,cook"}, []string{`ROLES: "cook" is not one of`}},
		{"a worker without a launcher", map[string]string{"ROLES": "worker"}, []string{"LAUNCHER_ADDR: is required"}},
		{"a worker with a queue and no Redis", map[string]string{"ROLES": "worker", "LAUNCH_QUEUE": "redis"}, []string{"REDIS_URL: is required for LAUNCH_QUEUE=redis"}},
		{"a queue of another kind", map[string]string{"LAUNCH_QUEUE": "kafka"}, []string{`LAUNCH_QUEUE: "kafka" is not one of none, redis`}},
		{"a launcher without a port", map[string]string{"ROLES": "worker", "LAUNCHER_ADDR": "launcher"}, []string{`LAUNCHER_ADDR: "launcher" is not host:port`}},
		{"a launcher with a scheme", map[string]string{"LAUNCHER_ADDR": "http://launcher:9090"}, []string{`LAUNCHER_ADDR: "http://launcher:9090" is not host:port`}},
		{"a launcher nowhere", map[string]string{"LAUNCHER_ADDR": ":9090"}, []string{`LAUNCHER_ADDR: ":9090" is not host:port`}},
		{"a launcher at no port", map[string]string{"LAUNCHER_ADDR": "launcher:99999"}, []string{`LAUNCHER_ADDR: "launcher:99999" is not host:port`}},
		{"no executor to call", map[string]string{"EXECUTOR": "http"}, []string{"EXECUTOR_URL: is required for EXECUTOR=http"}},
		{"more shards than may be", map[string]string{"SHARDS": "65"}, []string{"SHARDS: 65 is not within 1 to 64"}},
		{"a lock on Redis without Redis", map[string]string{"LEADER_LOCK": "redis"}, []string{"REDIS_URL: is required for LEADER_LOCK=redis"}},
		{"a Redis that is none", map[string]string{"REDIS_URL": "http://u:secret@x"}, []string{"REDIS_URL: starts with none of redis://"}},
		{"an egress that is no place", map[string]string{"ALLOW_EGRESS": "loopback,10.0.0.0/33"}, []string{`ALLOW_EGRESS: "10.0.0.0/33" is not a destination; write loopback`}},
		{"an environment with a space", map[string]string{"ENVIRONMENT": "my prod"}, []string{`ENVIRONMENT: "my prod" is not a name: 1 to 32 of A–Z a–z 0–9 . _ -`}},
		{"an environment that is too long", map[string]string{"ENVIRONMENT": strings.Repeat("p", 33)}, []string{"ENVIRONMENT: "}},
		{"an unknown database", map[string]string{"DATABASE_URL": "mysql://x"}, []string{"DATABASE_URL: starts with neither"}},
		{
			"everything at once",
			map[string]string{"TICK_MS": "1", "RETENTION_DAYS": "1", "HTTP_ADDR": "8080"},
			[]string{"TICK_MS: 1 is", "RETENTION_DAYS: 1 is not within 30", `HTTP_ADDR: "8080" is not host:port`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, err := load(t)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v; want it to say %q", err, want)
				}
			}
		})
	}
}

// The registrar sets plan_at of a schedule by this bound.
func TestLookaheadIsAtMostTheBoundThatTheRegistrarUses(t *testing.T) {
	t.Parallel()
	for _, s := range app.Settings() {
		if want := fmt.Sprintf("1000 to %d", schedule.MaxLookahead.Milliseconds()); s.Name == "LOOKAHEAD_MS" && s.Bounds != want {
			t.Errorf("LOOKAHEAD_MS is within %s, want %s", s.Bounds, want)
		}
	}
}

func TestAWorkerWithALaunchQueueNeedsNoLauncherAddress(t *testing.T) {
	t.Setenv("ROLES", "worker")
	t.Setenv("LAUNCH_QUEUE", "redis")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:6379/3")
	if _, err := load(t); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatBelongTogetherAreAccepted(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
	}{
		{name: "a launcher by name", env: map[string]string{"ROLES": "worker", "LAUNCHER_ADDR": "launcher.internal:9090"}},
		{name: "a launcher by number", env: map[string]string{"ROLES": "worker", "LAUNCHER_ADDR": "[::1]:9090"}},
		{name: "a lock on Redis over SQLite", env: map[string]string{"LEADER_LOCK": "redis", "REDIS_URL": "redis://127.0.0.1:6379/0"}},
		{name: "a queue on Redis over SQLite", env: map[string]string{"LAUNCH_QUEUE": "redis", "REDIS_URL": "redis://127.0.0.1:6379/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			if _, err := load(t); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnUnknownSettingInTheFileIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "carillon.yaml")
	if err := os.WriteFile(file, []byte("tick: 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, "--config", file); err == nil || !strings.Contains(err.Error(), `"tick" is not a setting`) {
		t.Errorf("error is %v", err)
	}
}

func TestSettingsFileAcceptsYAMLValues(t *testing.T) {
	for _, c := range []struct {
		name, text string
		env        map[string]string
		tick       int
		addr, dir  string
		problem    string
	}{
		{name: "an empty file leaves the defaults", text: "", tick: 1000, addr: "127.0.0.1:8080", dir: "./.carillon"},
		{name: "numbers and text", text: "tick_ms: 1_500\nhttp_addr: 127.0.0.1:0\ndata_dir: 7\n", tick: 1500, addr: "127.0.0.1:0", dir: "7"},
		{name: "a number in quotes, with spaces", text: "tick_ms: \" 1500 \"\n", tick: 1500, addr: "127.0.0.1:8080", dir: "./.carillon"},
		{name: "nothing overrides the default", text: "data_dir:\n", tick: 1000, addr: "127.0.0.1:8080", dir: ""},
		{name: "nothing is no number", text: "tick_ms:\n", problem: `TICK_MS: "" is not a whole number`},
		{name: "the environment wins, also when it is empty", text: "tick_ms: 1500\n", env: map[string]string{"TICK_MS": ""}, problem: `TICK_MS: "" is not a whole number`},
		{name: "names in lower case do nothing in the environment", text: "tick_ms: 1500\n", env: map[string]string{"tick_ms": "60"}, tick: 1500, addr: "127.0.0.1:8080", dir: "./.carillon"},
		{name: "settings that are nested", text: "tick_ms: 1500\nhttp:\n  tls:\n    addr: x\n", problem: `"http.tls.addr" is not a setting`},
		{name: "of several unknown ones the first by name", text: "zeal: 1\ntick: 2\n", problem: `"tick" is not a setting`},
		{name: "a word for a number", text: "tick_ms: often\n", problem: `TICK_MS: "often" is not a whole number`},
		{name: "no YAML", text: "tick_ms: [1\n", problem: "read settings from "},
		{name: "a list of settings", text: "- tick_ms: 1\n", problem: "read settings from "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			file := filepath.Join(t.TempDir(), "carillon.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := load(t, "--config", file)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error is %v; want it to say %q", err, c.problem)
				}
				return
			}
			if err != nil || cfg.TickMS != c.tick || cfg.HTTPAddr != c.addr || cfg.DataDir != c.dir {
				t.Errorf("TICK_MS %d, HTTP_ADDR %q, DATA_DIR %q, %v; want %d, %q, %q", cfg.TickMS, cfg.HTTPAddr, cfg.DataDir, err, c.tick, c.addr, c.dir)
			}
		})
	}
	if _, err := load(t, "--config", filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "read settings from ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestDataDirWithAccessForOtherUsersIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, holds, says string
	}{
		{"an empty one", "", ""},
		{"one of an earlier start", "carillon.db", ""},
		{"one with other things", "photos", "DATA_DIR: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.holds != "" {
				if err := os.WriteFile(filepath.Join(dir, c.holds), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "config.yaml"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			cfg, err := load(t, "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			a, err := app.New(t.Context(), cfg, app.Options{Migrate: true, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				defer a.Close()
			}
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says+dir+" is open to other users (mode 0755)") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
