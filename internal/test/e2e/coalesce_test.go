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

// holding is an executor that accepts runs and is told from outside when they end.
type holding struct {
	t     *testing.T
	mu    sync.Mutex
	calls []held // one of each key, in order
	open  map[string]bool
}

type held struct {
	Key          string    `json:"idempotency_key"`
	ScheduleID   string    `json:"schedule_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Trigger      string    `json:"trigger"`
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call held
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		h.t.Errorf("a request cannot be read: %v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := slices.ContainsFunc(h.calls, func(c held) bool { return c.Key == call.Key })
	if !known {
		h.calls = append(h.calls, call)
		if h.open[call.Key] = true; len(h.open) > 1 {
			h.t.Errorf("%d runs of one overlap key are open: %v", len(h.open), h.open)
		}
	}
	_, _ = w.Write([]byte(`{"run_id": "held"}`))
}

func (h *holding) got() []held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// end lets a run succeed.
func (h *holding) end(api *rest, key string) {
	h.t.Helper()
	h.mu.Lock()
	delete(h.open, key)
	h.mu.Unlock()
	api.do("POST", "/v1/runs/"+key+":report", `{"status": "SUCCESS", "run_id": "held"}`, nil)
}

// await waits for the nth call, counted from 0.
func (h *holding) await(n int, what string) held {
	h.t.Helper()
	eventually(h.t, 2*startBound, what, func() error {
		if got := len(h.got()); got <= n {
			return fmt.Errorf("the executor got %d calls", got)
		}
		return nil
	})
	return h.got()[n]
}

func holdingSite(t *testing.T, database string) (*process, *rest, *holding) {
	h := &holding{t: t, open: make(map[string]bool)}
	server := newServer(t, h.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}"))
	p.startReady()
	return p, newREST(t, p), h
}

// TestTheNewestSlotWaitsForALongRun is acceptance 7 of events, with kills: of three slots during a
// long run the newest starts after it, and the others are coalesced.
func TestTheNewestSlotWaitsForALongRun(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, h := holdingSite(t, database)
		const every = 2 * time.Second
		first := time.Now().Add(every).Truncate(every).Add(every).UTC()
		slot := func(n int) time.Time { return first.Add(time.Duration(n) * every) }
		api.do("PUT", "/v1/schedules/poll", fmt.Sprintf(`{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "coalesce", "interval_ms": %d,
			"start_at": %q, "end_at": %q}`, every.Milliseconds(), first.Format(time.RFC3339), slot(3).Format(time.RFC3339)), nil)
		var poll struct {
			Schedule struct {
				Catchup string `json:"catchup_policy"`
				Window  int    `json:"catchup_window_ms"`
			} `json:"schedule"`
		}
		if api.do("GET", "/v1/schedules/poll", nil, &poll); poll.Schedule.Catchup != "latest" || poll.Schedule.Window != 30*24*3600*1000 {
			t.Errorf("by default it catches up %+v", poll.Schedule)
		}
		long := h.await(0, "the first slot")
		runs := func() map[time.Time]run {
			of := make(map[time.Time]run)
			for _, r := range api.runs("/v1/runs", map[string][]string{"schedule_id": {"poll"}}) {
				of[r.RunAt.UTC()] = r
			}
			return of
		}
		eventually(t, 2*startBound, "the second slot waits", func() error {
			if r := runs()[slot(1)]; r.WaitingSince.IsZero() {
				return fmt.Errorf("it is %+v", r)
			}
			return nil
		})
		since := runs()[slot(1)].WaitingSince
		p.kill()
		p.startReady()
		eventually(t, 2*startBound, "the newest slot waits", func() error {
			of := runs()
			if of[slot(1)].Reason != "coalesced" || of[slot(2)].Reason != "coalesced" || of[slot(3)].WaitingSince.IsZero() {
				return fmt.Errorf("the runs are %+v", of)
			}
			return nil
		})
		if got := runs()[slot(3)].WaitingSince; !got.Equal(since) {
			t.Errorf("the newest slot waits since %s, not since %s", got, since)
		}
		p.kill()
		p.startReady()
		h.end(api, long.Key)
		if next := h.await(1, "the newest slot starts"); !next.ScheduledFor.Equal(slot(3)) {
			t.Errorf("after the long run that of %s starts, want %s", next.ScheduledFor, slot(3))
		} else {
			h.end(api, next.Key)
		}
		want := map[time.Time]string{slot(0): "SUCCESS", slot(1): "SKIPPED", slot(2): "SKIPPED", slot(3): "SUCCESS"}
		for at, r := range runs() {
			if r.Status != want[at] || r.Status == "SKIPPED" && r.Reason != "coalesced" {
				t.Errorf("the slot of %s is %s(%s), want %s", at, r.Status, r.Reason, want[at])
			}
		}
		if got := h.got(); len(got) != 2 {
			t.Errorf("the executor got %d runs, want 2: %+v", len(got), got)
		}
	})
}

// overlapGroup is an overlap group as REST shows it.
type overlapGroup struct {
	Status  string `json:"status"`
	Running []run  `json:"running"`
	Waiting []struct {
		Run run    `json:"run"`
		Why string `json:"why"`
	} `json:"waiting"`
	Pending struct {
		Runs int `json:"runs"`
	} `json:"pending"`
	Recent []struct {
		Key    string `json:"idempotency_key"`
		Status string `json:"status"`
	} `json:"recent"`
}

func (r *rest) overlapGroup() overlapGroup {
	r.t.Helper()
	var answer struct {
		Group overlapGroup `json:"group"`
	}
	r.do("GET", "/v1/overlap-groups/wf?user_id=ada", nil, &answer)
	return answer.Group
}

// TestAnOverlapGroupRunsEachProducerOnceInSequence is acceptance 21 of events, with kills.
func TestAnOverlapGroupRunsEachProducerOnceInSequence(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		p, api, h := holdingSite(t, database)
		for id, rest := range map[string]string{
			"mail": `"cron_expr": "0 0 29 2 *", "overlap_policy": "coalesce", "priority": 1`, "chat": `"cron_expr": "0 0 29 2 *", "overlap_policy": "skip"`,
			"off": `"cron_expr": "0 0 29 2 *", "overlap_policy": "coalesce", "paused": true`, "hand": `"overlap_policy": "coalesce"`,
		} {
			api.do("PUT", "/v1/schedules/"+id, `{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_key": "wf", `+rest+`}`, nil)
		}
		start := func(id string) (runs []run, repeated bool) {
			var answer struct {
				Runs     []run `json:"runs"`
				Repeated bool  `json:"repeated"`
			}
			api.do("POST", "/v1/overlap-groups/wf:run", fmt.Sprintf(`{"user_id": "ada", "request_id": %q}`, id), &answer)
			return answer.Runs, answer.Repeated
		}
		if g := api.overlapGroup(); g.Status != "idle" || g.Pending.Runs != 0 {
			t.Errorf("before anything runs the group is %+v", g)
		}
		runs, repeated := start("r1")
		if len(runs) != 2 || repeated || runs[0].ScheduleID != "chat" || runs[1].ScheduleID != "mail" {
			t.Fatalf("it starts %+v, repeated %t; want chat and mail", runs, repeated)
		}
		first := h.await(0, "the first run")
		busy := func(when string) {
			if status, answer, _ := api.call("POST", "/v1/overlap-groups/wf:run", `{"user_id": "ada", "request_id": "other"}`); status != http.StatusConflict || !strings.Contains(string(answer), "overlap_busy") {
				t.Errorf("%s it is answered %d %s, want 409 overlap_busy", when, status, answer)
			}
		}
		busy("while a run is in flight")
		p.kill()
		p.startReady()
		busy("after a kill")
		if again, repeated := start("r1"); !repeated || len(again) != 2 || again[0].Key != runs[0].Key || again[1].Key != runs[1].Key {
			t.Errorf("the same request again starts %+v, repeated %t", again, repeated)
		}
		eventually(t, 2*startBound, "one runs and one waits", func() error {
			g := api.overlapGroup()
			if g.Status != "running" || len(g.Running) != 1 || g.Running[0].Key != first.Key || len(g.Waiting) != 1 || !strings.Contains(g.Waiting[0].Why, first.Key) {
				return fmt.Errorf("the group is %+v", g)
			}
			return nil
		})
		h.end(api, first.Key)
		second := h.await(1, "the second run")
		if second.ScheduleID == first.ScheduleID || second.Trigger != "manual" {
			t.Errorf("after %+v runs %+v", first, second)
		}
		busy("while the second run is in flight")
		h.end(api, second.Key)
		if g := api.overlapGroup(); g.Status != "idle" || len(g.Recent) != 2 || g.Recent[0].Key != second.Key || g.Recent[0].Status != "SUCCESS" {
			t.Errorf("in the end the group is %+v", g)
		}
		if got := h.got(); len(got) != 2 {
			t.Errorf("the executor got %d runs, want 2", len(got))
		}
		if runs, _ := start("r2"); len(runs) != 2 {
			t.Errorf("once idle it starts %+v", runs)
		}
		h.await(2, "a run of the next request")
		for path, want := range map[string]int{"/v1/overlap-groups/none?user_id=ada": 404, "/v1/overlap-groups/wf?user_id=eve": 404, "/v1/overlap-groups/wf": 400} {
			if status, answer, _ := api.call("GET", path, ""); status != want {
				t.Errorf("GET %s is answered %d %s, want %d", path, status, answer, want)
			}
		}
	})
}
