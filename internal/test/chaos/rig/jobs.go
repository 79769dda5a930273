package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// clients put runs into dispatch queues and change them there. As people do, they repeat each
// call until it is answered.
type clients struct {
	people  *people
	journal *record.Writer
	random  *rand.Rand
	number  int                           // of the last request
	input   int                           // of the last run or change
	recent  []string                      // keys, the newest last
	groups  []string                      //
	queues  []record.Queue                // that the dose uses
	asked   []func(context.Context) error // enqueues that can be repeated
	paused  map[string]bool
}

// The queues with a part of their own: groups are made in one of them, and dead runs are
// redriven in another, so that the checker knows whether a run has followed by itself.
const (
	queueOfGroups   = "many"
	queueOfRedrives = "one"
	queueOfKeys     = "customers"
)

func newClients(p *people, seed uint64) (*clients, error) {
	journal, err := record.NewWriter(p.site.folder, record.JobActsFile)
	if err != nil {
		return nil, err
	}
	queues := slices.DeleteFunc(slices.Clone(record.Queues), func(q record.Queue) bool { return q.Delivery == record.Pull && !p.site.dose.pull })
	return &clients{people: p, journal: journal, random: rand.New(rand.NewPCG(seed, 0x70b5)), queues: queues, paused: make(map[string]bool)}, nil
}

// begin makes the limits and queues.
func (c *clients) begin(ctx context.Context) error {
	for _, l := range record.Limits {
		body := map[string]any{"user_id": "ada", "keyed": l.Keyed, "ordered": l.Ordered, "max_in_flight": l.MaxInFlight}
		if _, _, err := c.people.call(ctx, http.MethodPut, "/v1/limits/"+l.LimitID, body, nil); err != nil {
			return err
		}
	}
	for _, q := range c.queues {
		body := map[string]any{
			"user_id": "ada", "max_in_flight": q.MaxInFlight, "limits": q.Limits, "run_timeout_ms": c.people.site.dose.runTimeout.Milliseconds(),
		}
		if q.QueueID == record.OrderedQueue { // a key waits for all attempts of a run
			body["retry"] = map[string]any{"max_attempts": 2, "backoff_ms": 1000}
		}
		if q.History != "" {
			body["history"] = q.History
		}
		if q.Delivery != "" {
			body["delivery"], body["heartbeat_ms"] = q.Delivery, q.HeartbeatMS
		}
		if _, _, err := c.people.call(ctx, http.MethodPut, "/v1/queues/"+q.QueueID, body, nil); err != nil {
			return err
		}
	}
	return nil
}

// work acts until ctx ends, and then lets every queue run.
func (c *clients) work(ctx, working context.Context) error {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(c.random.Int64N(int64(c.people.site.dose.idle))))
		if ctx.Err() != nil {
			break
		}
		if err := c.act(working); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.paused)) {
		if c.paused[id] {
			if err := c.pauseOrResume(working, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *clients) act(ctx context.Context) error {
	if c.people.site.dose.busy == queueOfGroups && c.random.IntN(2) == 0 {
		return c.group(ctx)
	}
	dice := c.random.IntN(100)
	switch {
	case dice < 54 || len(c.recent) == 0:
		return c.enqueue(ctx)
	case dice < 59:
		return c.asked[c.random.IntN(len(c.asked))](ctx)
	case dice < 67:
		return c.update(ctx)
	case dice < 73:
		key := c.key()
		return c.change(ctx, record.JobAct{Verb: record.CancelJob, Keys: []string{key}}, "/v1/runs/"+key+":cancel", nil)
	case dice < 78:
		return c.move(ctx)
	case dice < 83:
		return c.pauseOrResume(ctx, c.anyQueue().QueueID)
	case dice < 85:
		return c.redrive(ctx)
	case dice < 86:
		return c.cancelQueue(ctx)
	case dice < 88 && len(c.groups) > 0:
		id := c.groups[c.random.IntN(len(c.groups))]
		return c.change(ctx, record.JobAct{Verb: record.CancelGroup, Group: id}, "/v1/groups/"+id+":cancel", nil)
	}
	return c.group(ctx)
}

// anyQueue is one of the dose, every second time the busy one.
func (c *clients) anyQueue() record.Queue {
	busy := func(q record.Queue) bool {
		if id := c.people.site.dose.busy; id != "" {
			return q.QueueID == id
		}
		return q.Delivery == record.Pull
	}
	if at := slices.IndexFunc(c.queues, busy); at >= 0 && c.random.IntN(2) == 0 {
		return c.queues[at]
	}
	return c.queues[c.random.IntN(len(c.queues))]
}

// key is one of the newest runs.
func (c *clients) key() string {
	newest := c.recent[max(0, len(c.recent)-40):]
	return newest[c.random.IntN(len(newest))]
}

// runs describes n new runs, and their inputs.
func (c *clients) runs(n int, queue string) (runs []map[string]any, inputs []int) {
	for range n {
		c.input++
		run := map[string]any{"workflow_id": "oracle", "version": 1, "input": map[string]int{"n": c.input}}
		switch c.random.IntN(6) {
		case 0:
			run["priority"] = 5
		case 1:
			run["priority"] = -5
		case 2:
			run["delay_ms"] = 200 + c.random.IntN(2000)
		}
		switch queue {
		case queueOfKeys:
			run["limits"] = []string{fmt.Sprintf("customer=c%d", c.random.IntN(4))}
		case record.OrderedQueue:
			run["limits"] = []string{fmt.Sprintf("account=a%d", c.random.IntN(4))}
		}
		runs, inputs = append(runs, run), append(inputs, c.input)
	}
	return runs, inputs
}

func (c *clients) enqueue(ctx context.Context) error {
	q := c.anyQueue()
	queue, most := q.QueueID, 8
	if q.MaxInFlight == 1 || q.Limits != nil || queue == record.OrderedQueue { // they would never be done
		most = 3
	}
	runs, inputs := c.runs(1+c.random.IntN(most), queue)
	c.number++
	body := map[string]any{"user_id": "ada", "runs": runs, "request_id": fmt.Sprint("request-", c.number)}
	if c.random.IntN(6) == 0 {
		body["next"] = true
	}
	same := false
	ask := func(ctx context.Context) error {
		var answer struct {
			Keys []string `json:"idempotency_keys"`
		}
		act := record.JobAct{Verb: record.Enqueue, Queue: queue, Inputs: inputs, Same: same}
		var err error
		act.Asked, act.Answered, err = c.people.call(ctx, http.MethodPost, "/v1/queues/"+queue+"/runs:batch", body, &answer)
		if err != nil {
			return err
		}
		if act.Keys = answer.Keys; !same {
			c.recent = append(c.recent, answer.Keys...)
		}
		same = true
		return c.journal.Write(act)
	}
	if err := ask(ctx); err != nil {
		return err
	}
	c.asked = append(c.asked[max(0, len(c.asked)-20):], ask)
	return nil
}

// change makes a call that the product may refuse.
func (c *clients) change(ctx context.Context, act record.JobAct, path string, body any) error {
	tries := 0
	var err error
	act.Asked, act.Answered, err = c.people.callCounting(ctx, http.MethodPost, path, body, nil, &tries)
	if errors.Is(err, errRefused) {
		act.Refused, act.Unsure, err = true, tries > 1, nil
	}
	return errors.Join(err, c.journal.Write(act))
}

func (c *clients) update(ctx context.Context) error {
	key := c.key()
	c.input++
	body := map[string]any{"input": map[string]int{"n": c.input}}
	if c.random.IntN(2) == 0 {
		body["priority"] = []int{-5, 0, 5}[c.random.IntN(3)]
	}
	return c.change(ctx, record.JobAct{Verb: record.UpdateJob, Keys: []string{key}, Inputs: []int{c.input}}, "/v1/runs/"+key+":update", body)
}

// move is not for the journal: the order is what the witnesses saw.
func (c *clients) move(ctx context.Context) error {
	to := []string{"first", "last"}[c.random.IntN(2)]
	_, _, err := c.people.call(ctx, http.MethodPost, "/v1/runs/"+c.key()+":move", map[string]any{"to": to}, nil)
	if errors.Is(err, errRefused) { // it has begun
		return nil
	}
	return err
}

func (c *clients) pauseOrResume(ctx context.Context, queue string) error {
	act, verb := record.JobAct{Verb: record.PauseQueue, Queue: queue}, "pause"
	if c.paused[queue] {
		act.Verb, verb = record.ResumeQueue, "resume"
	}
	var err error
	act.Asked, act.Answered, err = c.people.call(ctx, http.MethodPost, "/v1/queues/"+queue+":"+verb, nil, nil)
	if err != nil {
		return err
	}
	c.paused[queue] = act.Verb == record.PauseQueue
	return c.journal.Write(act)
}

func (c *clients) redrive(ctx context.Context) error {
	c.number++
	body := map[string]any{"all": true, "request_id": fmt.Sprint("request-", c.number)}
	return c.change(ctx, record.JobAct{Verb: record.Redrive, Queue: queueOfRedrives}, "/v1/queues/"+queueOfRedrives+":redrive", body)
}

// cancelQueue cancels what is in a queue, page by page.
func (c *clients) cancelQueue(ctx context.Context) error {
	act := record.JobAct{Verb: record.CancelQueue, Queue: c.anyQueue().QueueID}
	for token := ""; ; {
		var answer struct {
			Next string `json:"next_page_token"`
		}
		asked, answered, err := c.people.call(ctx, http.MethodPost, "/v1/queues/"+act.Queue+":cancel", map[string]any{"page_token": token, "page_size": 5}, &answer)
		if err != nil {
			return err
		}
		if act.Answered = answered; token == "" {
			act.Asked = asked
		}
		if token = answer.Next; token == "" {
			return c.journal.Write(act)
		}
	}
}

func (c *clients) group(ctx context.Context) error {
	c.number++
	id := fmt.Sprint("group-", c.number)
	runs, inputs := c.runs(1+c.random.IntN(5), queueOfGroups)
	body := map[string]any{
		"group_id": id, "queue_id": queueOfGroups, "user_id": "ada", "mode": []string{"sequential", "parallel"}[c.random.IntN(2)], "sealed": true, "runs": runs,
	}
	act := record.JobAct{Verb: record.MakeGroup, Queue: queueOfGroups, Group: id, Inputs: inputs}
	var err error
	if act.Asked, act.Answered, err = c.people.call(ctx, http.MethodPost, "/v1/groups", body, nil); err != nil {
		return err
	}
	c.groups = append(c.groups[max(0, len(c.groups)-5):], id)
	return c.journal.Write(act)
}
