package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// drowsy is an executor that snoozes each piece of work twice, for a second: in its answer, then
// in a report. Then it succeeds. A key that it knows gets the same answer.
type drowsy struct {
	mu    sync.Mutex
	nth   map[string]int // by schedule: keys so far
	known map[string]int // by key
	calls map[string][]snoozedCall
}

type snoozedCall struct {
	runBody
	at time.Time
}

func (d *drowsy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body runBody
	if text, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(text, &body) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[body.Key] == 0 {
		d.nth[body.ScheduleID]++
		d.known[body.Key] = d.nth[body.ScheduleID]
		d.calls[body.ScheduleID] = append(d.calls[body.ScheduleID], snoozedCall{body, time.Now()})
	}
	w.Header().Set("Content-Type", "application/json")
	switch d.known[body.Key] {
	case 1:
		_, _ = io.WriteString(w, `{"run_id": "one", "status": "SNOOZE", "delay_ms": 1000}`)
	case 2:
		w.WriteHeader(http.StatusAccepted)
	default:
		_, _ = io.WriteString(w, `{"run_id": "three", "status": "SUCCESS"}`)
	}
}

// TestASnoozedRunStartsAgainAsTheSameAttempt, for a schedule and for a dispatch queue.
func TestASnoozedRunStartsAgainAsTheSameAttempt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, snoozeRuns)
}

func snoozeRuns(t *testing.T, database string) {
	d := &drowsy{nth: make(map[string]int), known: make(map[string]int), calls: make(map[string][]snoozedCall)}
	server := newServer(t, d.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute), "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/workflows/w/versions/1", `{"dag": {"workflow_id": "w", "version": 1}}`, nil)
	api.do("PUT", "/v1/queues/q", `{"user_id": "ada"}`, nil)
	for _, id := range []string{"alone", "queued"} {
		api.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", "once_at": %q, "input": {"for": %q}}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), id), nil)
	}
	api.do("POST", "/v1/schedules/alone:trigger", `{"request_id": "1"}`, nil)
	api.do("POST", "/v1/queues/q/runs", `{"schedule_id": "queued", "request_id": "1"}`, nil)

	for _, id := range []string{"alone", "queued"} {
		var second string
		eventually(t, startBound, id+" gets its second call", func() error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if calls := d.calls[id]; len(calls) == 2 {
				second = calls[1].Key
				return nil
			}
			return fmt.Errorf("it has had %d", len(d.calls[id]))
		})
		for wrong, why := range map[string]string{"-1": "delay_ms", "2592000001": "2592000000"} {
			status, answer, err := api.call("POST", "/v1/runs/"+second+":report", `{"status": "SNOOZE", "delay_ms": `+wrong+`}`)
			if err != nil || status != http.StatusBadRequest || !strings.Contains(string(answer), why) {
				t.Errorf("a delay of %s: %d %s (%v)", wrong, status, answer, err)
			}
		}
		for range 2 { // the second report repeats the first one
			api.do("POST", "/v1/runs/"+second+":report", `{"status": "SNOOZE", "delay_ms": 1000}`, nil)
		}
	}
	for _, id := range []string{"alone", "queued"} {
		var chain []attempt
		eventually(t, startBound, id+" succeeds", func() error {
			chain = api.chain(id)
			if !slices.ContainsFunc(chain, func(a attempt) bool { return a.Status == "SUCCESS" }) {
				return fmt.Errorf("its runs are %+v", chain)
			}
			return nil
		})
		slices.SortFunc(chain, func(a, b attempt) int { return a.FireAt.Compare(b.FireAt) })
		if len(chain) != 3 {
			t.Fatalf("%s has %d runs, want 3: %+v", id, len(chain), chain)
		}
		for i, a := range chain {
			if a.Attempt != 1 || a.Snoozes != i || a.Dead || i < 2 && (a.Status != "SKIPPED" || a.Reason != "snoozed" || a.RetriedBy != chain[i+1].Key || chain[i+1].RetryOf != a.Key) {
				t.Errorf("run %d of %s is %+v", i+1, id, a)
			}
		}
		d.mu.Lock()
		calls := d.calls[id]
		for i := 1; i < len(calls); i++ {
			if gap := calls[i].at.Sub(calls[i-1].at); gap < time.Second {
				t.Errorf("call %d of %s comes %s after the one before it, want a second at least", i+1, id, gap)
			}
		}
		d.mu.Unlock()
		status, answer, err := api.call("POST", "/v1/runs/"+chain[2].Key+":report", `{"status": "SNOOZE"}`)
		if err != nil || status != http.StatusConflict || !strings.Contains(string(answer), "cannot snooze: the run succeeded") {
			t.Errorf("a snooze after the end: %d %s (%v)", status, answer, err)
		}
	}
}
