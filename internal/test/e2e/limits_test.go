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

// gauge is an executor that knows which keys it works on, by the first letter of their names, and
// when each key came first.
type gauge struct {
	mu    sync.Mutex
	work  time.Duration
	open  map[string]map[string]int // keys by letter, with their calls
	most  map[string]int            // keys at once, by letter
	names []string
	calls map[string]int       // by key
	at    map[string]time.Time // the first call, by name
}

func newGauge(work time.Duration) *gauge {
	return &gauge{work: work, open: make(map[string]map[string]int), most: make(map[string]int), calls: make(map[string]int), at: make(map[string]time.Time)}
}

func (g *gauge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Key   string `json:"idempotency_key"`
		Input struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	letter := call.Input.Name[:1]
	g.mu.Lock()
	if g.open[letter] == nil {
		g.open[letter] = make(map[string]int)
	}
	g.open[letter][call.Key]++
	g.calls[call.Key]++
	g.most[letter] = max(g.most[letter], len(g.open[letter]))
	if _, known := g.at[call.Input.Name]; !known {
		g.at[call.Input.Name] = time.Now()
		g.names = append(g.names, call.Input.Name)
	}
	g.mu.Unlock()
	timer := time.NewTimer(g.work)
	defer timer.Stop()
	<-timer.C // a caller that dies does not end the work
	g.mu.Lock()
	if g.open[letter][call.Key]--; g.open[letter][call.Key] == 0 {
		delete(g.open[letter], call.Key)
	}
	g.mu.Unlock()
	_, _ = w.Write([]byte(`{"run_id": "r", "status": "SUCCESS"}`))
}

func (g *gauge) started(name string) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.at[name]
	return at, ok
}

// limitSite is one process with the queues q and other, each with many slots.
func limitSite(t *testing.T, database string, g *gauge) (*process, *rest) {
	server := newServer(t, g.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
	p.startReady()
	api := newREST(t, p)
	for _, q := range []string{"q", "other"} {
		api.do("PUT", "/v1/queues/"+q, `{"user_id": "ada", "max_in_flight": 100}`, nil)
	}
	return p, api
}

// enter puts one run into a queue, or many in one request.
func (r *rest) enter(queue, limits string, names ...string) {
	var runs []string
	for _, name := range names {
		runs = append(runs, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "input": {"name": %q}, "limits": [%s]}`, name, limits))
	}
	r.do("POST", "/v1/queues/"+queue+"/runs:batch", `{"request_id": "`+names[0]+`", "runs": [`+strings.Join(runs, ",")+`]}`, nil)
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%03d", prefix, i))
	}
	return names
}

// TestLongALimitHoldsOverTwoQueuesAndKills: the executor never has three runs of a limit of two.
func TestLongALimitHoldsOverTwoQueuesAndKills(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		g := newGauge(100 * time.Millisecond)
		p, api := limitSite(t, database, g)
		api.do("PUT", "/v1/limits/gpu", `{"user_id": "ada", "max_in_flight": 2}`, nil)
		api.enter("q", `"gpu"`, numbered("g", 60)...)
		api.enter("other", `"gpu"`, numbered("go", 60)...)
		api.enter("q", ``, numbered("f", 20)...)
		for n := 20; n < 120; n += 40 {
			eventually(t, startBound, fmt.Sprint(n, " runs have started"), func() error {
				g.mu.Lock()
				defer g.mu.Unlock()
				if len(g.names) < n {
					return fmt.Errorf("%d have", len(g.names))
				}
				return nil
			})
			p.kill()
			p.startReady()
		}
		eventually(t, 2*startBound, "all runs succeed", func() error {
			var left struct {
				Runs []job `json:"runs"`
			}
			if api.do("GET", "/v1/runs?status=ENQUEUED&status=STARTED&page_size=200", nil, &left); len(left.Runs) > 0 {
				return fmt.Errorf("%d are open", len(left.Runs))
			}
			return nil
		})
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.most["g"] != 2 || len(g.names) != 140 {
			t.Errorf("at most %d runs of gpu at once, %d runs in all; want 2 and 140", g.most["g"], len(g.names))
		}
		if g.most["f"] <= 2 {
			t.Errorf("runs without the limit were held: at most %d at once", g.most["f"])
		}
		var limit struct {
			Limit struct {
				Used int `json:"used"`
			} `json:"limit"`
		}
		if api.do("GET", "/v1/limits/gpu", nil, &limit); limit.Limit.Used != 0 {
			t.Errorf("%d uses are left", limit.Limit.Used)
		}
	})
}

// TestAKeyOfALimitDoesNotDelayAnother: a thousand runs of one customer, and one of another.
func TestAKeyOfALimitDoesNotDelayAnother(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		g := newGauge(300 * time.Millisecond)
		_, api := limitSite(t, database, g)
		api.do("PUT", "/v1/limits/customer", `{"user_id": "ada", "keyed": true, "max_in_flight": 1}`, nil)
		many := numbered("a", 1000)
		api.enter("q", `"customer=a7"`, many...)
		eventually(t, startBound, "the first one starts", func() error {
			if _, ok := g.started(many[0]); !ok {
				return fmt.Errorf("none has")
			}
			return nil
		})
		began := time.Now()
		api.enter("q", `"customer=b1"`, "b")
		eventually(t, startBound, "the other customer's run starts", func() error {
			if _, ok := g.started("b"); !ok {
				return fmt.Errorf("it waits")
			}
			return nil
		})
		if at, _ := g.started("b"); at.Sub(began) > startBound/2 {
			t.Errorf("it started after %s", at.Sub(began))
		}
		g.mu.Lock()
		if g.most["a"] != 1 {
			t.Errorf("%d runs of one customer at once", g.most["a"])
		}
		g.mu.Unlock()
		// Between an end and the next admission nothing blocks the next run.
		eventually(t, startBound, "the next run is explained by the limit", func() error {
			var waiting struct {
				Runs []job `json:"runs"`
			}
			if api.do("GET", "/v1/queues/q/waiting?page_size=1", nil, &waiting); len(waiting.Runs) == 0 {
				t.Fatal("no run waits any more")
			}
			var why struct {
				BlockedBy []struct {
					What  string `json:"what"`
					Limit string `json:"limit"`
					Max   int    `json:"max"`
				} `json:"blocked_by"`
			}
			api.do("GET", "/v1/runs/"+waiting.Runs[0].Key+":explain", nil, &why)
			if len(why.BlockedBy) == 0 || why.BlockedBy[0].What != "limit" || why.BlockedBy[0].Limit != "customer=a7" || why.BlockedBy[0].Max != 1 {
				return fmt.Errorf("it is explained by %+v", why.BlockedBy)
			}
			return nil
		})
	})
}

// TestAWindowHasNoMoreStartsThanTheRate, within the time that a call takes to arrive.
func TestAWindowHasNoMoreStartsThanTheRate(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		g := newGauge(0)
		_, api := limitSite(t, database, g)
		api.do("PUT", "/v1/limits/api", `{"user_id": "ada", "rate": {"starts": 10, "per_ms": 1000}}`, nil)
		api.enter("q", `"api"`, numbered("a", 15)...)
		api.enter("other", `"api"`, numbered("b", 15)...)
		eventually(t, startBound, "all runs start", func() error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.at) < 30 {
				return fmt.Errorf("%d have", len(g.at))
			}
			return nil
		})
		g.mu.Lock()
		defer g.mu.Unlock()
		var starts []time.Time
		for _, at := range g.at {
			starts = append(starts, at)
		}
		slices.SortFunc(starts, time.Time.Compare)
		// 30 starts at 10 a second take 2.9 s. Each call may arrive late, and so later ones seem closer.
		if took := starts[len(starts)-1].Sub(starts[0]); took < 2700*time.Millisecond {
			t.Errorf("30 runs started within %s, at a rate of 10 a second", took)
		}
	})
}
