package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowToStop is an executor that answers a cancel with 202. The test ends the run.
type slowToStop struct {
	mu      sync.Mutex
	calls   []startedRun
	cancels []string // the run of each DELETE
}

type startedRun struct {
	Key          string `json:"idempotency_key"`
	ScheduledFor string `json:"scheduled_for"`
}

func (e *slowToStop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Method == http.MethodDelete {
		e.cancels = append(e.cancels, strings.Join([]string{
			r.URL.Path, r.URL.RawQuery, r.Header.Get("X-Carillon-Schedule-Id"), r.Header.Get("X-Carillon-Scheduled-For"),
		}, " "))
	} else {
		var run startedRun
		_ = json.NewDecoder(r.Body).Decode(&run)
		e.calls = append(e.calls, run)
	}
	w.WriteHeader(http.StatusAccepted)
}

func (e *slowToStop) started() []startedRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]startedRun(nil), e.calls...)
}

func (e *slowToStop) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.cancels...)
}

func TestReplaceWaitsForTheReportAfterAnAcceptedCancel(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			executor := &slowToStop{}
			server := httptest.NewServer(executor)
			defer server.Close()
			a := begin(t, map[string]any{
				"data_dir": t.TempDir(), "database_url": store.url(t), "executor_url": server.URL,
				"executor_cancel_url": server.URL + "/runs/{idempotency_key}?schedule={schedule_id}&at={scheduled_for}", "cancel_wait_ms": 600_000,
			})
			// Two slots, one second apart.
			first := time.Now().Truncate(time.Second).Add(2 * time.Second)
			send(t, a, "PUT", "/v1/schedules/s", fmt.Sprintf(`{"user_id":"ada","workflow_id":"w","version":1,"interval_ms":1000,`+
				`"start_at":%q,"end_at":%q,"overlap_policy":"replace"}`, first.Format(time.RFC3339), first.Add(time.Second).Format(time.RFC3339)))
			eventually(t, "the executor is asked to cancel the first run", func() bool { return len(executor.asked()) > 0 })
			runs := executor.started()
			if len(runs) != 1 {
				t.Fatalf("%d runs started before the first has ended: %v", len(runs), runs)
			}
			want := fmt.Sprintf("/runs/%s schedule=s&at=%s s %s", runs[0].Key, strings.ReplaceAll(runs[0].ScheduledFor, ":", "%3A"), runs[0].ScheduledFor)
			if got := executor.asked()[0]; got != want {
				t.Errorf("the cancel names\n%s\nwant\n%s", got, want)
			}
			// The answer comes before the report, so the next run must not start yet.
			if _, run := send(t, a, "GET", "/v1/runs/"+runs[0].Key, ""); !strings.Contains(run, `"status":"ENQUEUED"`) {
				t.Errorf("after 202 the run is %s, want ENQUEUED", run)
			}
			send(t, a, "POST", "/v1/runs/"+runs[0].Key+":report", `{"status":"FAILED","error_code":"stopped"}`)
			eventually(t, "the second slot is started", func() bool { return len(executor.started()) == 2 })
			if _, run := send(t, a, "GET", "/v1/runs/"+runs[0].Key, ""); !strings.Contains(run, `"reason":"replaced"`) {
				t.Errorf("the replaced run is %s, want reason replaced", run)
			}
		})
	}
}
