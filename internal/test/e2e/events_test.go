package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// consumer is an executor that notes which keys have had each event.
type consumer struct {
	mu     sync.Mutex
	keys   map[string]map[string]bool // by event: keys of runs
	order  []string                   // events as they came first
	flying int
	most   int // runs at the same time
	wait   time.Duration
	answer func(name string) string // of a batch with this first event; "": SUCCESS
}

func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key     string `json:"idempotency_key"`
		Digest  string `json:"events_digest"`
		Handler struct {
			Root string `json:"root_key"`
		} `json:"handler"`
		Events []struct {
			ID   string          `json:"event_id"`
			Data json.RawMessage `json:"data"`
		} `json:"events"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || len(call.Events) == 0 || call.Digest == "" || call.Handler.Root == "" {
		http.Error(w, fmt.Sprint("a run of a consumer without a batch: ", err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	for _, e := range call.Events {
		if c.keys[e.ID] == nil {
			c.keys[e.ID] = make(map[string]bool)
			c.order = append(c.order, e.ID)
		}
		c.keys[e.ID][call.Key] = true
	}
	c.flying++
	c.most = max(c.most, c.flying)
	c.mu.Unlock()
	time.Sleep(c.wait)
	c.mu.Lock()
	c.flying--
	c.mu.Unlock()
	status := "SUCCESS"
	if c.answer != nil {
		if said := c.answer(call.Events[0].ID); said != "" {
			status = said
		}
	}
	_, _ = fmt.Fprintf(w, `{"status": %q, "run_id": %q, "failure_class": "transient"}`, status, call.Key[:8])
}

func (c *consumer) keysOf(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys[id])
}

// inboxOf are the states of the events of a consumer.
func (r *rest) inboxOf(scheduleID string) (states map[string]string, counts map[string]int) {
	r.t.Helper()
	states = make(map[string]string)
	for token := ""; ; {
		var page struct {
			Entries []struct {
				State, Reason string
				Event         struct {
					ID string `json:"event_id"`
				}
			}
			Next   string `json:"next_page_token"`
			Counts map[string]int
		}
		r.do("GET", "/v1/handlers/"+scheduleID+"/inbox?page_size=200&page_token="+token, nil, &page)
		for _, e := range page.Entries {
			states[e.Event.ID] = strings.TrimSuffix(e.State+" "+e.Reason, " ")
		}
		if counts, token = page.Counts, page.Next; token == "" {
			return states, counts
		}
	}
}

func consumerSite(t *testing.T, database string, c *consumer) (*process, *rest) {
	c.keys = make(map[string]map[string]bool)
	server := newServer(t, c.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}", "ALLOW_EGRESS=loopback"))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/schedules/c", `{"user_id": "ada", "workflow_id": "w", "version": 1, "consume": {"topics": ["orders.*"], "max_events": 20}, "retry": {"max_attempts": 2, "backoff_ms": 1000}}`, nil)
	return p, api
}

// TestLongEventsAreConsumedOnceAlthoughProcessesDie: publishers repeat what was not answered, while the
// only process is killed again and again.
func TestLongEventsAreConsumedOnceAlthoughProcessesDie(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &consumer{wait: 20 * time.Millisecond}
		p, api := consumerSite(t, database, c)
		const publishers, each = 3, 60
		var wg sync.WaitGroup
		for n := range publishers {
			wg.Go(func() {
				for i := range each {
					body := fmt.Sprintf(`{"user_id": "ada", "events": [{"event_id": "%d-%d-a", "data": {"n": %d}}, {"event_id": "%d-%d-b", "data": {}}]}`, n, i, i, n, i)
					for {
						status, _, err := api.call("POST", fmt.Sprintf("/v1/topics/orders.%d/events", n), body)
						if err == nil && status == http.StatusOK {
							break
						}
						time.Sleep(50 * time.Millisecond) // before it repeats
					}
				}
			})
		}
		for range 4 {
			want := c.handled() + 25
			eventually(t, startBound, "events are handled", func() error {
				if got := c.handled(); got < want && got < publishers*each*2 {
					return fmt.Errorf("%d of %d are", got, want)
				}
				return nil
			})
			p.kill()
			p.startReady()
		}
		wg.Wait()
		eventually(t, startBound, "all events are consumed", func() error {
			if _, counts := api.inboxOf("c"); counts["consumed"] != publishers*each*2 {
				return fmt.Errorf("%v", counts)
			}
			return nil
		})
		for n := range publishers {
			for i := range each {
				for _, half := range []string{"a", "b"} {
					if id := fmt.Sprintf("%d-%d-%s", n, i, half); c.keysOf(id) != 1 {
						t.Errorf("event %s was in %d runs", id, c.keysOf(id))
					}
				}
			}
		}
		if c.most > 1 {
			t.Errorf("%d runs of the consumer were in flight together", c.most)
		}
		last := make(map[string]int)
		for at, id := range c.order {
			n, rest, _ := strings.Cut(id, "-")
			var i int
			_, _ = fmt.Sscanf(rest, "%d", &i)
			if i < last[n] {
				t.Errorf("event %s came as number %d, after %d of its publisher", id, at, last[n])
			}
			last[n] = i
		}
	})
}

func (c *consumer) handled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order)
}

// TestLongEventsOfFailedRuns: the next attempt has them, after the last they are dead; a pause holds them
// back, and a deletion skips them.
func TestLongEventsOfFailedRuns(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &consumer{answer: func(name string) string {
			if strings.HasPrefix(name, "bad") {
				return "FAILED"
			}
			return ""
		}}
		p, api := consumerSite(t, database, c)
		publish := func(id string) {
			t.Helper()
			api.do("POST", "/v1/topics/orders.x/events", fmt.Sprintf(`{"user_id": "ada", "event_id": %q, "data": {}}`, id), nil)
		}
		is := func(id, want string) {
			t.Helper()
			eventually(t, startBound, id+" is "+want, func() error {
				if states, _ := api.inboxOf("c"); states[id] != want {
					return fmt.Errorf("it is %q", states[id])
				}
				return nil
			})
		}
		publish("bad-1")
		is("bad-1", "reserved")
		p.kill()
		p.startReady()
		is("bad-1", "dead failed")
		if n := c.keysOf("bad-1"); n != 2 {
			t.Errorf("bad-1 was in %d attempts", n)
		}
		publish("good-1")
		is("good-1", "consumed")
		api.do("POST", "/v1/schedules/c:pause", `{"note": "later"}`, nil)
		publish("good-2")
		p.kill()
		p.startReady()
		is("good-2", "pending")
		if c.keysOf("good-2") != 0 {
			t.Error("a paused consumer has run")
		}
		api.do("POST", "/v1/schedules/c:resume", `{}`, nil)
		is("good-2", "consumed")
		var event struct {
			Event struct{ Fanout int }
			Inbox []struct{ State, Run string }
		}
		api.do("GET", "/v1/topics/orders.x/events/good-2?user_id=ada", nil, &event)
		if event.Event.Fanout != 1 || len(event.Inbox) != 1 || event.Inbox[0].State != "consumed" || len(event.Inbox[0].Run) != 64 {
			t.Errorf("the event is shown as %+v", event)
		}
		for _, call := range []struct{ path, body, says string }{
			{"/v1/schedules/c:trigger", `{}`, "is a consumer"},
			{"/v1/topics/nobody/events", `{"user_id": "ada", "data": {}, "require_subscriber": true}`, "no_subscriber"},
		} {
			status, text, err := api.call("POST", call.path, call.body)
			if err != nil || status != http.StatusBadRequest && status != http.StatusConflict || !strings.Contains(string(text), call.says) {
				t.Errorf("POST %s: %d %s %v", call.path, status, text, err)
			}
		}
	})
}
