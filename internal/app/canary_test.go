package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// aviary is a process with a canary in every secret setting and an executor that repeats every
// request. It records all logs and answers.
type aviary struct {
	*app.App
	mu       sync.Mutex
	canaries []string // must not appear anywhere
	log      bytes.Buffer
	answers  bytes.Buffer
}

func (a *aviary) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(p)
}

// ServeHTTP is the executor. The workflow's id selects the answer.
func (a *aviary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told, _ := httputil.DumpRequest(r, true)
	_, body, _ := bytes.Cut(told, []byte("\r\n\r\n"))
	var call struct {
		ReportToken string `json:"report_token"`
	}
	if json.Unmarshal(body, &call) == nil && call.ReportToken != "" {
		a.mu.Lock()
		a.canaries = append(a.canaries, call.ReportToken)
		a.mu.Unlock()
	}
	switch r.URL.Path {
	case "/refuses":
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(told)
	case "/fails":
		message, _ := json.Marshal(string(told))
		_, _ = fmt.Fprintf(w, `{"run_id":"r","status":"FAILED","error_code":"told","error_message":%s}`, message)
	case "/breaks":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(told)
	default:
		_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
	}
}

// send makes a call and records the answer.
func (a *aviary) send(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if path == "/metrics" {
		req.Header.Set("Authorization", "Bearer canary-METRICS_TOKEN-of-some-length")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := httputil.DumpResponse(resp, true)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers.Write(raw)
	return resp.StatusCode, string(raw)
}

// live makes runs with every kind of end and reads every resource.
func (a *aviary) live(t *testing.T) {
	workflows := []string{"works", "refuses", "fails", "breaks"}
	for _, w := range workflows {
		a.send(t, "PUT", "/v1/workflows/"+w+"/versions/1", `{"dag":{"workflow_id":"`+w+`","version":1}}`)
		if status, answer := a.send(t, "PUT", "/v1/schedules/"+w, `{"workflow_id":"`+w+`","version":1,"user_id":"u","input":{"x":1}}`); status != http.StatusOK {
			t.Fatal(answer)
		}
		a.send(t, "POST", "/v1/schedules/"+w+":trigger", `{"request_id":"first"}`)
	}
	eventually(t, "three runs ended and one is tried", func() bool {
		_, answer := a.send(t, "GET", "/v1/runs", "")
		return strings.Count(answer, `"status":"FAILED"`)+strings.Count(answer, `"status": "FAILED"`) >= 2 &&
			strings.Contains(answer, `SUCCESS`) && strings.Contains(answer, "418")
	})
	for _, w := range workflows {
		for _, path := range []string{"/v1/schedules/" + w, "/v1/schedules/" + w + "/runs", "/v1/schedules/" + w + "/events", "/v1/schedules/" + w + "/revisions", "/v1/workflows/" + w + "/versions/1"} {
			a.send(t, "GET", path, "")
		}
	}
	for _, path := range []string{"/v1/schedules", "/v1/runs", "/v1/workers", "/metrics", "/healthz", "/readyz", "/nothing", "/v1/schedules/none", "/v1/runs/zz"} {
		a.send(t, "GET", path, "")
	}
	a.send(t, "POST", "/v1/schedules", `{"broken`)
	a.send(t, "POST", "/v1/runs/"+strings.Repeat("0", 64)+":report", `{"status":"SUCCESS"}`)
}

func TestNoSecretIsFoundInLogsAnswersOrTables(t *testing.T) {
	t.Parallel()
	for _, store := range []struct{ name, driver string }{{"SQLite", "sqlite"}, {"Postgres", "pgx"}} {
		t.Run(store.name, func(t *testing.T) {
			a := &aviary{canaries: []string{"canary"}}
			executor := httptest.NewServer(a)
			defer executor.Close()
			dir := t.TempDir()
			dsn, settings := dir+"/carillon.db", map[string]any{
				"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": dir, "executor_url": executor.URL + "/{workflow_id}", "log_level": "debug",
			}
			for _, s := range app.Settings() {
				if s.Secret {
					settings[strings.ToLower(s.Name)] = "canary-" + s.Name + "-of-some-length"
				}
			}
			settings["launcher_tls"] = "on"
			settings["alert_webhook_url"] = "https://example.org/canary-hook"
			settings["alert_webhook_secret"] = "whsec_" + base64.StdEncoding.EncodeToString([]byte("canary-of-a-length-that-will-do"))
			a.canaries = append(a.canaries, strings.TrimPrefix(settings["alert_webhook_secret"].(string), "whsec_"))
			settings["database_url"], settings["redis_url"] = "", "redis://:canary-redis@127.0.0.1:1/0"
			if store.driver == "pgx" {
				dsn = migrated.Postgres(t)
				u, err := url.Parse(dsn)
				if err != nil {
					t.Fatal(err)
				}
				if _, chosen := u.User.Password(); !chosen {
					u.User = url.UserPassword(u.User.Username(), "canary-database")
				}
				settings["database_url"] = u.String()
			}
			a.run(t, settings)
			rows := dump(t, store.driver, dsn)
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.canaries) < 5 {
				t.Errorf("the executor was shown %d report tokens", len(a.canaries)-2)
			}
			for place, text := range map[string]string{"log": a.log.String(), "answers": a.answers.String(), "tables": rows} {
				if len(text) < 1000 || place == "answers" && !strings.Contains(text, "carillon_runs_emitted_total") {
					t.Errorf("the %s are only %q", place, text)
				}
				for _, canary := range a.canaries {
					if at := strings.Index(text, canary); at >= 0 {
						t.Errorf("%q is in the %s: %s", canary, place, text[max(0, at-300):min(len(text), at+100)])
					}
				}
			}
		})
	}
}

// run starts a process with the settings, calls live and stops it.
func (a *aviary) run(t *testing.T, settings map[string]any) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, settings)
	if err != nil {
		t.Fatal(err)
	}
	if a.App, err = app.New(t.Context(), cfg, app.Options{Logger: app.NewLogger(a, cfg), Migrate: true}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	a.live(t)
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// dump is every column of every row as text.
func dump(t *testing.T, driver, dsn string) string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if driver == "pgx" {
		names = `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`
	}
	var out strings.Builder
	for _, table := range everyRow(t, db, names) {
		name := strings.TrimSpace(table)
		for _, row := range everyRow(t, db, `SELECT * FROM `+name) {
			fmt.Fprintf(&out, "%s: %s\n", name, row)
		}
	}
	return out.String()
}

func everyRow(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var row strings.Builder
		for _, v := range values {
			switch x := (*v.(*any)).(type) {
			case []byte:
				fmt.Fprintf(&row, "%s ", x)
			default:
				fmt.Fprintf(&row, "%v ", x)
			}
		}
		all = append(all, row.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
