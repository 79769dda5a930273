package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/test/services/reserve"
)

// begin runs a process until the test ends.
func begin(t *testing.T, settings map[string]any) *app.App {
	t.Helper()
	return beginLogging(t, settings, io.Discard)
}

// beginLogging is begin with a log.
func beginLogging(t *testing.T, settings map[string]any, log io.Writer) *app.App {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	all := map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "workflow_store": "none", "executor_url": "http://127.0.0.1:1/",
	}
	for name, value := range settings {
		all[name] = value
	}
	cfg, err := app.Load(fs, all)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: app.NewLogger(log, cfg), Migrate: true, Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func metricsOf(t *testing.T, a *app.App) string {
	t.Helper()
	return textOf(t, a, "/metrics")
}

// textOf is what a process answers at a path.
func textOf(t *testing.T, a *app.App, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + a.HTTPAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAWorkerWithAnUnreachableLauncherIsNotReady(t *testing.T) {
	t.Parallel()
	addr := reserve.Addr(t)
	folder := t.TempDir()
	w := begin(t, map[string]any{"data_dir": folder, "roles": "worker", "launcher_addr": addr})

	var answer map[string]string
	eventually(t, "not ready for want of its launcher", func() bool {
		_, answer = ask(t, w, "/readyz")
		return strings.HasPrefix(answer["launcher"], "failed: cannot reach the launcher at "+addr)
	})
	if code, answer := ask(t, w, "/readyz"); code != http.StatusServiceUnavailable || answer["database"] != "ok" {
		t.Errorf("without a launcher it answers %d %v", code, answer)
	}
	if !strings.Contains(metricsOf(t, w), "carillon_worker_healthy 0") {
		t.Error("the gauge says that it is healthy")
	}
	eventually(t, "it leads all the same, being the only one", func() bool { return strings.Contains(metricsOf(t, w), `carillon_leader{shard="0"} 1`) })

	begin(t, map[string]any{"data_dir": folder, "roles": "launcher", "grpc_addr": addr})
	eventually(t, "ready once the launcher is there", func() bool {
		code, answer := ask(t, w, "/readyz")
		return code == http.StatusOK && answer["launcher"] == "ok"
	})
	if !strings.Contains(metricsOf(t, w), "carillon_worker_healthy 1") {
		t.Error("the gauge says that it is unhealthy")
	}
}

// blockPresence lets no process take its presence lock until unblock: the lock files cannot
// be opened. Each attempt has another number.
func blockPresence(t *testing.T, folder string) (unblock func()) {
	t.Helper()
	var blocked []string
	for no := range 200 {
		path := filepath.Join(folder, fmt.Sprintf("carillon.db.instance-%d", no+1))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		blocked = append(blocked, path)
	}
	return func() {
		for _, path := range blocked {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestALauncherThatCannotTakeItsPresenceLockTellsItsWorkers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	unblock := blockPresence(t, folder)
	launcher := begin(t, map[string]any{"data_dir": folder, "roles": "launcher"})
	worker := begin(t, map[string]any{"data_dir": folder, "roles": "worker", "launcher_addr": launcher.GRPCAddr()})
	registrar := begin(t, map[string]any{"data_dir": folder, "roles": "registrar"})
	eventually(t, "the launcher is not ready, and says why", func() bool {
		_, answer := ask(t, launcher, "/readyz")
		return strings.HasPrefix(answer["launcher"], "failed: cannot take the presence lock: ")
	})
	eventually(t, "its worker is unhealthy", func() bool {
		_, answer := ask(t, worker, "/readyz")
		return strings.HasSuffix(answer["launcher"], " answers NOT_SERVING; its log says why")
	})
	eventually(t, "the list of processes says why", func() bool {
		return strings.Contains(textOf(t, registrar, "/v1/processes"), `"roles":"launcher","started_at":"`) &&
			strings.Contains(textOf(t, registrar, "/v1/processes"), `"unhealthy":"cannot take the presence lock: `)
	})
	unblock()
	eventually(t, "both are ready once it has the lock", func() bool {
		of, _ := ask(t, launcher, "/readyz")
		ofWorker, _ := ask(t, worker, "/readyz")
		return of == http.StatusOK && ofWorker == http.StatusOK
	})
}

func TestAWorkerThatCannotTakeItsPresenceLockIsUnhealthyAndSaysWhy(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	unblock := blockPresence(t, folder)
	a := begin(t, map[string]any{"data_dir": folder, "roles": "worker,launcher"})
	var answer map[string]string
	eventually(t, "not ready, and says why", func() bool {
		_, answer = ask(t, a, "/readyz")
		return strings.HasPrefix(answer["launcher"], "failed: cannot take the presence lock: ")
	})
	metrics := metricsOf(t, a)
	for _, sample := range []string{"carillon_presence_held 0", "carillon_worker_healthy 0", `carillon_leader{shard="0"} 1`} {
		if !strings.Contains(metrics, "\n"+sample+"\n") {
			t.Errorf("the metrics have no sample %s", sample)
		}
	}
	unblock()
	eventually(t, "healthy once it has the lock", func() bool {
		metrics := metricsOf(t, a)
		return strings.Contains(metrics, "\ncarillon_presence_held 1\n") && strings.Contains(metrics, "\ncarillon_worker_healthy 1\n")
	})
}

func TestAServerWithoutTheLauncherRoleIsRefusedAsLauncher(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	reg := begin(t, map[string]any{"data_dir": folder, "roles": "registrar"})
	w := begin(t, map[string]any{"data_dir": folder, "roles": "worker", "launcher_addr": reg.GRPCAddr()})
	eventually(t, "not ready, and says that it was given another server", func() bool {
		_, answer := ask(t, w, "/readyz")
		return strings.Contains(answer["launcher"], reg.GRPCAddr()+" is not a launcher")
	})
}

// A launcher that answers health checks but refuses launches counts as unreachable, so that another
// worker with a valid token can lead.
func TestAWorkerThatItsLauncherRefusesIsNotReady(t *testing.T) {
	t.Parallel()
	database := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
	g := newGuarded(t, map[string]any{"database_url": database, "roles": "registrar,launcher"})
	for _, c := range []struct{ name, token, want string }{
		{name: "no token", want: "does not accept this worker: check LAUNCHER_TOKEN"},
		{name: "a wrong one", token: tokenfile.Prefix + "unheard-of", want: "does not accept this worker: check LAUNCHER_TOKEN"},
		{name: "one of another role", token: g.tokens["compiler"], want: "does not allow this worker to launch"},
		{name: "a worker's", token: g.tokens["worker"], want: "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := begin(t, map[string]any{
				"data_dir": t.TempDir(), "database_url": database, "roles": "worker", "launcher_addr": g.GRPCAddr(), "launcher_token": c.token,
			})
			eventually(t, "readiness says "+c.want, func() bool {
				_, answer := ask(t, w, "/readyz")
				return strings.Contains(answer["launcher"], c.want)
			})
		})
	}
}
