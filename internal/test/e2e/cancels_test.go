package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// cancelSite is a deployment with a queue "q" of many runs, three of them in flight, and a queue
// "other" that is paused.
type cancelSite struct {
	*testing.T
	*rest
	processes []*process
	executor  *workbench
	hooks     *sink
	keys      map[string]bool // the runs of q
	answered  []string        // those that an answer has named
	random    *rand.Rand
}

// cancelAnswer is the answer to one page of a cancel.
type cancelAnswer struct {
	Cancelled int    `json:"cancelled"`
	Requested int    `json:"cancel_requested"`
	Sample    []job  `json:"sample"`
	Next      string `json:"next_page_token"`
}

const runsToCancel = 450

func newCancelSite(t *testing.T, database string) *cancelSite {
	s := &cancelSite{T: t, executor: &workbench{keys: make(map[string]int)}, hooks: newSink(t), keys: make(map[string]bool), random: rand.New(rand.NewPCG(seed(t), 1))}
	server := httptest.NewServer(s.executor)
	t.Cleanup(server.Close)
	env := append(settings(database, time.Minute), "WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/run/{workflow_id}",
		"EXECUTOR_TIMEOUT_MS=60000", "ALLOW_EGRESS=loopback", s.hooks.targets())
	s.processes = []*process{newProcess(t, "carillon", []string{"serve", "--migrate"}, env)}
	if database != "" {
		s.processes = append(s.processes, newProcess(t, "second", []string{"serve"}, env))
	}
	s.startAll()
	s.rest = newREST(t, s.processes...)
	s.do("PUT", "/v1/queues/q", `{"user_id":"ada","max_in_flight":3,"webhook":"billing"}`, nil)
	s.do("PUT", "/v1/queues/other", `{"user_id":"ada"}`, nil)
	s.do("POST", "/v1/queues/other:pause", `{}`, nil)
	s.enter("other", "", numbered("other", 5)...)
	t.Cleanup(s.executor.stop()) // until the end of the test
	s.enter("q", "", numbered("j", runsToCancel)...)
	for _, r := range s.runs("/v1/queues/q/runs", url.Values{}) {
		s.keys[r.Key] = true
	}
	eventually(t, startBound, "three runs are in flight", func() error {
		if got := s.executor.got(); len(got) != 3 {
			return fmt.Errorf("the executor has %v", got)
		}
		return nil
	})
	return s
}

func (s *cancelSite) startAll() {
	for _, p := range s.processes {
		p.startReady()
	}
}

// cancelRequest is one page of the cancel of q.
func cancelRequest(size int, token string) string {
	return fmt.Sprintf(`{"request_id":"stop","note":"wrong input","page_size":%d,"page_token":%q}`, size, token)
}

// page cancels a page, and notes the runs that the answer names.
func (s *cancelSite) page(size int, token string) cancelAnswer {
	s.Helper()
	var answer cancelAnswer
	s.do("POST", "/v1/queues/q:cancel", cancelRequest(size, token), &answer)
	s.notes(&answer)
	return answer
}

func (s *cancelSite) notes(answer *cancelAnswer) {
	s.Helper()
	for _, r := range answer.Sample {
		if !s.keys[r.Key] || slices.Contains(s.answered, r.Key) {
			s.Errorf("the answer names %s, which is of another queue or was cancelled before", r.Key)
		}
		s.answered = append(s.answered, r.Key)
	}
}

// pageAndKill kills all processes while they cancel a page.
func (s *cancelSite) pageAndKill(size int, token string) {
	s.Helper()
	var both sync.WaitGroup
	both.Go(func() {
		status, text, err := s.call("POST", "/v1/queues/q:cancel", cancelRequest(size, token))
		if err != nil || status != http.StatusOK {
			return // its outcome is unknown
		}
		var answer cancelAnswer
		if err := json.Unmarshal(text, &answer); err != nil {
			s.Errorf("%v in %s", err, text)
		}
		s.answered = append(s.answered, keysOf(answer.Sample)...)
	})
	<-time.After(time.Duration(s.random.Int64N(int64(60 * time.Millisecond)))) // the moment of the kill is what is random
	for _, p := range s.processes {
		both.Go(p.kill)
	}
	both.Wait()
}

func keysOf(jobs []job) (keys []string) {
	for _, j := range jobs {
		keys = append(keys, j.Key)
	}
	return keys
}

// reached are the runs of q that are cancelled, or in flight with a request for it, by key.
func (s *cancelSite) reached() map[string]run {
	s.Helper()
	reached := make(map[string]run)
	for _, r := range s.runs("/v1/queues/q/runs", url.Values{}) {
		if r.Status == "CANCELLED" && r.Reason == "cancelled" || !r.CancelAsked.IsZero() {
			reached[r.Key] = r
		}
	}
	return reached
}

// TestLongACancelOfManyRunsOutlivesKillsOfAllProcesses: answered cancels stay, each page is whole, and
// the same requests again cancel the rest, each run once.
func TestLongACancelOfManyRunsOutlivesKillsOfAllProcesses(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		s := newCancelSite(t, database)
		token, killed := "", 150
		for kills := range 3 {
			for range 2 {
				answer := s.page(20, token)
				// A page of 20 may have found up to three that are in flight and were asked for before.
				if n := answer.Cancelled + answer.Requested; n < 17 || n > 20 || len(answer.Sample) != n || answer.Next == "" {
					t.Fatalf("a page of 20 has cancelled %d, named %d", n, len(answer.Sample))
				}
				token = answer.Next
			}
			before := len(s.reached())
			s.pageAndKill(killed, token)
			s.startAll()
			reached := s.reached()
			for _, key := range s.answered {
				if reached[key].Key == "" {
					t.Errorf("kill %d: the cancel of %s was answered, and is lost", kills, key)
				}
			}
			if n := len(reached) - before; n != 0 && (n < killed-3 || n > killed) {
				t.Errorf("kill %d: a page of %d has cancelled %d", kills, killed, n)
			}
			t.Logf("kill %d: the cancel has reached %d of %d, %d before the page", kills, len(reached), runsToCancel, before)
			if len(reached) > before { // the repeat reaches those behind
				killed = 60
			}
		}
		for token != "" {
			token = s.page(100, token).Next
		}
		s.cancelledOnce()
	})
}

// cancelledOnce: all runs of q and no others are cancelled, each once, and told so.
func (s *cancelSite) cancelledOnce() {
	s.Helper()
	if again := s.page(1000, ""); again.Cancelled+again.Requested != 0 {
		s.Errorf("once all were cancelled, a repeat cancels %d and requests %d", again.Cancelled, again.Requested)
	}
	var over []run
	eventually(s.T, startBound, "the runs in flight are cancelled too", func() error {
		if over = s.runs("/v1/queues/q/runs", url.Values{"status": {"CANCELLED"}}); len(over) < runsToCancel {
			return fmt.Errorf("%d of %d are", len(over), runsToCancel)
		}
		return nil
	})
	asked := 0
	for _, e := range s.events(over[0].ScheduleID) {
		if e.Kind == "cancel_asked" {
			asked += e.Count
		}
	}
	if asked != runsToCancel {
		s.Errorf("the log counts %d cancels of %d runs", asked, runsToCancel)
	}
	if got := s.executor.got(); len(got) != 3 {
		s.Errorf("the executor got %v, and only three were in flight", got)
	}
	waiting := s.runs("/v1/queues/other/runs", url.Values{"status": {"ENQUEUED"}})
	if len(waiting) != 5 {
		s.Errorf("%d runs wait in the other queue, want 5", len(waiting))
	}
	eventually(s.T, 2*startBound, "each end is told", func() error {
		ids := make(map[string]map[string]bool)
		for _, c := range s.hooks.got() {
			key := fmt.Sprint(c.body.Data.Run["idempotency_key"])
			if ids[key] == nil {
				ids[key] = make(map[string]bool)
			}
			ids[key][c.id] = true
			if c.body.Type != "run.cancelled" || !s.keys[key] || len(ids[key]) > 1 {
				s.Fatalf("a message %s of %s, %d ids", c.body.Type, key, len(ids[key]))
			}
		}
		if len(ids) < runsToCancel {
			return fmt.Errorf("%d of %d are", len(ids), runsToCancel)
		}
		return nil
	})
}
