package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// returning is an executor that returns a result with each end: of names that begin with "a" in its
// answer, of others in a report a moment later.
type returning struct {
	mu      sync.Mutex
	reports map[string]runBody // accepted, to report
	said    map[string]bool    // keys with an end that Carillon has confirmed
}

// resultOf is what the executor returns for a key: the same each time.
func resultOf(key string) string {
	return fmt.Sprintf(`"status": "SUCCESS", "exit_code": 0, "result": {"of": %q, "n": 1.50}, "artifacts": [{"name": "log", "url": "s3://logs/%s", "bytes": 17}]`, key, key)
}

func (e *returning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		runBody
		Input struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(call.Input.Name, "a") {
		_, _ = fmt.Fprintf(w, `{"run_id": "r", %s}`, resultOf(call.Key))
		return
	}
	e.mu.Lock()
	e.reports[call.Key] = call.runBody
	e.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"run_id": "r"}`))
}

// report sends the ends that no server has confirmed yet, to the process as it is now.
func (e *returning) report(api *rest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, run := range e.reports {
		req, err := http.NewRequest(http.MethodPost, api.base()+"/v1/runs/"+key+":report", strings.NewReader(`{"run_id": "r", `+resultOf(key)+`}`))
		if err != nil {
			api.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+run.ReportToken)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it was killed: the report comes again
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			e.said[key] = true
			delete(e.reports, key)
		}
	}
}

// returned is what REST says a run has returned.
type returned struct {
	Status   string          `json:"status"`
	ExitCode *int            `json:"exit_code"`
	Result   json.RawMessage `json:"result"`
	Problem  string          `json:"result_problem"`
	Expires  string          `json:"result_expires_at"`

	Artifacts []struct {
		Name  string  `json:"name"`
		URL   string  `json:"url"`
		Bytes float64 `json:"bytes"`
	} `json:"artifacts"`
}

func (r *rest) returned(key string) (run returned) {
	var answer struct{ Run returned }
	r.do("GET", "/v1/runs/"+key, nil, &answer)
	return answer.Run
}

// TestLongResultsSurviveAKill kills the process while executors answer and report, right after a report was
// confirmed too: each run has one end, with the result that came with it.
func TestLongResultsSurviveAKill(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		e := &returning{reports: make(map[string]runBody), said: make(map[string]bool)}
		server := newServer(t, e.ServeHTTP)
		p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
			"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
		p.startReady()
		api := newREST(t, p)
		api.do("PUT", "/v1/queues/q", `{"user_id": "ada", "max_in_flight": 4}`, nil)
		api.do("PUT", "/v1/schedules/s", `{"user_id": "ada", "workflow_id": "w", "version": 1}`, nil)
		var keys []string
		for _, name := range append(numbered("a", 30), numbered("b", 30)...) {
			var entered struct {
				Run struct {
					Key string `json:"idempotency_key"`
				} `json:"run"`
			}
			api.do("POST", "/v1/queues/q/runs", fmt.Sprintf(`{"schedule_id": "s", "input": {"name": %q}}`, name), &entered)
			keys = append(keys, entered.Run.Key)
		}
		confirmed := func(n int) func() error {
			return func() error {
				e.report(api)
				if got := len(e.said); got < n {
					return fmt.Errorf("%d are", got)
				}
				return nil
			}
		}
		for _, n := range []int{1, 10, 20} {
			eventually(t, 2*startBound, fmt.Sprint(n, " reports are confirmed"), confirmed(n))
			p.kill()
			p.startReady()
			for key := range e.said {
				if got := api.returned(key); got.Status != "SUCCESS" || len(got.Result) < 5 {
					t.Fatalf("the report of %s was confirmed, and after the kill the run is %+v", key, got)
				}
			}
		}
		eventually(t, 2*startBound, "all reports are confirmed", confirmed(30))
		before := make(map[string]returned)
		for _, key := range keys {
			eventually(t, 2*startBound, "the run ends", func() error {
				if got := api.returned(key); got.Status != "SUCCESS" {
					return fmt.Errorf("it is %s", got.Status)
				}
				return nil
			})
			got := api.returned(key)
			want := fmt.Sprintf(`{"of":%q,"n":1.50}`, key)
			if strings.ReplaceAll(string(got.Result), " ", "") != want || got.ExitCode == nil || *got.ExitCode != 0 || len(got.Artifacts) != 1 || got.Artifacts[0].URL != "s3://logs/"+key || got.Problem != "" || got.Expires == "" {
				t.Errorf("run %s has returned %+v", key, got)
			}
			before[key] = got
			for _, late := range []string{`{"status": "SUCCESS", "exit_code": 9, "result": 2}`, `{"status": "FAILED", "exit_code": 9, "result": 3}`} {
				if status, answer, _ := api.call("POST", "/v1/runs/"+key+":report", late); status != 200 || !bytes.Contains(answer, []byte(`"moved":false`)) {
					t.Errorf("a later report is answered with %d %s", status, answer)
				}
			}
		}
		p.kill()
		p.startReady()
		for key, want := range before {
			if got := api.returned(key); !reflect.DeepEqual(got, want) {
				t.Errorf("run %s had returned %+v, and now %+v", key, want, got)
			}
		}
	})
}
