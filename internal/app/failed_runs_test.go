package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestFailedRunsLogAWarningWithScheduleReasonAndCode(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		for _, c := range []struct {
			name, answer string
			code         int
			report       string // of an accepted run
			level, msg   string
			reason       string
			errorCode    string
		}{
			{name: "an executor that refuses the run", code: http.StatusForbidden, level: "WARN", msg: "run settled", reason: "launch_refused", errorCode: "http_403"},
			{name: "an executor that answers FAILED", code: http.StatusOK, answer: `{"status":"FAILED","error_code":"E7"}`, level: "WARN", msg: "run settled", reason: "workflow_failed", errorCode: "E7"},
			{name: "a report of FAILED", code: http.StatusAccepted, report: `{"status":"FAILED","error_code":"E8"}`, level: "WARN", msg: "run reported", reason: "workflow_failed", errorCode: "E8"},
			{name: "a run that succeeds", code: http.StatusOK, answer: `{"status":"SUCCESS"}`, level: "INFO", msg: "run settled"},
			{name: "a report of SUCCESS", code: http.StatusAccepted, report: `{"status":"SUCCESS"}`, level: "INFO", msg: "run reported"},
		} {
			t.Run(store.name+": "+c.name, func(t *testing.T) {
				t.Parallel()
				keys := make(chan string, 10)
				executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					keys <- r.Header.Get("Idempotency-Key")
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(c.code)
					_, _ = io.WriteString(w, c.answer)
				}))
				defer executor.Close()
				var out bytes.Buffer
				log := &locked{w: &out}
				a := beginLogging(t, map[string]any{"data_dir": t.TempDir(), "database_url": store.url(t), "executor_url": executor.URL}, log)
				send(t, a, "PUT", "/v1/schedules/nightly", `{"user_id":"ada","workflow_id":"w","version":1,"cron_expr":"0 3 * * *"}`)
				send(t, a, "POST", "/v1/schedules/nightly:trigger", `{"request_id":"one"}`)
				key := <-keys
				if c.report != "" {
					send(t, a, "POST", "/v1/runs/"+key+":report", c.report)
				}
				var found map[string]any
				eventually(t, "its end is in the log", func() bool {
					log.mu.Lock()
					defer log.mu.Unlock()
					for _, line := range logLines(t, out.String()) {
						if line["msg"] == c.msg && line["key"] == key && line["status"] != "ENQUEUED" {
							found = line
						}
					}
					return found != nil
				})
				got := fmt.Sprint(found["level"], found["schedule_id"], found["reason"], found["error_code"])
				if want := fmt.Sprint(c.level, "nightly", c.reason, c.errorCode); got != want || found["run_at"] == nil {
					text, _ := json.Marshal(found)
					t.Errorf("%s, want %s and run_at", text, want)
				}
			})
		}
	}
}
