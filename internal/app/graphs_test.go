package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
)

// graphExecutor answers every run with SUCCESS and records the requests.
type graphExecutor struct {
	mu    sync.Mutex
	calls []map[string]any
}

func (e *graphExecutor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call map[string]any
	_ = json.NewDecoder(r.Body).Decode(&call)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, call)
	_, _ = io.WriteString(w, `{"run_id":"r-1","status":"SUCCESS","trace_id":"t-1"}`)
}

func (e *graphExecutor) called() []map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// serveApp runs a process with the settings until the end of the test.
func serveApp(t *testing.T, settings map[string]any) *app.App {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	all := map[string]any{"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir()}
	for name, value := range settings {
		all[name] = value
	}
	cfg, err := app.Load(fs, all)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		end()
		running.Wait()
		_ = a.Close()
	})
	return a
}

func send(t *testing.T, a *app.App, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func TestAGraphRunLoadsItsWorkflowFromTheBucket(t *testing.T) {
	t.Parallel()
	e, folder := &graphExecutor{}, t.TempDir()
	executor := httptest.NewServer(e)
	t.Cleanup(executor.Close)
	const token = "a token that is long enough"
	a := serveApp(t, map[string]any{
		"executor_url": executor.URL, "internal_api_token": token, "workflow_store": "blob", "workflow_blob_url": "file://" + folder,
	})
	if code, text := send(t, a, http.MethodPut, "/v1/workflows/report/versions/3", `{"dag": {"steps": [9007199254740993]}}`); code != http.StatusOK {
		t.Fatalf("put: %d %s", code, text)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "report", "3.json")); string(text) != `{"steps": [9007199254740993]}` {
		t.Errorf("the bucket holds %q, %v", text, err)
	}
	if code, text := send(t, a, http.MethodPut, "/v1/workflows/report/versions/3", `{"dag": {"steps": []}}`); code != http.StatusConflict {
		t.Errorf("another DAG of the version: %d %s", code, text)
	}
	grant := `{"grant_id":"g","user_id":"ada","billing_account_id":"b","scopes":["graph:execute:report"]}`
	if code, text := send(t, a, http.MethodPost, "/v1/grants", grant); code != http.StatusOK {
		t.Fatalf("grant: %d %s", code, text)
	}
	if code, text := send(t, a, http.MethodPost, "/v1/workflows/report:share", `{"user_id":"ada"}`); code != http.StatusOK {
		t.Fatalf("share: %d %s", code, text)
	}
	graph := func(header ...string) (int, string) {
		return send(t, a, http.MethodPost, "/api/internal/graphs/report/runs", `{"executionGrantId":"g","input":{"n":1}}`,
			append([]string{"Idempotency-Key", "nightly:2026-03-08T14:00:00Z"}, header...)...)
	}
	if code, text := graph(); code != http.StatusUnauthorized || len(e.called()) != 0 {
		t.Errorf("without its token: %d %s after %d calls", code, text, len(e.called()))
	}
	for range 2 { // the second is answered from the record
		if code, text := graph("Authorization", "Bearer "+token); code != http.StatusOK || text != `{"ok":true,"runId":"r-1","traceId":"t-1"}` {
			t.Errorf("answered %d %s", code, text)
		}
	}
	code, text := send(t, a, http.MethodPost, "/api/internal/graphs/other/runs", `{"executionGrantId":"g"}`,
		"Idempotency-Key", "other:2026-03-08T14:00:00Z", "Authorization", "Bearer "+token)
	if code != http.StatusForbidden || !strings.Contains(text, `"errorCode":"grant_denied"`) {
		t.Errorf("a workflow that the grant does not name: %d %s", code, text)
	}
	theirs := `{"grant_id":"g","user_id":"eve","billing_account_id":"e","scopes":["graph:execute:other"]}`
	if code, text := send(t, a, http.MethodPost, "/v1/grants", theirs); code != http.StatusOK {
		t.Fatalf("a grant of the same id, of another owner: %d %s", code, text)
	}
	named := func(userID string) (int, string) {
		return send(t, a, http.MethodPost, "/api/internal/graphs/report/runs", `{"executionGrantId":"g"`+userID+`,"version":3}`,
			"Idempotency-Key", "named:"+userID, "Authorization", "Bearer "+token)
	}
	if code, text := named(""); code != http.StatusBadRequest || !strings.Contains(text, "userId") {
		t.Errorf("a grant_id that two owners use, without an owner: %d %s", code, text)
	}
	if code, text := named(`,"userId":"eve"`); code != http.StatusForbidden || !strings.Contains(text, `"errorCode":"grant_denied"`) {
		t.Errorf("the grant of the other owner: %d %s", code, text)
	}
	calls := e.called()
	if len(calls) != 1 {
		t.Fatalf("the executor was called %d times", len(calls))
	}
	dag, _ := json.Marshal(calls[0]["dag"])
	if code, text := named(`,"userId":"ada"`); code != http.StatusOK || len(e.called()) != 2 {
		t.Errorf("the owner's own grant: %d %s after %d calls", code, text, len(e.called()))
	}
	if calls[0]["version"] != 3.0 || calls[0]["workflow_id"] != "report" || calls[0]["execution_grant_id"] != "g" || calls[0]["user_id"] != "ada" || !strings.Contains(string(dag), "steps") {
		t.Errorf("the executor was sent %v", calls[0])
	}
}

func TestSettingsOfGraphsAndBucketsAreChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings map[string]any
		says     string
	}{
		"a short token":      {settings: map[string]any{"internal_api_token": "short"}, says: "INTERNAL_API_TOKEN"},
		"no bucket":          {settings: map[string]any{"workflow_store": "blob"}, says: "WORKFLOW_BLOB_URL"},
		"a bucket elsewhere": {settings: map[string]any{"workflow_store": "blob", "workflow_blob_url": "gs://b"}, says: "endpoint="},
	} {
		t.Run(name, func(t *testing.T) {
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			app.Flags(fs, nil)
			tt.settings["executor"] = "local"
			if _, err := app.Load(fs, tt.settings); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("err = %v, want %s in it", err, tt.says)
			}
		})
	}
}
