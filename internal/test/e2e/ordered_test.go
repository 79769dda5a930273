package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sequences is an executor that fails the first attempt of some runs, and notes the order in which
// keys came, by the first letter of the names of the runs.
type sequences struct {
	mu     sync.Mutex
	fails  func(name string, attempt int) bool
	keys   map[string]bool
	starts map[string][]string // names; a retry has that of its run
	over   map[string]bool     // names of runs whose last attempt has been answered
	broken []string
}

func (s *sequences) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key     string `json:"idempotency_key"`
		Attempt int    `json:"attempt"`
		Input   struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, letter := call.Input.Name, call.Input.Name[:1]
	s.mu.Lock()
	if !s.keys[call.Key] {
		s.keys[call.Key] = true
		if n := len(s.starts[letter]); n > 0 && s.starts[letter][n-1] != name && !s.over[s.starts[letter][n-1]] {
			s.broken = append(s.broken, fmt.Sprintf("%s started while %s had attempts left", name, s.starts[letter][n-1]))
		}
		s.starts[letter] = append(s.starts[letter], name)
	}
	fails := s.fails(name, call.Attempt)
	s.mu.Unlock()
	timer := time.NewTimer(30 * time.Millisecond)
	defer timer.Stop()
	<-timer.C // a caller that dies does not end the work
	answer := `{"run_id": "r", "status": "SUCCESS"}`
	if fails {
		answer = `{"run_id": "r", "status": "FAILED", "error_code": "flaky"}`
	}
	s.mu.Lock()
	s.over[name] = s.over[name] || !fails
	s.mu.Unlock()
	_, _ = w.Write([]byte(answer))
}

func (s *sequences) started() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range s.starts {
		n += len(slices.Compact(slices.Clone(names)))
	}
	return n
}

// enterFor puts runs of a schedule into a queue in one request.
func (r *rest) enterFor(queue, scheduleID, limit string, names ...string) {
	var runs []string
	for _, name := range names {
		runs = append(runs, fmt.Sprintf(`{"schedule_id": %q, "input": {"name": %q}, "limits": [%q]}`, scheduleID, name, limit))
	}
	r.do("POST", "/v1/queues/"+queue+"/runs:batch", `{"request_id": "`+names[0]+`", "runs": [`+strings.Join(runs, ",")+`]}`, nil)
}

// TestLongRunsOfAKeyGoOneAfterTheOtherWithKills: two keys of an ordered limit, in two queues. Every
// third run fails at first, and the process is killed in between.
func TestLongRunsOfAKeyGoOneAfterTheOtherWithKills(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		s := &sequences{keys: make(map[string]bool), starts: make(map[string][]string), over: make(map[string]bool)}
		s.fails = func(name string, attempt int) bool { return strings.ContainsAny(name[1:], "369") && attempt == 1 }
		server := newServer(t, s.ServeHTTP)
		p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
			"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
		p.startReady()
		api := newREST(t, p)
		for _, q := range []string{"q", "other"} {
			api.do("PUT", "/v1/queues/"+q, `{"user_id": "ada", "max_in_flight": 100}`, nil)
		}
		for id, backoff := range map[string]int{"soon": 1000, "late": 600_000} {
			api.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"user_id": "ada", "workflow_id": "w", "version": 1, "retry": {"max_attempts": 3, "backoff_ms": %d}}`, backoff), nil)
		}
		api.do("PUT", "/v1/limits/account", `{"user_id": "ada", "keyed": true, "ordered": true}`, nil)
		api.enterFor("q", "soon", "account=a", numbered("a", 12)...)
		api.enterFor("q", "soon", "account=b", numbered("b", 12)...)
		for _, n := range []int{8, 16} {
			eventually(t, startBound, fmt.Sprint(n, " runs have started"), func() error {
				if got := s.started(); got < n {
					return fmt.Errorf("%d have", got)
				}
				return nil
			})
			p.kill()
			p.startReady()
		}
		eventually(t, 3*startBound, "all runs have started", func() error {
			if got := s.started(); got < 24 {
				return fmt.Errorf("%d have", got)
			}
			return nil
		})
		s.mu.Lock()
		for _, letter := range []string{"a", "b"} {
			if got := slices.Compact(slices.Clone(s.starts[letter])); !slices.Equal(got, numbered(letter, 12)) {
				t.Errorf("the runs of %s started in the order %v", letter, got)
			}
		}
		if len(s.broken) > 0 {
			t.Errorf("not one after the other: %v", s.broken)
		}
		s.fails = func(name string, attempt int) bool { return name == "c000" }
		s.mu.Unlock()

		// A retry that waits keeps the key, also from another queue, until somebody cancels it.
		api.enterFor("q", "late", "account=c", "c000")
		var limit struct {
			Users []struct {
				Key  string `json:"idempotency_key"`
				Kept bool   `json:"kept"`
			} `json:"users"`
			Limit struct {
				Used int `json:"used"`
			} `json:"limit"`
		}
		eventually(t, startBound, "the retry keeps the key", func() error {
			if api.do("GET", "/v1/limits/account", nil, &limit); len(limit.Users) != 1 || !limit.Users[0].Kept {
				return fmt.Errorf("it is used by %+v", limit.Users)
			}
			return nil
		})
		retry := limit.Users[0].Key
		api.enterFor("other", "late", "account=c", "c001")
		var waiting struct {
			Runs []job `json:"runs"`
		}
		api.do("GET", "/v1/queues/other/waiting", nil, &waiting)
		var why struct {
			BlockedBy []struct {
				What string   `json:"what"`
				By   []string `json:"used_by"`
			} `json:"blocked_by"`
			Sentences []string `json:"sentences"`
		}
		api.do("GET", "/v1/runs/"+waiting.Runs[0].Key+":explain", nil, &why)
		if len(why.BlockedBy) == 0 || why.BlockedBy[0].What != "limit" || !slices.Equal(why.BlockedBy[0].By, []string{retry}) {
			t.Errorf("the run of the other queue is blocked by %+v", why.BlockedBy)
		}
		if text := strings.Join(why.Sentences, "\n"); !strings.Contains(text, "Limit account=c is ordered: run ") || !strings.Contains(text, " failed, and its retry "+retry+" keeps the key") {
			t.Errorf("it is explained by\n%s", text)
		}
		api.do("POST", "/v1/runs/"+retry+":cancel", `{}`, nil)
		eventually(t, startBound, "the run of the other queue starts", func() error {
			if got := s.started(); got < 26 {
				return fmt.Errorf("%d have started", got)
			}
			return nil
		})
		eventually(t, startBound, "nothing uses the limit", func() error {
			limit.Limit.Used = 0
			if api.do("GET", "/v1/limits/account", nil, &limit); limit.Limit.Used != 0 {
				return fmt.Errorf("%d do", limit.Limit.Used)
			}
			return nil
		})
	})
}
