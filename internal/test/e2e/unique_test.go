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

// entered is the answer to an entry.
type entered struct {
	Run struct {
		Key       string    `json:"idempotency_key"`
		Status    string    `json:"status"`
		Attempt   int       `json:"attempt"`
		RetriedBy string    `json:"retried_by"`
		FireAt    time.Time `json:"fire_at"`
		Unique    *struct {
			Key      string `json:"key"`
			Replaced int    `json:"replaced"`
		} `json:"unique"`
	} `json:"run"`
	Duplicate bool `json:"duplicate"`
	Replaced  bool `json:"replaced"`
	Repeated  bool `json:"repeated"`
}

func (r *rest) enters(name, more string) (got entered) {
	r.t.Helper()
	r.do("POST", "/v1/queues/q/runs", fmt.Sprintf(`{"schedule_id":"s","input":{"name":%q}%s}`, name, more), &got)
	return got
}

func (r *rest) entry(key string) (got entered) {
	r.t.Helper()
	r.do("GET", "/v1/runs/"+key, nil, &got)
	return got
}

// TestLongAUniqueRunInBackoffIsReturnedAndItsRetryRuns: the only process dies while the retry waits.
func TestLongAUniqueRunInBackoffIsReturnedAndItsRetryRuns(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, _ := groupSite(t, database, time.Minute)
		api.do("PUT", "/v1/schedules/s", `{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "allow", "retry": {"max_attempts": 2, "backoff_ms": 4000}}`, nil)
		first := api.enters("bad", `,"unique":{"key":"order 17"}`)
		if first.Duplicate || first.Run.Unique == nil || first.Run.Unique.Key != "order 17" {
			t.Fatalf("the first entry: %+v", first)
		}
		var retry string
		eventually(t, startBound, "the first attempt has failed", func() error {
			if retry = api.entry(first.Run.Key).Run.RetriedBy; retry == "" {
				return fmt.Errorf("it is %s", api.entry(first.Run.Key).Run.Status)
			}
			return nil
		})
		p.kill()
		p.startReady()
		for _, on := range []string{"return", "replace"} {
			got := api.enters("other", `,"unique":{"key":"order 17","on_duplicate":"`+on+`"}`)
			if !got.Duplicate || got.Replaced || got.Run.Key != retry || got.Run.Attempt != 2 || got.Run.Unique == nil {
				t.Errorf("%s in backoff: %+v, want the retry %s", on, got, retry)
			}
		}
		status, text, err := api.call("POST", "/v1/queues/q/runs", `{"schedule_id":"s","unique":{"key":"order 17","on_duplicate":"refuse"}}`)
		if err != nil || status != http.StatusConflict || !strings.Contains(string(text), retry) {
			t.Errorf("refuse in backoff: %d %s %v", status, text, err)
		}
		eventually(t, startBound, "the retry has run", func() error {
			if run := api.entry(retry).Run; run.Status != "FAILED" || run.Unique != nil {
				return fmt.Errorf("it is %+v", run)
			}
			return nil
		})
		if got := e.got("bad"); len(got) != 2 || len(e.got("other")) != 0 {
			t.Errorf("the executor has got %v, and of the duplicates %v", got, e.got("other"))
		}
		if got := api.enters("next", `,"unique":{"key":"order 17"}`); got.Duplicate {
			t.Errorf("the key is not free after the last attempt: %+v", got)
		}
	})
}

// TestLongADebouncedRunStartsWithTheLastInput: also when the process dies while it waits.
func TestLongADebouncedRunStartsWithTheLastInput(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, _ := groupSite(t, database, time.Minute)
		const debounced = `,"unique":{"key":"doc","scope":"waiting","on_duplicate":"replace","debounce":{"quiet_ms":1500,"max_ms":60000}}`
		first := api.enters("v0", debounced)
		for i := range 5 {
			if i == 2 {
				p.kill()
				p.startReady()
			}
			got := api.enters(fmt.Sprint("v", i+1), debounced+fmt.Sprintf(`,"request_id":"v%d"`, i+1))
			if i < 2 && (!got.Replaced || got.Run.Key != first.Run.Key) {
				t.Errorf("entry %d: %+v", i+1, got)
			}
		}
		eventually(t, startBound, "the last input has run", func() error {
			if len(e.got("v5")) == 0 {
				return fmt.Errorf("it has not")
			}
			return nil
		})
		// A restart may take longer than the quiet time; then there are two runs.
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, name := range e.calls {
			if name != "v5" && name != "v2" {
				t.Errorf("%s has run: %v", name, e.calls)
			}
		}
	})
}

// TestLongKillsLeaveOneRunForEachUniqueKey: many clients enter under the same keys while the only
// process dies.
func TestLongKillsLeaveOneRunForEachUniqueKey(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, e, _ := groupSite(t, database, time.Minute)
		api.do("POST", "/v1/queues/q:pause", `{}`, nil)
		const clients, keys = 8, 12
		var mu sync.Mutex
		answers := make(map[string]map[string]bool)
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for k := range keys {
					key := fmt.Sprint("k", k)
					body := fmt.Sprintf(`{"schedule_id":"s","input":{"name":%q},"unique":{"key":%q}}`, key, key)
					var got entered
					err := within(startBound, func() error {
						status, text, err := api.call("POST", "/v1/queues/q/runs", body)
						if err == nil && status != http.StatusOK {
							err = fmt.Errorf("%d: %s", status, text)
						}
						if err != nil {
							return err
						}
						return json.Unmarshal(text, &got)
					})
					if err != nil {
						t.Errorf("enter %s: %v", key, err)
					}
					mu.Lock()
					if answers[key] == nil {
						answers[key] = make(map[string]bool)
					}
					answers[key][got.Run.Key] = true
					mu.Unlock()
				}
			})
		}
		for range 2 {
			time.Sleep(100 * time.Millisecond) // in the midst of the entries
			p.kill()
			p.startReady()
		}
		wg.Wait()
		for key, got := range answers {
			if len(got) != 1 {
				t.Errorf("%s is answered with %d runs", key, len(got))
			}
		}
		api.do("POST", "/v1/queues/q:resume", `{}`, nil)
		eventually(t, startBound, "each has run", func() error {
			for k := range keys {
				if len(e.got(fmt.Sprint("k", k))) == 0 {
					return fmt.Errorf("k%d has not", k)
				}
			}
			return nil
		})
		for k := range keys {
			if got := e.got(fmt.Sprint("k", k)); len(got) != 1 {
				t.Errorf("k%d has run %d times", k, len(got))
			}
		}
	})
}
