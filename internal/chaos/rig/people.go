package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/chaos/record"
)

// people work with the deployment as careful clients would: each call is
// repeated until it is answered, for every write is safe to repeat. The journal
// says when it was first asked for and when it was answered.
type people struct {
	site    *site
	journal *record.Writer
	random  *rand.Rand
	known   map[string]*known
	order   []string // ids as they were registered
}

// known is what people believe of a schedule.
type known struct {
	def     record.Definition
	paused  bool
	until   time.Time // a pause ends by itself then
	deleted bool
}

const answerBound = 60 * time.Second

// errRefused is an answer that no repeating changes.
var errRefused = errors.New("the API refuses")

// call asks until it is answered 200.
func (p *people) call(ctx context.Context, method, path string, body, into any) (asked, answered time.Time, err error) {
	text := []byte("{}")
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return asked, answered, err
		}
	}
	asked = time.Now()
	var refusal error
	err = within(ctx, answerBound, method+" "+path, func() error {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+p.site.registrar.httpAddr+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		resp, err := probe.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return err
		case resp.StatusCode >= 400 && resp.StatusCode < 500:
			refusal = fmt.Errorf("%w: %s %s answers %d: %s", errRefused, method, path, resp.StatusCode, answer)
			return nil
		case resp.StatusCode != http.StatusOK:
			return fmt.Errorf("%d: %s", resp.StatusCode, answer)
		case into != nil:
			return json.Unmarshal(answer, into)
		}
		return nil
	})
	return asked, time.Now(), errors.Join(err, refusal)
}

// schedule is what GET answers.
type schedule struct {
	Schedule struct {
		CreatedAt time.Time `json:"created_at"`
		Revision  int       `json:"revision"`
	} `json:"schedule"`
}

func (p *people) deploy(ctx context.Context) error {
	dag := map[string]any{"dag": map[string]any{"workflow_id": "oracle", "version": 1, "steps": []int{}}}
	_, _, err := p.call(ctx, http.MethodPut, "/v1/workflows/oracle/versions/1", dag, nil)
	return err
}

// upsert registers or edits a schedule; same repeats what is in force.
func (p *people) upsert(ctx context.Context, d record.Definition, same bool) error {
	asked, answered, err := p.call(ctx, http.MethodPost, "/schedules/upsert", d, nil)
	if err != nil {
		return err
	}
	var found schedule
	if _, _, err := p.call(ctx, http.MethodGet, "/v1/schedules/"+d.ScheduleID, nil, &found); err != nil {
		return err
	}
	k := p.known[d.ScheduleID]
	if k == nil {
		k = &known{}
		p.known[d.ScheduleID] = k
		p.order = append(p.order, d.ScheduleID)
	}
	k.def, k.deleted = d, false
	return p.journal.Write(record.Act{
		Verb: record.Upsert, ScheduleID: d.ScheduleID, Asked: asked, Answered: answered, Definition: &d, Same: same,
		Revision: found.Schedule.Revision, CreatedAt: found.Schedule.CreatedAt,
	})
}

func (p *people) act(ctx context.Context, verb, id string, until time.Time) error {
	method, path := http.MethodPost, "/v1/schedules/"+id+":"+verb
	body := map[string]any{}
	switch verb {
	case record.Delete:
		method, path = http.MethodDelete, "/v1/schedules/"+id
	case record.Pause:
		body["note"] = "for a while"
		if !until.IsZero() {
			body["until"] = until
		}
	}
	asked, answered, err := p.call(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	k := p.known[id]
	k.paused, k.deleted, k.until = verb == record.Pause, verb == record.Delete, until
	return p.journal.Write(record.Act{Verb: verb, ScheduleID: id, Asked: asked, Answered: answered, Until: until})
}

func (p *people) trigger(ctx context.Context, id string, number int) error {
	var answer struct {
		Run struct {
			Key string `json:"idempotency_key"`
		} `json:"run"`
	}
	asked, answered, err := p.call(ctx, http.MethodPost, "/v1/schedules/"+id+":trigger", map[string]any{"request_id": fmt.Sprint("by-hand-", number)}, &answer)
	if err != nil {
		return err
	}
	return p.journal.Write(record.Act{Verb: record.Trigger, ScheduleID: id, Asked: asked, Answered: answered, Key: answer.Run.Key})
}

// meddle changes things until ctx ends.
func (p *people) meddle(ctx, working context.Context) error {
	for number := 0; ; number++ {
		pause := time.NewTimer(time.Duration(p.random.Int64N(int64(p.site.dose.idle))))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		if err := p.change(working, number); err != nil {
			return err
		}
	}
}

// change is one thing that somebody does.
func (p *people) change(ctx context.Context, number int) error {
	id := p.order[p.random.IntN(len(p.order))]
	for !strings.HasPrefix(id, edited) && !strings.HasPrefix(id, paused) && !strings.HasPrefix(id, dropped) && id != triggered {
		id = p.order[p.random.IntN(len(p.order))]
	}
	k := p.known[id]
	kind, _, _ := strings.Cut(id, "-")
	switch kind {
	case triggered:
		return p.trigger(ctx, id, number)
	case edited:
		if p.random.IntN(4) == 0 {
			return p.upsert(ctx, k.def, true)
		}
		return p.upsert(ctx, rewritten(k.def, p.random.IntN(1000)), false)
	case dropped:
		if k.deleted {
			return p.upsert(ctx, k.def, false)
		}
		return p.act(ctx, record.Delete, id, time.Time{})
	}
	return p.pauseOrResume(ctx, id, k)
}

func (p *people) pauseOrResume(ctx context.Context, id string, k *known) error {
	const margin = time.Second
	switch {
	case !k.until.IsZero() && time.Now().Before(k.until.Add(margin)):
		return nil // it ends by itself; nobody interferes
	case !k.until.IsZero():
		k.paused, k.until = false, time.Time{}
	case k.paused && p.random.IntN(3) == 0: // a deploy does not end a pause
		return p.upsert(ctx, rewritten(k.def, p.random.IntN(1000)), false)
	case k.paused:
		return p.act(ctx, record.Resume, id, time.Time{})
	}
	if p.random.IntN(3) == 0 { // longer than any outage: asked for too late it would be refused
		until := time.Now().Add(8*time.Second + time.Duration(p.random.IntN(4000))*time.Millisecond).UTC().Truncate(time.Millisecond)
		return p.act(ctx, record.Pause, id, until)
	}
	return p.act(ctx, record.Pause, id, time.Time{})
}

// stop ends every schedule, each in one of the ways there are.
func (p *people) stop(ctx context.Context) error {
	for i, id := range p.order {
		k := p.known[id]
		var err error
		switch {
		case k.deleted:
		case !k.until.IsZero() || i%3 == 0:
			err = p.act(ctx, record.Delete, id, time.Time{})
		case k.paused:
		case i%3 == 1:
			err = p.act(ctx, record.Pause, id, time.Time{})
		case k.def.OnceAt.IsZero():
			d := k.def
			if last := time.Now().Add(2 * time.Second).UTC().Truncate(time.Second); d.EndAt.IsZero() || last.Before(d.EndAt) {
				d.EndAt = last
			}
			err = p.upsert(ctx, d, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
