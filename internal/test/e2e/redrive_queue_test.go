package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTheDeadRunsOfAQueueAreRedriven, and single runs by the id that their executor gave.
func TestTheDeadRunsOfAQueueAreRedriven(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, redriveQueue)
}

func redriveQueue(t *testing.T, database string) {
	s := &script{said: make(map[string]string), keys: make(map[string][]string), ends: map[string][]string{
		"a": {"logic", "SUCCESS"}, "b": {"logic", "SUCCESS"}, "outside": {"logic"},
	}}
	server := newServer(t, s.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute), "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/workflows/w/versions/1", `{"dag": {"workflow_id": "w", "version": 1}}`, nil)
	api.do("PUT", "/v1/queues/q", `{"user_id": "ada"}`, nil)
	for _, id := range []string{"a", "b", "outside"} {
		api.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", "once_at": %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), nil)
	}
	api.do("POST", "/v1/queues/q/runs", `{"schedule_id": "a"}`, nil)
	api.do("POST", "/v1/queues/q/runs", `{"schedule_id": "b"}`, nil)
	api.do("POST", "/v1/schedules/outside:trigger", `{}`, nil)
	for _, id := range []string{"a", "b", "outside"} {
		if run := api.untilEnded(id, 1)[0]; !run.Dead {
			t.Errorf("the run of %s should be dead: %+v", id, run)
		}
	}

	for _, step := range []struct {
		body string
		want int
	}{{`{"dry_run": true}`, 2}, {`{}`, 2}, {`{}`, 0}} {
		var answer struct {
			Redriven int `json:"redriven"`
		}
		if api.do("POST", "/v1/queues/q:redrive", step.body, &answer); answer.Redriven != step.want {
			t.Errorf("%s: %d runs redriven, want %d", step.body, answer.Redriven, step.want)
		}
	}
	for _, id := range []string{"a", "b"} {
		var again struct {
			Run struct {
				QueueID string `json:"queue_id"`
			} `json:"run"`
		}
		chain := api.untilEnded(id, 2)
		api.do("GET", "/v1/runs/"+chain[1].Key, nil, &again)
		if chain[0].Dead || chain[1].Status != "SUCCESS" || chain[1].RetryOf != chain[0].Key || again.Run.QueueID != "q" {
			t.Errorf("%s is redriven as %+v in queue %q", id, chain, again.Run.QueueID)
		}
	}
	first := api.untilEnded("outside", 1)[0]
	if !first.Dead {
		t.Errorf("the dead run outside the queue was redriven too: %+v", first)
	}
	if status, answer, err := api.call("POST", "/v1/queues/none:redrive", `{}`); err != nil || status != http.StatusNotFound {
		t.Errorf("a redrive of a queue that there is not: %d %s (%v)", status, answer, err)
	}

	// The executor gives the runs that follow one run_id.
	api.do("POST", "/api/job-runs/"+first.RunID+"/retry", `{"request_id": "by-run-id"}`, nil)
	second := api.untilEnded("outside", 2)[1]
	api.do("POST", "/api/job-runs/"+first.Key+"/retry", `{"request_id": "by-key"}`, nil)
	third := api.untilEnded("outside", 3)
	if second.RetryOf != first.Key || third[1].RetryOf != first.Key || third[2].RetryOf != first.Key {
		t.Errorf("both should retry %s: %+v", first.Key, third)
	}
	status, answer, err := api.call("POST", "/api/job-runs/extra/retry", `{}`)
	if err != nil || status != http.StatusBadRequest || !strings.Contains(refusals(t, answer)["run_id"], "2 runs") {
		t.Errorf("a run_id of two runs: %d %s (%v)", status, answer, err)
	}
	if status, answer, err := api.call("POST", "/api/job-runs/nobody/retry", `{}`); err != nil || status != http.StatusNotFound {
		t.Errorf("a run_id of no run: %d %s (%v)", status, answer, err)
	}
}
