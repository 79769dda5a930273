package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// redriven is an answer of POST /v1/runs:redrive.
type redriven struct {
	Redriven  int    `json:"redriven"`
	Left      int    `json:"left_dead"`
	Next      string `json:"next_page_token"`
	Sample    []run  `json:"sample"`
	Schedules []struct {
		ScheduleID string `json:"schedule_id"`
		Redriven   int    `json:"redriven"`
	} `json:"schedules"`
}

func TestDeadRunsAreRedriven(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { redriveDeadRuns(t, "") })
	t.Run("Postgres", func(t *testing.T) { redriveDeadRuns(t, services.Postgres(t, nil)) })
}

// An executor fails 25 runs for good. It is repaired, and one command runs them again.
func redriveDeadRuns(t *testing.T, database string) {
	t.Parallel()
	const n = 25
	var repaired atomic.Bool
	var calls atomic.Int32
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if repaired.Load() {
			_, _ = w.Write([]byte(`{"run_id": "good", "status": "SUCCESS"}`))
			return
		}
		_, _ = w.Write([]byte(`{"run_id": "bad", "status": "FAILED", "error_code": "BROKEN", "failure_class": "logic"}`))
	}))
	t.Cleanup(executor.Close)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+executor.URL+"/run/{workflow_id}"))
	p.startReady()
	api := newREST(t, p)
	const definition = `{"workflow_id":"w","version":1,"user_id":"ada","overlap_policy":%q,"retry":{"max_attempts":3}}`
	api.do("PUT", "/v1/schedules/nightly", fmt.Sprintf(definition, "allow"), nil)
	api.do("PUT", "/v1/schedules/gone", fmt.Sprintf(definition, "allow"), nil)
	for i := range n {
		api.do("POST", "/v1/schedules/nightly:trigger", fmt.Sprintf(`{"request_id":"r%d"}`, i), nil)
	}
	api.do("POST", "/v1/schedules/gone:trigger", `{"request_id":"r"}`, nil)
	dead := func(schedule string) []run {
		return api.runs("/v1/runs", url.Values{"dead": {"true"}, "schedule_id": {schedule}})
	}
	eventually(t, startBound, "all runs are dead", func() error {
		if got := len(dead("nightly")) + len(dead("gone")); got != n+1 {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
	api.do("PUT", "/v1/schedules/nightly", fmt.Sprintf(definition, "skip"), nil) // they will wait for each other
	api.do("DELETE", "/v1/schedules/gone", nil, nil)

	if status, answer, err := api.call("POST", "/v1/runs:redrive", `{}`); err != nil || status != http.StatusBadRequest || !strings.Contains(string(answer), "filter") {
		t.Errorf("without a filter and all: %d %s %v", status, answer, err)
	}
	var dry redriven
	api.do("POST", "/v1/runs:redrive", `{"filter":{"error_code":"BROKEN"},"dry_run":true}`, &dry)
	if dry.Redriven != n || dry.Left != 1 || len(dry.Sample) != 20 || dry.Sample[0].Status != "FAILED" || len(dry.Schedules) != 1 || dry.Schedules[0].Redriven != n || dry.Next != "" {
		t.Errorf("the dry run: %+v", dry)
	}
	if got := len(dead("nightly")); got != n {
		t.Errorf("%d are dead after a dry run", got)
	}
	stdout, stderr, code := p.command("", "run", "redrive", "--schedule", "nightly", "--dry-run")
	if code != 3 || !strings.Contains(stdout, "25 dead runs would be redriven") {
		t.Errorf("the dry run of the command: exit %d\n%s%s", code, stdout, stderr)
	}

	repaired.Store(true)
	if stdout, stderr, code = p.command("", "run", "redrive", "--schedule", "nightly", "-o", "json"); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	var done redriven
	if err := json.Unmarshal([]byte(stdout), &done); err != nil || done.Redriven != n || done.Sample[0].Trigger != "retry" {
		t.Errorf("redriven: %v in %s", err, stdout)
	}
	if got := len(dead("nightly")); got != 0 {
		t.Errorf("%d are dead after the redrive", got)
	}
	eventually(t, startBound, "all redriven runs succeed", func() error {
		runs := api.runs("/v1/runs", url.Values{"schedule_id": {"nightly"}, "trigger": {"retry"}, "status": {"SUCCESS"}})
		if len(runs) != n {
			return fmt.Errorf("%d of %d do", len(runs), n)
		}
		return nil
	})
	before := calls.Load()
	var again redriven
	api.do("POST", "/v1/runs:redrive", `{"all":true}`, &again)
	if again.Redriven != 0 || again.Left != 1 {
		t.Errorf("a repeat: %+v", again)
	}
	if got := calls.Load(); got != before || got != 2*n+1 {
		t.Errorf("the executor was called %d times, want once a run and once a redriven one: %d", got, 2*n+1)
	}
	events := api.events("nightly")
	if i := slices.IndexFunc(events, func(e event) bool { return e.Kind == "retried" }); i < 0 || events[i].Count != n {
		t.Errorf("one event counts the redriven runs: %+v", events)
	}
}
