package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

type oracle struct {
	log  *record.Writer
	seed uint64
	tame bool
	ctx  context.Context // of runs and reports, which outlive their request
	work sync.WaitGroup

	mu       sync.Mutex
	effects  map[string]*effect
	tally    tally
	incident incident
	down     chan time.Duration // the listener is to be closed so long
}

// tally is what /seen answers, for the rig to see that slots flow.
type tally struct {
	First  time.Time           `json:"first"`  // when the newest key came in
	Newest map[int64]time.Time `json:"newest"` // when the newest key of each epoch came in
}

// effect is the state of a key.
type effect struct {
	key, runID string
	plan       behaviour
	calls      int
	begun      bool
	status     string // SUCCESS, FAILED, SNOOZE or "" while it runs
	said       bool
	refused    bool
	cancelled  bool
	promised   bool // some call was told that a report will come
}

// runBody is what the oracle reads of the documented body.
type runBody struct {
	Key          string    `json:"idempotency_key"`
	ScheduleID   string    `json:"schedule_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Trigger      string    `json:"trigger"`
	Epoch        int64     `json:"epoch"`
	ReportURL    string    `json:"report_url"`
	ReportToken  string    `json:"report_token"`
	Queue        string    `json:"queue_id"`
	Input        struct {
		N int `json:"n"`
	} `json:"input"`
}

func newOracle(ctx context.Context, folder, file string, seed uint64, tame bool) (*oracle, error) {
	o := &oracle{seed: seed, tame: tame, ctx: ctx, down: make(chan time.Duration, 1), effects: make(map[string]*effect), tally: tally{Newest: make(map[int64]time.Time)}}
	var err error
	o.log, err = record.NewWriter(folder, file)
	return o, err
}

func (o *oracle) effectOf(call record.Executor) *effect {
	e := o.effects[call.Key]
	if e == nil {
		e = &effect{key: call.Key, plan: o.behaviourOf(call), runID: fmt.Sprintf("run-%.12s", call.Key)}
		o.effects[call.Key] = e
	}
	return e
}

func (o *oracle) count(line record.Executor) {
	if line.Number == 1 {
		o.tally.First, o.tally.Newest[line.Epoch] = line.At, line.At
	}
}

// behaviourOf draws a key's behaviour from the seed, so that it does not
// depend on how often or in which order keys come.
func (o *oracle) behaviourOf(call record.Executor) behaviour {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", o.seed, call.Key) // a hash takes everything
	b := newBehaviour(h.Sum64(), o.tame, call.Queue != "")
	if call.Queue == record.OrderedQueue && h.Sum64()%3 == 0 && !o.tame { // what follows is the point of it
		b.mode = fails
	}
	return b
}

// note writes a line; an executor that cannot remember must not go on.
func (o *oracle) note(line record.Executor) {
	if line.At.IsZero() {
		line.At = time.Now()
	}
	if err := o.log.Write(line); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// durable returns when all that was noted is on the disk.
func (o *oracle) durable() {
	if err := o.log.Sync(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func (o *oracle) wrong(key, format string, args ...any) {
	o.note(record.Executor{Kind: record.Wrong, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (o *oracle) seen(w http.ResponseWriter, _ *http.Request) {
	o.mu.Lock()
	now := o.tally
	now.Newest = maps.Clone(now.Newest)
	o.mu.Unlock()
	_ = json.NewEncoder(w).Encode(now) // the rig asks again
}

// run is one call. For a known key it answers the current state; a new key begins its
// effect, after the number of refusals that its behaviour has.
func (o *oracle) run(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller died while it sent
	}
	var body runBody
	if err := json.Unmarshal(text, &body); err != nil {
		o.wrong("", "a body that is not the contract's: %s", text)
	}
	if header := r.Header.Get("Idempotency-Key"); header != body.Key {
		o.wrong(body.Key, "header Idempotency-Key %q, body %q", header, body.Key)
	}
	line := record.Executor{
		At: at, Kind: record.Call, Key: body.Key, ScheduleID: body.ScheduleID, ScheduledFor: body.ScheduledFor,
		Trigger: body.Trigger, Epoch: body.Epoch, Body: fingerprint(text), Queue: body.Queue,
		Via: r.Header.Get(viaHeader),
	}
	if body.Queue != "" {
		line.Input = body.Input.N
	}
	if o.failing(w, r, line) {
		return
	}
	e, number, next := o.enter(line)
	o.closes(r, line.Key, number)
	switch next {
	case putOff:
		e.plan.stumble(w, r, number)
	case answerAgain:
		o.answer(w, e)
	case begin:
		o.perform(w, r, e, body)
	}
}

// closes notes the end of a call: of the handler, or of the caller's connection.
func (o *oracle) closes(r *http.Request, key string, number int) {
	context.AfterFunc(r.Context(), func() { o.note(record.Executor{Kind: record.Closed, Key: key, Number: number}) })
}

// fingerprint hashes what a redelivery must repeat: all but the epoch of the
// leader that sends, and the address of the process that takes reports.
func fingerprint(text []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return ""
	}
	delete(members, "epoch")
	delete(members, "report_url")
	canonical, err := json.Marshal(members) // sorted by name
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

type entry int

const (
	putOff entry = iota
	answerAgain
	begin
)

// enter makes a call durable and returns what to do with it.
func (o *oracle) enter(line record.Executor) (*effect, int, entry) {
	o.mu.Lock()
	e := o.effectOf(line)
	e.calls++
	line.Number = e.calls
	o.count(line)
	o.note(line)
	next := begin
	switch {
	case e.begun || e.refused || e.cancelled:
		next = answerAgain
	case e.calls <= e.plan.stumbles:
		next = putOff
	default:
		e.begun = true
		o.note(record.Executor{Kind: record.Begin, Key: e.key})
	}
	o.mu.Unlock()
	o.durable()
	return e, line.Number, next
}

// answer returns the current state of a key.
func (o *oracle) answer(w http.ResponseWriter, e *effect) {
	o.mu.Lock()
	status, refused, cancelled := e.status, e.refused, e.cancelled
	e.promised = e.promised || status == "" && !refused && !cancelled
	o.mu.Unlock()
	if status != "" || cancelled {
		o.say(e)
	}
	switch {
	case refused:
		http.Error(w, "this workflow is not welcome", http.StatusUnprocessableEntity)
	case cancelled:
		writeAnswer(w, http.StatusOK, map[string]any{"run_id": e.runID, "status": "FAILED", "error_code": "cancelled"})
	case status == "FAILED":
		writeAnswer(w, http.StatusOK, map[string]any{"run_id": e.runID, "status": status, "error_code": "E_BAD_LUCK"})
	case status == "SNOOZE":
		writeAnswer(w, http.StatusOK, map[string]any{"run_id": e.runID, "status": status, "delay_ms": snoozeMS})
	case status != "":
		writeAnswer(w, http.StatusOK, map[string]any{"run_id": e.runID, "status": status})
	default:
		writeAnswer(w, http.StatusAccepted, map[string]any{"run_id": e.runID})
	}
}

// snoozeMS is how long a run that snoozes waits.
const snoozeMS = 300

func writeAnswer(w http.ResponseWriter, code int, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the caller may be dead
}

// say notes, once and durably, that the product is about to hear of the end.
func (o *oracle) say(e *effect) {
	o.mu.Lock()
	news := !e.said
	e.said = true
	if news {
		o.note(record.Executor{Kind: record.Said, Key: e.key, Status: e.status})
	}
	o.mu.Unlock()
	o.durable()
}

// finish ends a key's work; a cancelled one has ended already.
func (o *oracle) finish(e *effect, status string) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.cancelled {
		return false
	}
	e.status = status
	o.note(record.Executor{Kind: record.End, Key: e.key, Status: status})
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
	if !o.cancelKey(r.PathValue("key")) {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (o *oracle) cancelKey(key string) (found bool) {
	o.mu.Lock()
	e := o.effects[key]
	found = e != nil && e.status == "" && !e.refused
	if found && !e.cancelled {
		e.cancelled, e.said = true, true
		o.note(record.Executor{Kind: record.Cancel, Key: e.key})
	}
	o.mu.Unlock()
	o.durable()
	return found
}

const betweenReports = 100 * time.Millisecond

// report sends one report until it is answered, through every outage.
func (o *oracle) report(body runBody, e *effect, status string) {
	if status != "STARTED" {
		o.say(e)
	}
	payload := fmt.Sprintf(`{"status":%q,"run_id":%q}`, status, e.runID)
	if status == "SNOOZE" {
		payload = fmt.Sprintf(`{"status":%q,"run_id":%q,"delay_ms":%d}`, status, e.runID, snoozeMS)
	}
	for o.ctx.Err() == nil {
		code, answer, err := o.post(body, payload)
		if err == nil && (code == http.StatusOK || code == http.StatusNotFound && e.counted(body)) {
			return
		}
		if err == nil && code >= 400 && code < 500 && code != http.StatusTooManyRequests {
			o.wrong(e.key, "the report %s is answered %d: %s", status, code, answer)
			return
		}
		o.spend(betweenReports)
	}
}

// counted reports whether the run may have left no row: it has succeeded, and its queue keeps only
// failures.
func (e *effect) counted(body runBody) bool {
	return e.status == "SUCCESS" && body.Queue != "" && record.QueueNamed(body.Queue).History == record.OnlyFailures
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

// spend is the time that work takes.
func (o *oracle) spend(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.ctx.Done():
	}
}
