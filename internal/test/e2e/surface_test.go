package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// newQuiet is one process on SQLite with an executor that nobody will call.
func newQuiet(t *testing.T) (*process, *rest) {
	t.Helper()
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings("", time.Minute), newOracle(t, seed(t), true).env()...))
	p.startReady()
	return p, newREST(t, p)
}

func TestBadInputIsRefusedWithFieldValueAndReason(t *testing.T) {
	t.Parallel()
	_, api := newQuiet(t)
	const good = `"workflow_id": "w", "version": 1, "user_id": "ada"`
	for _, c := range []struct {
		name, method, path, body string
		field, says              string // says: the value, or what is wrong where none is shown
	}{
		{"a minute that no clock has", "PUT", "/v1/schedules/s", `{` + good + `, "cron_expr": "61 * * * *"}`, "cron_expr", `"61 * * * *"`},
		{"an expression that never fires", "PUT", "/v1/schedules/s", `{` + good + `, "cron_expr": "0 2 30 2 *"}`, "cron_expr", `"0 2 30 2 *"`},
		{"a zone that is not on earth", "PUT", "/v1/schedules/s", `{` + good + `, "cron_expr": "* * * * *", "timezone": "Mars/Base"}`, "timezone", `"Mars/Base"`},
		{"a policy that there is not", "PUT", "/v1/schedules/s", `{` + good + `, "cron_expr": "* * * * *", "overlap_policy": "maybe"}`, "overlap_policy", `"maybe"`},
		{"a jitter beyond its limit", "PUT", "/v1/schedules/s", `{` + good + `, "cron_expr": "* * * * *", "jitter_ms": 3600001}`, "jitter_ms", "3600001"},
		{"an interval with parts of a second", "PUT", "/v1/schedules/s", `{` + good + `, "interval_ms": 1500}`, "interval_ms", "1500"},
		{"an instant that has passed", "PUT", "/v1/schedules/s", `{` + good + `, "once_at": "2001-01-01T00:00:00Z"}`, "once_at", "2001-01-01T00:00:00Z"},
		{"a mistyped member", "PUT", "/v1/schedules/s", `{` + good + `, "cron_exp": "* * * * *"}`, "cron_exp", "not a field"},
		{"half a body", "POST", "/schedules/upsert", `{"workflow_id": `, "body", "not JSON"},
		{"no owner", "POST", "/schedules/upsert", `{"schedule_id": "s", "workflow_id": "w", "version": 1}`, "user_id", ""},
		{"a key that is none", "GET", "/v1/runs/xyz", "", "idempotency_key", `"xyz"`},
		{"an unknown query parameter", "GET", "/v1/runs?shedule_id=s", "", "shedule_id", "not a parameter"},
		{"a report of a status that nobody may report", "POST", "/v1/runs/" + strings.Repeat("ab", 32) + ":report", `{"status": "PLANNED"}`, "status", `"PLANNED"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer, err := api.call(c.method, c.path, c.body)
			if err != nil {
				t.Fatal(err)
			}
			refused := refusals(t, answer)
			if status != http.StatusBadRequest || !strings.Contains(refused[c.field], c.says) || refused[c.field] == "" {
				t.Errorf("it answers %d %s\nwant 400 with a violation of %s that says %s", status, answer, c.field, c.says)
			}
		})
	}
	if status, answer, err := api.call("GET", "/v1/schedules/s", nil); err != nil || status != http.StatusNotFound {
		t.Errorf("after nothing but bad input there is a schedule: %d %s (%v)", status, answer, err)
	}
}

// refusals are the fields that an error names, each with what it says of it.
func refusals(t *testing.T, answer []byte) map[string]string {
	t.Helper()
	var status struct {
		Details []struct {
			Violations []struct {
				Field       string `json:"field"`
				Description string `json:"description"`
			} `json:"field_violations"`
		} `json:"details"`
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	found := make(map[string]string)
	for _, d := range status.Details {
		for _, v := range d.Violations {
			found[v.Field] = v.Description
		}
	}
	return found
}

// documentedMetrics are the names that dashboards and alerts are built on.
var documentedMetrics = []string{
	"carillon_schedules_due", "carillon_runs_emitted_total", "carillon_runs_skipped_overlap_total", "carillon_runs_failed_launch_total",
	"carillon_scheduling_drift_seconds_bucket", "carillon_launch_lateness_seconds_bucket", "carillon_worker_step_seconds_bucket",
	"carillon_leader", "carillon_leader_epoch", "carillon_leader_takeovers_total", "carillon_runs_in_flight", "carillon_runs_waiting",
	"carillon_slots_missed_total", "carillon_worker_healthy", "carillon_clock_skew_seconds",
	"carillon_build_info", "carillon_database_up",
}

var metricName = regexp.MustCompile(`(?m)^carillon_[a-z_]+`)

func TestHealthAndMetricsAreWhereTheyAreDocumented(t *testing.T) {
	t.Parallel()
	p, api := newQuiet(t)
	for _, c := range []struct{ path, says string }{
		{"/healthz", `"ok"`},
		{"/readyz", `"ready"`},
	} {
		if status, answer, err := api.call("GET", c.path, nil); err != nil || status != http.StatusOK || !strings.Contains(string(answer), c.says) {
			t.Errorf("GET %s answers %d %s (%v); want 200 and %s", c.path, status, answer, err, c.says)
		}
	}
	eventually(t, startBound, "every documented metric is there", func() error {
		_, text, err := api.call("GET", "/metrics", nil)
		if err != nil {
			return err
		}
		names := metricName.FindAllString(string(text), -1)
		for _, want := range documentedMetrics {
			// Drift and its kin appear with their first launch at the latest.
			if !slices.Contains(names, want) {
				return missingError(want)
			}
		}
		return nil
	})
	p.terminate(drainBound)
}

type missingError string

func (e missingError) Error() string { return "/metrics has no " + string(e) }

func TestPreviewsOfABatchAnswerLineByLine(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "carillon", nil, nil)
	questions := strings.Join([]string{
		`{"expr": "30 2 * * *", "tz": "America/New_York", "after": "2024-03-09T12:00:00Z", "count": 2}`,
		`{"expr": "30 2 * * *", "tz": "America/New_York", "after": "2024-03-09T12:00:00Z", "count": 2, "dst": "literal"}`,
		`{"expr": "61 * * * *"}`,
		`{"expr": "0 2 30 2 *"}`,
		`nonsense`,
		`{"expr": "@yearly", "after": "2026-11-21T00:00:00Z", "count": 1}`,
	}, "\n")
	out, errs, code := p.command(questions, "preview", "--batch")
	answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	want := []string{
		`{"times":["2024-03-10T07:00:00Z","2024-03-11T06:30:00Z"]}`,
		`{"times":["2024-03-11T06:30:00Z","2024-03-12T06:30:00Z"]}`,
		`{"error":`,
		`{"error":`,
		`{"error":`,
		`{"times":["2027-01-01T00:00:00Z"]}`,
	}
	if code != 0 || len(answers) != len(want) {
		t.Fatalf("%d lines, exit code %d: %s%s", len(answers), code, out, errs)
	}
	for i, answer := range answers {
		if !strings.HasPrefix(answer, want[i]) {
			t.Errorf("line %d is %s; want %s", i+1, answer, want[i])
		}
	}
}

func TestAStartThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		env  []string
		says string
	}{
		{"without an executor", []string{"serve"}, nil, "EXECUTOR_URL"},
		{"with a setting out of its bounds", []string{"serve", "--tick-ms", "7"}, nil, "TICK_MS: 7 is not within 50 to 10000"},
		{"on a schema that it does not know", []string{"serve"}, []string{"EXECUTOR_URL=http://127.0.0.1:1/"}, "migrate"},
		{"with a flag that there is not", []string{"serve", "--ticks"}, nil, "--ticks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs, code := newProcess(t, "carillon", nil, c.env).command("", c.args...)
			if code == 0 || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d: %s; want another than 0, and %q", code, errs, c.says)
			}
		})
	}
}

func TestASlotFiresTheWebhookOfTheSimplestExecutor(t *testing.T) {
	t.Parallel()
	// The contract in a dozen lines, as somebody writes it in an afternoon.
	got := make(chan *http.Request, 16)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r
		_, _ = io.WriteString(w, `{"run_id": "1", "status": "SUCCESS"}`)
	})
	p := newProcess(t, "carillon", []string{"serve", "--migrate", "--executor-url", server.URL + "/{workflow_id}/{version}"}, []string{"EXECUTOR_TOKEN=s3cret"})
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/workflows/w/versions/7", `{"dag": {"workflow_id": "w", "version": 7}}`, nil)
	api.do("PUT", "/v1/schedules/s", `{"workflow_id": "w", "version": 7, "user_id": "ada", "cron_expr": "* * * * * *"}`, nil)
	select {
	case r := <-got:
		if r.URL.Path != "/w/7" || r.Header.Get("Authorization") != "Bearer s3cret" || len(r.Header.Get("Idempotency-Key")) != 64 {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
	case <-time.After(startBound):
		t.Fatal("the executor was not called")
	}
}
