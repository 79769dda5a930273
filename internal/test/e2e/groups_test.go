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

// jobGroup is what REST says about a group.
type jobGroup struct {
	GroupID   string `json:"group_id"`
	State     string `json:"state"`
	Members   int    `json:"members"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	Skipped   int    `json:"skipped"`
	Cancelled int    `json:"cancelled"`
	Complete  string `json:"on_complete_key"`
}

func (r *rest) group(id string) jobGroup {
	var answer struct {
		Group jobGroup `json:"group"`
	}
	r.do("GET", "/v1/groups/"+id, nil, &answer)
	return answer.Group
}

// ender ends runs as their names say: those that begin with "bad" fail. Two calls of names
// "pair.N.a" and "pair.N.b" are answered at the same time.
type ender struct {
	mu    sync.Mutex
	calls []string            // names, each call
	keys  map[string][]string // by name, each once
	pairs map[string]chan struct{}
	told  map[string]string // queue, group and last attempt by name
}

func newEnder() *ender {
	return &ender{keys: make(map[string][]string), pairs: make(map[string]chan struct{}), told: make(map[string]string)}
}

func (e *ender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key   string `json:"idempotency_key"`
		Queue string `json:"queue_id"`
		Group string `json:"group_id"`
		Last  int    `json:"max_attempts"`
		Input struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := call.Input.Name
	e.mu.Lock()
	e.told[name] = fmt.Sprintf("%s %s %d", call.Queue, call.Group, call.Last)
	e.calls = append(e.calls, name)
	if !slices.Contains(e.keys[name], call.Key) {
		e.keys[name] = append(e.keys[name], call.Key)
	}
	var both chan struct{}
	if pair, half, ok := strings.Cut(strings.TrimPrefix(name, "pair."), "."); ok && strings.HasPrefix(name, "pair.") && half != "" {
		if both = e.pairs[pair]; both == nil {
			both = make(chan struct{})
			e.pairs[pair] = both
		} else if other := "pair." + pair + "." + map[string]string{"a": "b", "b": "a"}[half]; len(e.keys[other]) > 0 {
			select {
			case <-both:
			default:
				close(both)
			}
		}
	}
	e.mu.Unlock()
	if both != nil {
		select {
		case <-both:
		case <-r.Context().Done():
			return
		}
	}
	if strings.HasPrefix(name, "bad") {
		_, _ = w.Write([]byte(`{"run_id": "r", "status": "FAILED", "error_code": "broken"}`))
		return
	}
	_, _ = w.Write([]byte(`{"run_id": "r", "status": "SUCCESS"}`))
}

func (e *ender) got(name string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.keys[name])
}

// groupSite is one process with a queue, a schedule of its runs that is retried after a second,
// and a sink of its messages.
func groupSite(t *testing.T, database string, grace time.Duration) (*process, *rest, *ender, *sink) {
	e, hooks := newEnder(), newSink(t)
	server := newServer(t, e.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, grace),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}", "ALLOW_EGRESS=loopback", hooks.targets()))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/queues/q", `{"user_id": "ada", "max_in_flight": 100, "webhook": "billing", "webhook_events": ["group.ended"]}`, nil)
	api.do("PUT", "/v1/schedules/s", `{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "allow", "retry": {"max_attempts": 3, "backoff_ms": 1000}}`, nil)
	return p, api, e, hooks
}

func members(names ...string) string {
	var runs []string
	for _, name := range names {
		runs = append(runs, fmt.Sprintf(`{"schedule_id": "s", "input": {"name": %q}}`, name))
	}
	return "[" + strings.Join(runs, ",") + "]"
}

// endedOnce fails unless each group has one message, which shows it as GetGroup does.
func endedOnce(t *testing.T, hooks *sink, api *rest, ids ...string) {
	t.Helper()
	found := make(map[string]map[string]bool) // ids of messages by group
	eventually(t, startBound, "each group is told of", func() error {
		clear(found)
		for _, call := range hooks.got() {
			if call.body.Type != "group.ended" {
				t.Errorf("a message of type %s", call.body.Type)
			}
			id, _ := call.body.Data.Group["group_id"].(string)
			if found[id] == nil {
				found[id] = make(map[string]bool)
			}
			found[id][call.id] = true
		}
		if len(found) < len(ids) {
			return fmt.Errorf("%d of %d groups are", len(found), len(ids))
		}
		return nil
	})
	for _, id := range ids {
		if len(found[id]) != 1 {
			t.Errorf("group %s has %d messages", id, len(found[id]))
		}
	}
	for _, call := range hooks.got() {
		id, _ := call.body.Data.Group["group_id"].(string)
		if state := api.group(id).State; call.body.Data.Group["state"] != state {
			t.Errorf("the message says that group %s is %v, and it is %s", id, call.body.Data.Group["state"], state)
		}
	}
}

// TestLongASequentialGroupStopsOnceItsMemberHasFailedForGood is acceptance 7, with a kill before
// each attempt of the member that fails.
func TestLongASequentialGroupStopsOnceItsMemberHasFailedForGood(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, hooks := groupSite(t, database, time.Minute)
		var made struct {
			Keys []string `json:"idempotency_keys"`
		}
		api.do("POST", "/v1/groups", `{"group_id": "five", "queue_id": "q", "mode": "sequential", "sealed": true, "runs": `+members("one", "two", "bad three", "four", "five")+`,
			"on_complete": {"schedule_id": "s", "input": {"name": "done"}}}`, &made)
		for attempt := 1; attempt <= 3; attempt++ {
			eventually(t, startBound, fmt.Sprint("attempt ", attempt, " of the third"), func() error {
				if n := len(e.got("bad three")); n < attempt {
					return fmt.Errorf("%d attempts", n)
				}
				return nil
			})
			if attempt < 3 {
				if g := api.group("five"); g.State != "RUNNING" || g.Cancelled != 0 {
					t.Errorf("after attempt %d the group is %+v", attempt, g)
				}
				p.kill()
				p.startReady()
			}
		}
		eventually(t, startBound, "the group ends", func() error {
			if g := api.group("five"); g.State == "RUNNING" {
				return fmt.Errorf("it is %+v", g)
			}
			return nil
		})
		want := jobGroup{GroupID: "five", State: "PARTIAL", Members: 5, Succeeded: 2, Failed: 1, Cancelled: 2}
		got := api.group("five")
		complete := got.Complete
		if got.Complete = ""; got != want {
			t.Errorf("the group is %+v, want %+v", got, want)
		}
		for _, key := range made.Keys[3:] {
			var answer struct {
				Run struct {
					Status, Reason, GroupID string
					Group                   string `json:"group_id"`
				} `json:"run"`
			}
			if api.do("GET", "/v1/runs/"+key, nil, &answer); answer.Run.Status != "CANCELLED" || answer.Run.Reason != "predecessor_failed" || answer.Run.Group != "five" {
				t.Errorf("a member behind the failure is %+v", answer.Run)
			}
		}
		eventually(t, startBound, "the run that follows", func() error {
			if keys := e.got("done"); len(keys) != 1 || keys[0] != complete {
				return fmt.Errorf("it came with the keys %q, want %q", keys, complete)
			}
			return nil
		})
		if len(e.got("four"))+len(e.got("five")) > 0 || len(e.got("bad three")) != 3 {
			t.Errorf("the executor got %q", e.calls)
		}
		if e.told["bad three"] != "q five 3" || e.told["done"] != "q  3" {
			t.Errorf("the executor was told of queue, group and last attempt %q", e.told)
		}
		endedOnce(t, hooks, api, "five")
		api.do("POST", "/v1/groups/five:retry", `{"new_group_id": "again"}`, nil)
		if g := api.group("again"); g.Members != 3 {
			t.Errorf("the retry has the members that failed or were cancelled, got %+v", g)
		}
	})
}

// TestLongTwoLastMembersEndTheirGroupOnce is acceptance 8: the executor answers both calls at the
// same time, and the process is killed meanwhile.
func TestLongTwoLastMembersEndTheirGroupOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, hooks := groupSite(t, database, time.Minute)
		const groups = 120
		var ids []string
		for n := range groups {
			id := fmt.Sprintf("g%03d", n)
			ids = append(ids, id)
			api.do("POST", "/v1/groups", fmt.Sprintf(`{"group_id": %q, "queue_id": "q", "runs": %s, "on_complete": {"schedule_id": "s", "input": {"name": "done %d"}}}`,
				id, members(fmt.Sprintf("pair.%d.a", n), fmt.Sprintf("pair.%d.b", n)), n), nil)
			api.do("POST", "/v1/groups/"+id+":seal", `{}`, nil)
			if n%50 == 30 {
				p.kill()
				p.startReady()
			}
		}
		eventually(t, 2*startBound, "all groups are complete", func() error {
			var running struct {
				Groups []jobGroup `json:"groups"`
			}
			if api.do("GET", "/v1/groups?queue_id=q&state=RUNNING", nil, &running); len(running.Groups) > 0 {
				return fmt.Errorf("%d run, the first one %+v", len(running.Groups), running.Groups[0])
			}
			return nil
		})
		for n, id := range ids {
			g := api.group(id)
			if g.State != "COMPLETED" || g.Succeeded != 2 {
				t.Errorf("group %s is %+v", id, g)
			}
			eventually(t, startBound, "the run that follows group "+id, func() error {
				if keys := e.got(fmt.Sprint("done ", n)); len(keys) != 1 || keys[0] != g.Complete {
					return fmt.Errorf("it came with the keys %q, want %q", keys, g.Complete)
				}
				return nil
			})
		}
		endedOnce(t, hooks, api, ids...)
		// Acceptance 9.
		api.do("POST", "/v1/groups", `{"group_id": "empty", "queue_id": "q", "sealed": true}`, nil)
		api.do("POST", "/v1/groups", `{"group_id": "open", "queue_id": "q"}`, nil)
		if empty, open := api.group("empty").State, api.group("open").State; empty != "COMPLETED" || open != "RUNNING" {
			t.Errorf("an empty sealed group is %s, and an unsealed one %s", empty, open)
		}
	})
}
