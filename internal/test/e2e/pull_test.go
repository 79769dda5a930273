package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fetched is the answer to a fetch.
type fetched struct {
	Runs []struct {
		Key         string `json:"idempotency_key"`
		Attempt     int    `json:"attempt"`
		ReportURL   string `json:"report_url"`
		ReportToken string `json:"report_token"`
		Input       struct {
			Name string `json:"name"`
		} `json:"input"`
	} `json:"runs"`
	Cancel      []string `json:"cancel"`
	HeartbeatMS int      `json:"heartbeat_ms"`
}

func (r *rest) fetches(worker, more string) (got fetched) {
	r.t.Helper()
	r.do("POST", "/v1/queues/pulled:fetch", fmt.Sprintf(`{"worker_id":%q%s}`, worker, more), &got)
	return got
}

func listing(keys ...string) string { return `,"running":["` + strings.Join(keys, `","`) + `"]` }

// pullRun is a run as GET answers it.
type pullRun struct {
	Run struct {
		Status    string `json:"status"`
		Reason    string `json:"reason"`
		WorkerID  string `json:"worker_id"`
		RetriedBy string `json:"retried_by"`
	} `json:"run"`
}

func (r *rest) pullRun(key string) (got pullRun) {
	r.t.Helper()
	r.do("GET", "/v1/runs/"+key, nil, &got)
	return got
}

// TestLongAWorkerFetchesItsRuns: the only process dies while the worker has a run; then the worker dies.
func TestLongAWorkerFetchesItsRuns(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, _ := groupSite(t, database, time.Minute)
		api.do("PUT", "/v1/queues/pulled", `{"user_id":"ada","delivery":"pull","heartbeat_ms":3000,"max_in_flight":10}`, nil)
		api.do("PUT", "/v1/schedules/s", `{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "allow", "retry": {"max_attempts": 2, "backoff_ms": 1000}}`, nil)
		enter := func(name string) string {
			var got entered
			api.do("POST", "/v1/queues/pulled/runs", fmt.Sprintf(`{"schedule_id":"s","input":{"name":%q}}`, name), &got)
			return got.Run.Key
		}
		a, b := enter("a"), enter("b")
		first := api.fetches("w", "")
		if len(first.Runs) != 1 || first.Runs[0].Key != a || first.Runs[0].Input.Name != "a" || first.HeartbeatMS != 3000 {
			t.Fatalf("the first fetch: %+v", first)
		}
		if run := api.pullRun(a).Run; run.Status != "STARTED" || !strings.HasSuffix(run.WorkerID, "/w") {
			t.Errorf("the fetched run is %+v", run)
		}
		status, text, err := api.call("POST", "/v1/queues/pulled:fetch", `{"worker_id":"w","wait_ms":1000`+listing(a)+`}`)
		if err != nil || status != http.StatusConflict || !strings.Contains(string(text), "slots") {
			t.Errorf("a second fetch of a worker with one slot: %d %s %v", status, text, err)
		}

		p.kill()
		p.startReady()
		if again := api.fetches("w", `,"wait_ms":5000`); len(again.Runs) != 1 || again.Runs[0].Key != a {
			t.Fatalf("after a lost answer: %+v", again)
		}
		if beat := api.fetches("w", listing(a)); len(beat.Runs) != 0 || len(beat.Cancel) != 0 {
			t.Errorf("a heartbeat: %+v", beat)
		}
		api.do("POST", "/v1/runs/"+a+":report", `{"status":"SUCCESS"}`, nil)
		if second := api.fetches("w", ""); len(second.Runs) != 1 || second.Runs[0].Key != b {
			t.Fatalf("the second run: %+v", second)
		}

		// The worker is silent: another one gets the retry.
		var retry fetched
		eventually(t, startBound, "the retry is fetched", func() error {
			if retry = api.fetches("v", `,"wait_ms":2000`); len(retry.Runs) == 0 {
				return fmt.Errorf("run b is %+v", api.pullRun(b).Run)
			}
			return nil
		})
		lost := api.pullRun(b).Run
		if lost.Status != "FAILED" || lost.Reason != "lost" || lost.RetriedBy != retry.Runs[0].Key || retry.Runs[0].Attempt != 2 {
			t.Errorf("the run of the silent worker is %+v, and its retry %+v", lost, retry.Runs)
		}
		if back := api.fetches("w", listing(b)); len(back.Cancel) != 1 || back.Cancel[0] != b {
			t.Errorf("the silent worker comes back: %+v", back)
		}

		key := retry.Runs[0].Key
		api.do("POST", "/v1/runs/"+key+":cancel", `{}`, nil)
		if hears := api.fetches("v", listing(key)); len(hears.Cancel) != 1 || hears.Cancel[0] != key {
			t.Errorf("the worker hears of the cancel: %+v", hears)
		}
		api.do("POST", "/v1/runs/"+key+":report", `{"status":"FAILED"}`, nil)
		if run := api.pullRun(key).Run; run.Status != "CANCELLED" {
			t.Errorf("the cancelled run is %+v", run)
		}
		if got := len(e.got("a")) + len(e.got("b")); got != 0 {
			t.Errorf("the executor was called %d times", got)
		}
	})
}

// TestFetchesAreRefused has the bad input of pull queues.
func TestFetchesAreRefused(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		_, api, _, _ := groupSite(t, database, time.Minute)
		api.do("PUT", "/v1/queues/pulled", `{"user_id":"ada","delivery":"pull"}`, nil)
		for _, bad := range []struct {
			name, method, path, body, says string
			status                         int
		}{
			{"a fetch of a push queue", "POST", "/v1/queues/q:fetch", `{"worker_id":"w"}`, "delivery push", 400},
			{"a fetch of an unknown queue", "POST", "/v1/queues/none:fetch", `{"worker_id":"w"}`, "none", 404},
			{"no slot", "POST", "/v1/queues/pulled:fetch", `{"worker_id":"w","slots":0}`, "slots", 400},
			{"too many slots", "POST", "/v1/queues/pulled:fetch", `{"worker_id":"w","slots":1001}`, "slots", 400},
			{"no worker_id", "POST", "/v1/queues/pulled:fetch", `{}`, "worker_id", 400},
			{"a worker_id with /", "POST", "/v1/queues/pulled:fetch", `{"worker_id":"a/b"}`, "worker_id", 400},
			{"running that is no key", "POST", "/v1/queues/pulled:fetch", `{"worker_id":"w","running":["x"]}`, "running", 400},
			{"a wait of more than a minute", "POST", "/v1/queues/pulled:fetch", `{"worker_id":"w","wait_ms":60001}`, "wait_ms", 400},
			{"a reservation in a pull queue", "POST", "/v1/queues/pulled:reserve", `{"hold_ms":1000}`, "delivery pull", 400},
			{"a heartbeat under a second", "PUT", "/v1/queues/x", `{"user_id":"ada","delivery":"pull","heartbeat_ms":999}`, "heartbeat_ms", 400},
			{"a heartbeat of a push queue", "PUT", "/v1/queues/x", `{"user_id":"ada","heartbeat_ms":5000}`, "heartbeat_ms", 400},
			{"workers of a push queue", "PUT", "/v1/queues/x", `{"user_id":"ada","workers":["w"]}`, "workers", 400},
			{"another delivery", "PUT", "/v1/queues/x", `{"user_id":"ada","delivery":"post"}`, "delivery", 400},
		} {
			status, text, err := api.call(bad.method, bad.path, bad.body)
			if err != nil || status != bad.status || !strings.Contains(string(text), bad.says) {
				t.Errorf("%s: %d %s %v", bad.name, status, text, err)
			}
		}
	})
}
