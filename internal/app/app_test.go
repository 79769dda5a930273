package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
)

// ask makes a GET request to a process.
func ask(t *testing.T, a *app.App, path string) (code int, answer map[string]string) {
	t.Helper()
	resp, err := http.Get("http://" + a.HTTPAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// eventually polls until ready has the expected value.
func eventually(t *testing.T, what string, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ready(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestReadyzFailsDuringShutdownWhileCallsAreStillAnswered(t *testing.T) {
	t.Parallel()
	called, release := make(chan struct{}), make(chan struct{})
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(called)
		<-release
		_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
	}))
	defer executor.Close()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "workflow_store": "none", "executor_url": executor.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	eventually(t, "ready", func() bool { code, _ := ask(t, a, "/readyz"); return code == http.StatusOK })
	_, answer := ask(t, a, "/readyz")
	for _, check := range []string{"process", "database", "worker"} {
		if answer[check] != "ok" {
			t.Errorf("ready, but %s is %q", check, answer[check])
		}
	}
	body := `{"schedule_id":"s","workflow_id":"w","version":1,"user_id":"u","interval_ms":1000}`
	resp, err := http.Post("http://"+a.HTTPAddr()+"/v1/schedules", "application/json", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("register: %v %v", resp, err)
	}
	_ = resp.Body.Close()
	<-called

	end()
	eventually(t, "not ready any more", func() bool { code, _ := ask(t, a, "/readyz"); return code != http.StatusOK })
	if _, answer := ask(t, a, "/readyz"); answer["process"] != "failed" || answer["database"] != "ok" {
		t.Errorf("while it ends: %v", answer)
	}
	if code, _ := ask(t, a, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d while a call is open", code)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
