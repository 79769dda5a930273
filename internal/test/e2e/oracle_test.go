package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// oracle is an executor that honours keys, behaves as badly as the contract
// allows, and remembers everything: it is what the checker believes.
type oracle struct {
	t      testing.TB
	server *httptest.Server
	seed   uint64
	tame   bool // every run is fine, only their lengths differ

	ctx     context.Context // of reports
	work    sync.WaitGroup  // runs and reports under way
	mu      sync.Mutex
	calls   []call
	effects map[string]*effect
	wrongs  []string // what the executor itself saw go wrong
}

// call is one POST as it came in.
type call struct {
	at     time.Time
	key    string
	body   runBody
	raw    map[string]any
	number int // of its key, from 1
}

// runBody is the documented body.
type runBody struct {
	Key          string    `json:"idempotency_key"`
	ScheduleID   string    `json:"schedule_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Trigger      string    `json:"trigger"`
	Epoch        int64     `json:"epoch"`
	ReportURL    string    `json:"report_url"`
	ReportToken  string    `json:"report_token"`
}

// effect is the state of a key.
type effect struct {
	key, scheduleID string
	plan            behaviour
	runID           string
	calls           int
	first           time.Time // the first call came in
	began           time.Time // zero: not yet, so far it was only put off
	done            time.Time // its work is over
	said            time.Time // the first definite word on its end left for Carillon
	status          string    // SUCCESS, FAILED or "" while it runs
	refused         bool
	cancelled       bool
	promised        bool // some call was answered 202
}

func newOracle(t testing.TB, seed uint64, tame bool) *oracle {
	t.Helper()
	o := &oracle{t: t, seed: seed, tame: tame, effects: make(map[string]*effect)}
	ctx, cancel := context.WithCancel(context.Background())
	o.ctx = ctx
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run/{workflow}", o.run)
	mux.HandleFunc("DELETE /run/{key}", o.cancel)
	o.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		cancel()
		o.work.Wait()
		o.server.CloseClientConnections()
		o.server.Close()
	})
	return o
}

// env is what a launcher needs to reach it.
func (o *oracle) env() []string {
	return []string{
		"EXECUTOR=http", "EXECUTOR_URL=" + o.server.URL + "/run/{workflow_id}",
		"EXECUTOR_CANCEL_URL=" + o.server.URL + "/run/{idempotency_key}",
	}
}

func (o *oracle) wrong(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrongs = append(o.wrongs, fmt.Sprintf(format, args...))
}

// run is one call. For a known key it answers the current state; a new key begins its
// effect, after the number of refusals that its behaviour has.
func (o *oracle) run(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller died while it sent
	}
	c := call{at: at, key: r.Header.Get("Idempotency-Key")}
	if json.Unmarshal(text, &c.raw) != nil || json.Unmarshal(text, &c.body) != nil {
		o.wrong("the executor got a body that is not the contract's: %s", text)
	}
	if c.key != c.body.Key {
		o.wrong("header Idempotency-Key %q, body %q", c.key, c.body.Key)
	}
	switch e, next := o.enter(&c); next {
	case putOff:
		e.plan.stumble(w, r, c.number)
	case answerAgain:
		o.answer(w, e)
	case begin:
		o.perform(w, r, e, c.body)
	}
}

type entry int

const (
	putOff entry = iota
	answerAgain
	begin
)

func (o *oracle) enter(c *call) (*effect, entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.effects[c.key]
	if e == nil {
		e = &effect{key: c.key, scheduleID: c.body.ScheduleID, first: c.at, plan: o.behaviourOf(c.key), runID: "run-" + c.key[:12]}
		o.effects[c.key] = e
	}
	e.calls++
	c.number = e.calls
	o.calls = append(o.calls, *c)
	switch {
	case !e.began.IsZero() || e.refused || e.cancelled:
		return e, answerAgain
	case e.calls <= e.plan.stumbles:
		return e, putOff
	}
	e.began = time.Now()
	return e, begin
}

// behaviourOf draws a key's behaviour from the seed, so that it does not
// depend on how often or in which order keys come.
func (o *oracle) behaviourOf(key string) behaviour {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", o.seed, key) // a hash takes everything
	return newBehaviour(h.Sum64(), o.tame)
}

// answer returns the current state of a key.
func (o *oracle) answer(w http.ResponseWriter, e *effect) {
	o.mu.Lock()
	status, refused, cancelled := e.status, e.refused, e.cancelled
	e.promised = e.promised || status == "" && !refused && !cancelled
	if (status != "" || cancelled) && e.said.IsZero() {
		e.said = time.Now()
	}
	o.mu.Unlock()
	switch {
	case refused:
		http.Error(w, "this workflow is not welcome", http.StatusUnprocessableEntity)
	case cancelled:
		writeAnswer(w, http.StatusOK, map[string]string{"run_id": e.runID, "status": "FAILED", "error_code": "cancelled"})
	case status == "FAILED":
		writeAnswer(w, http.StatusOK, map[string]string{"run_id": e.runID, "status": status, "error_code": "E_BAD_LUCK"})
	case status != "":
		writeAnswer(w, http.StatusOK, map[string]string{"run_id": e.runID, "status": status})
	default:
		writeAnswer(w, http.StatusAccepted, map[string]string{"run_id": e.runID})
	}
}

func writeAnswer(w http.ResponseWriter, code int, answer map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the caller may be dead
}

// finish ends a key's work; a cancelled one has ended already.
func (o *oracle) finish(e *effect, status string) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.cancelled {
		return false
	}
	e.done, e.status = time.Now(), status
	return true
}

func (o *oracle) promisedReport(e *effect) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return e.promised
}

// cancel promises that the key has no effect from now on. What has ended
// already, or was never seen, is not there to be cancelled.
func (o *oracle) cancel(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	e := o.effects[r.PathValue("key")]
	found := e != nil && e.status == "" && !e.refused
	if found && !e.cancelled {
		e.cancelled, e.done = true, time.Now()
		if e.said.IsZero() {
			e.said = e.done
		}
	}
	o.mu.Unlock()
	if !found {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// report sends one report until it is answered, through every outage.
func (o *oracle) report(body runBody, e *effect, status string) {
	if status != "STARTED" {
		o.mu.Lock()
		if e.said.IsZero() {
			e.said = time.Now()
		}
		o.mu.Unlock()
	}
	payload := fmt.Sprintf(`{"status":%q,"run_id":%q}`, status, e.runID)
	for {
		code, answer, err := o.post(body, payload)
		switch {
		case o.ctx.Err() != nil:
			return
		case err == nil && code == http.StatusOK:
			return
		case err == nil && code >= 400 && code < 500:
			o.wrong("the report %s of key %s is answered %d: %s", status, e.key, code, answer)
			return
		}
		rest := time.NewTimer(100 * time.Millisecond)
		select {
		case <-o.ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

func (o *oracle) post(body runBody, payload string) (code int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(o.ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, body.ReportURL, strings.NewReader(payload))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+body.ReportToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
