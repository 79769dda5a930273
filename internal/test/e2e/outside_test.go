package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLongTheEndOfARunOutsideQueuesIsTold: a schedule without a queue names a target. Its sink is
// down at first, and the process is killed meanwhile.
func TestLongTheEndOfARunOutsideQueuesIsTold(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		hooks := newSink(t)
		hooks.setDown(true)
		s := &script{said: make(map[string]string), keys: make(map[string][]string), ends: map[string][]string{"fails": {"transient", "transient"}, "works": {"SUCCESS"}, "silent": {"SUCCESS"}}}
		server := newServer(t, s.ServeHTTP)
		p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
			"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}", "ALLOW_EGRESS=loopback", hooks.targets()))
		p.startReady()
		api := newREST(t, p)
		for name, says := range map[string]string{"none": "not a target", "of-bob": "may not use"} {
			status, answer, err := api.call("PUT", "/v1/schedules/x", fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", "webhook": %q}`, name))
			if said := refusals(t, answer)["webhook"]; err != nil || status != http.StatusBadRequest || !strings.Contains(said, says) {
				t.Errorf("webhook %s: %d %s (%v)", name, status, answer, err)
			}
		}
		at := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339)
		for id, more := range map[string]string{"fails": `"webhook": "billing", "retry": {"max_attempts": 2, "backoff_ms": 1000},`, "works": `"webhook": "billing",`, "silent": ""} {
			api.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", %s "once_at": %q}`, more, at), nil)
		}
		failed, works, silent := api.untilEnded("fails", 2), api.untilEnded("works", 1), api.untilEnded("silent", 1)
		shown := func(key string) map[string]any {
			var answer struct {
				Run map[string]any `json:"run"`
			}
			api.do("GET", "/v1/runs/"+key, nil, &answer)
			return answer.Run
		}
		want := map[string]string{works[0].Key: "run.succeeded"} // the types by key
		for _, a := range failed {
			if a.Attempt == 2 {
				want[a.Key] = "run.failed"
			} else if state := shown(a.Key)["webhook_state"]; state != "none" {
				t.Errorf("the first attempt is told of: %v", state)
			}
		}
		if state := shown(silent[0].Key)["webhook_state"]; state != "none" {
			t.Errorf("a run without a target is told of: %v", state)
		}
		eventually(t, startBound, "both messages are tried", func() error {
			for key := range want {
				if len(about(hooks.got(), key)) == 0 {
					return fmt.Errorf("that of %s is not", key)
				}
			}
			return nil
		})
		p.kill()
		p.startReady()
		for key := range want {
			if state := shown(key)["webhook_state"]; state != "pending" {
				t.Errorf("the message about %s is %v", key, state)
			}
		}
		hooks.setDown(false)
		for key, event := range want {
			eventually(t, time.Minute, "the message about "+key+" is delivered", func() error {
				if state := shown(key)["webhook_state"]; state != "delivered" {
					return fmt.Errorf("it is %v", state)
				}
				return nil
			})
			run := shown(key)
			delete(run, "webhook_state")
			for _, call := range about(hooks.got(), key) {
				delete(call.body.Data.Run, "webhook_state")
				if d := cmp.Diff(run, call.body.Data.Run); d != "" || call.body.Type != event {
					t.Errorf("the message is %s, want %s; run (- GET, + message):\n%s", call.body.Type, event, d)
				}
			}
		}
		for _, call := range hooks.got() {
			if want[strings.TrimPrefix(call.id, "run_")] == "" {
				t.Errorf("nobody asked for the message %s", call.id)
			}
		}
	})
}
