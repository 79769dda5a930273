package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// chain is an executor that counts in the state of its schedule, publishes each number, and answers a
// repeated key as before.
type chain struct {
	mu       sync.Mutex
	answers  map[string]string
	consumed map[string]int // runs that had an event
}

func (c *chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key      string `json:"idempotency_key"`
		Schedule string `json:"schedule_id"`
		Handler  struct {
			State struct{ N int } `json:"state"`
		} `json:"handler"`
		Events []struct {
			ID string `json:"event_id"`
		} `json:"events"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, known := c.answers[call.Key]
	switch {
	case known:
	case call.Schedule == "producer":
		n := call.Handler.State.N + 1
		answer = fmt.Sprintf(`{"status": "SUCCESS", "state": {"n": %d}, "publish": [{"topic": "numbers", "event_id": "n-%d", "data": %d}]}`, n, n, n)
	default:
		for _, e := range call.Events {
			c.consumed[e.ID]++
		}
		answer = `{"status": "SUCCESS"}`
	}
	c.answers[call.Key] = answer
	_, _ = fmt.Fprint(w, answer)
}

// TestLongStatesFormAChainAlthoughProcessesDie: each run of a schedule gets the state of the one before,
// and its event reaches the consumer once, while the only process is killed again and again.
func TestLongStatesFormAChainAlthoughProcessesDie(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &chain{answers: make(map[string]string), consumed: make(map[string]int)}
		server := newServer(t, c.ServeHTTP)
		p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
			"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}", "ALLOW_EGRESS=loopback"))
		p.startReady()
		api := newREST(t, p)
		api.do("PUT", "/v1/schedules/consumer", `{"user_id": "ada", "workflow_id": "w", "version": 1, "consume": {"topics": ["numbers"]}}`, nil)
		api.do("PUT", "/v1/schedules/producer", `{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "queue"}`, nil)
		const runs, kills = 40, 4
		state := func() (n, revision int) {
			var answer struct {
				Handler struct {
					State         struct{ N int }
					StateRevision int `json:"state_revision"`
				}
			}
			api.do("GET", "/v1/handlers/producer/state", nil, &answer)
			return answer.Handler.State.N, answer.Handler.StateRevision
		}
		for kill := range kills {
			for i := range runs / kills {
				api.do("POST", "/v1/schedules/producer:trigger", fmt.Sprintf(`{"request_id": "r-%d-%d"}`, kill, i), nil)
			}
			p.kill()
			p.startReady()
		}
		eventually(t, startBound, "all runs have committed", func() error {
			if n, revision := state(); n != runs || revision != runs {
				return fmt.Errorf("state %d of revision %d", n, revision)
			}
			return nil
		})
		eventually(t, startBound, "all events are consumed", func() error {
			if _, counts := api.inboxOf("consumer"); counts["consumed"] != runs {
				return fmt.Errorf("%v", counts)
			}
			return nil
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		for n := 1; n <= runs; n++ {
			if id := fmt.Sprintf("n-%d", n); c.consumed[id] != 1 {
				t.Errorf("event %s was in %d runs", id, c.consumed[id])
			}
		}
	})
}
