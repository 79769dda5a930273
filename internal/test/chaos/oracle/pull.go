package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// worker fetches runs of a queue. It remembers its keys in its log, also past a kill, and loses some
// answers.
type worker struct {
	id, queue, servers string
	slots              int

	*oracle
	held map[string]bool // keys that it works on; guarded by oracle.mu
}

// fetched is the answer to a fetch.
type fetched struct {
	Runs   []json.RawMessage `json:"runs"`
	Cancel []string          `json:"cancel"`
}

const (
	fetchWait = 800 * time.Millisecond
	beat      = 400 * time.Millisecond // between fetches that wait for nothing
)

// work fetches until ctx ends.
func (w *worker) work(ctx context.Context, folder string, seed uint64, tame bool) error {
	file := strings.Replace(record.WorkerFiles, "*", w.id, 1)
	lines, err := record.Read[record.Executor](folder, file)
	if err != nil {
		return err
	}
	if w.oracle, err = newOracle(ctx, folder, file, seed, tame); err != nil {
		return err
	}
	w.held = make(map[string]bool)
	w.remember(lines)
	servers, at := strings.Split(w.servers, ","), 0
	for ctx.Err() == nil {
		got, busy, err := w.fetch(ctx, servers[at%len(servers)])
		if err != nil {
			at++
			w.spend(beat / 4)
			continue
		}
		if len(got.Runs) > 0 && rand.IntN(8) == 0 { // the answer is lost
			continue
		}
		for _, text := range got.Runs {
			if err := w.take(text); err != nil {
				return err
			}
		}
		for _, key := range got.Cancel {
			w.stop(key)
		}
		if busy {
			w.spend(beat)
		}
	}
	w.oracle.work.Wait()
	return w.log.Close()
}

// remember takes up what the log says: a worker that was killed knows which effects it has begun.
func (w *worker) remember(lines []record.Executor) {
	for _, line := range lines {
		e := w.effectOf(record.Executor{Key: line.Key, Queue: w.queue})
		switch line.Kind {
		case record.Call:
			e.calls++
		case record.Begin:
			e.begun = true
		case record.End:
			e.status = line.Status
		case record.Said:
			e.said = true
		case record.Cancel:
			e.cancelled = true
		}
	}
}

// fetch makes one call. A busy worker has no free slot, and does not wait.
func (w *worker) fetch(ctx context.Context, server string) (got fetched, busy bool, err error) {
	running := []string{}
	w.mu.Lock()
	for key := range w.held {
		running = append(running, key)
	}
	w.mu.Unlock()
	wait := fetchWait
	if busy = len(running) >= w.slots; busy {
		wait = 0
	}
	text, err := json.Marshal(map[string]any{"worker_id": w.id, "slots": w.slots, "running": running, "wait_ms": wait.Milliseconds()})
	if err != nil {
		return got, busy, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server+"/v1/queues/"+w.queue+":fetch", bytes.NewReader(text))
	if err != nil {
		return got, busy, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return got, busy, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		// Until people have made the queue it is not found.
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusNotFound {
			w.wrong("", "a fetch of %s is answered %d: %s", w.id, resp.StatusCode, answer)
		}
		err = fmt.Errorf("%d: %s", resp.StatusCode, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	return got, busy, err
}

// take begins with a run, or goes on with one that it began before it was killed.
func (w *worker) take(text json.RawMessage) error {
	var body runBody
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("a run that is not the contract's: %w: %s", err, text)
	}
	w.mu.Lock()
	if w.held[body.Key] {
		w.mu.Unlock()
		w.wrong(body.Key, "%s works on it, said so, and is given it again", w.id)
		return nil
	}
	w.held[body.Key] = true
	line := record.Executor{
		At: time.Now(), Kind: record.Call, Key: body.Key, ScheduleID: body.ScheduleID, ScheduledFor: body.ScheduledFor, Trigger: body.Trigger,
		Epoch: body.Epoch, Body: fingerprint(text), Queue: body.Queue, Input: body.Input.N, Worker: w.id,
	}
	e := w.effectOf(line)
	e.calls++
	line.Number = e.calls
	w.note(line)
	if !e.begun && !e.cancelled {
		e.begun = true
		w.note(record.Executor{Kind: record.Begin, Key: e.key})
	}
	w.mu.Unlock()
	w.durable()
	w.oracle.work.Go(func() {
		w.perform(e, body)
		w.mu.Lock()
		delete(w.held, body.Key)
		w.mu.Unlock()
	})
	return nil
}

// perform is the effect of a key, and the report of its end.
func (w *worker) perform(e *effect, body runBody) {
	end := "SUCCESS"
	switch e.plan.mode {
	case fails, refuses:
		end = "FAILED"
	case snoozes:
		end = "SNOOZE"
	case reports, shuffles:
		w.report(body, e, "STARTED")
	}
	w.mu.Lock()
	over := e.status != ""
	w.mu.Unlock()
	if !over {
		w.spend(e.plan.lasts)
		over = w.finish(e, end)
	}
	if over {
		w.report(body, e, e.status)
		return
	}
	w.report(body, e, "FAILED") // it was cancelled
}

// stop is for a run whose cancel is asked for, or that the worker has lost: it has no effect from now on.
func (w *worker) stop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.effects[key]; e != nil && e.status == "" && !e.cancelled && w.held[key] {
		e.cancelled, e.said = true, true
		w.note(record.Executor{Kind: record.Cancel, Key: key})
	}
}
