package deploy_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// site is a deployment at work, whose figures the tests read.
type site struct {
	apps []*app.App
}

// newSite starts all roles in one process, and, where there are servers, a second
// deployment on Postgres whose launches go through a queue. Between them every figure that
// is there without a fault shows itself.
func newSite(t *testing.T) *site {
	t.Helper()
	executor := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(executor.Close)
	s := &site{}
	s.start(t, executor.URL, nil)
	if os.Getenv("TEST_REDIS_URL") != "" || os.Getenv("REQUIRE_SERVICES") == "1" {
		s.start(t, executor.URL, map[string]any{"launch_queue": "redis", "redis_url": services.Redis(t), "database_url": migrated.Postgres(t)})
	}
	for _, a := range s.apps {
		for _, workflow := range []string{"succeeds", "fails", "is-refused", "goes-on", "breaks-off"} {
			post(t, a, "/v1/schedules", `{"schedule_id":"`+workflow+`","workflow_id":"`+workflow+`","version":1,"user_id":"u","interval_ms":1000}`)
		}
		post(t, a, "/v1/schedules/succeeds:trigger", `{"overlap_policy":"allow"}`)
		send(t, a, http.MethodPut, "/v1/queues/promised", `{"user_id":"u","expect":{"wait_within_ms":60000,"dead_at_most":0}}`)
		for range 2 { // the first stays with the executor, the other waits
			post(t, a, "/v1/queues/default/runs", `{"workflow_id":"goes-on","version":1,"user_id":"u"}`)
		}
	}
	return s
}

// answer is an executor that does what the workflow's name says.
func answer(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/") {
	case "succeeds":
		_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
	case "fails":
		_, _ = io.WriteString(w, `{"run_id":"r","status":"FAILED","error_code":"broken"}`)
	case "is-refused":
		w.WriteHeader(http.StatusForbidden)
	case "goes-on": // and never reports: its next slot is skipped for overlap
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"run_id":"r"}`)
	case "breaks-off":
		panic(http.ErrAbortHandler)
	}
}

func (s *site) start(t *testing.T, executor string, more map[string]any) {
	t.Helper()
	settings := map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "workflow_store": "none",
		"executor_url": executor + "/{workflow_id}", "environment": "test",
	}
	for name, value := range more {
		settings[name] = value
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, settings)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(func() {
		end()
		running.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	s.apps = append(s.apps, a)
}

func post(t *testing.T, a *app.App, path, body string) {
	t.Helper()
	send(t, a, http.MethodPost, path, body)
}

func send(t *testing.T, a *app.App, method, path, body string) {
	t.Helper()
	eventually(t, method+" "+path, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.HTTPAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s answers %d: %s", method, path, resp.StatusCode, text)
		}
		return true
	})
}

// get reads one page whole.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// scrapes are what the processes show, each by itself.
func (s *site) scrapes(t *testing.T) []string {
	t.Helper()
	var texts []string
	for _, a := range s.apps {
		texts = append(texts, get(t, "http://"+a.HTTPAddr()+"/metrics"))
	}
	return texts
}

// work waits until every workflow has run, and one was skipped.
func (s *site) work(t *testing.T) {
	t.Helper()
	done := []string{
		`carillon_runs_succeeded_total [1-9]`, `carillon_runs_failed_total{reason="workflow_failed"} [1-9]`,
		`carillon_runs_failed_total{reason="launch_refused"} [1-9]`, `carillon_runs_skipped_total{reason="overlap"} [1-9]`,
		`carillon_runs_emitted_total{trigger="manual"} [1-9]`, `carillon_clock_skew_seconds`,
		`carillon_executor_call_seconds_count{executor="http",outcome="unknown"} [1-9]`,
		`carillon_queue_waiting{queue="default"} 1`, `carillon_queue_blocked_total{why="full"} [1-9]`,
	}
	for i := range s.apps {
		for _, line := range done {
			eventually(t, line, func() bool { return matches(line, s.scrapes(t)[i]) })
		}
	}
	for i, a := range s.apps { // what ends by a report is counted where that arrives
		post(t, a, "/v1/runs/"+inFlight(t, a)+":report", `{"status":"FAILED","error_code":"lost"}`)
		eventually(t, "the reported end is counted", func() bool { return matches(`carillon_runs_failed_total{reason="lost"} 1`, s.scrapes(t)[i]) })
	}
}

// inFlight is the key of the run that its executor has accepted.
func inFlight(t *testing.T, a *app.App) (key string) {
	t.Helper()
	eventually(t, "a run goes on", func() bool {
		var page struct {
			Runs []struct {
				Key string `json:"idempotency_key"`
			} `json:"runs"`
		}
		text := get(t, "http://"+a.HTTPAddr()+"/v1/schedules/goes-on/runs?status=ENQUEUED")
		if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Runs) == 0 {
			return false
		}
		key = page.Runs[0].Key
		return true
	})
	return key
}

// eventually asks again until it is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
