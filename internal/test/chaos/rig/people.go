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

	"github.com/carillon/carillon/internal/test/chaos/record"
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
	request string // it was registered without an id, by this request
}

const answerBound = 60 * time.Second

// errRefused is an answer that no repeating changes.
var errRefused = errors.New("the API refuses")

// call asks until it is answered 200.
func (p *people) call(ctx context.Context, method, path string, body, into any) (asked, answered time.Time, err error) {
	return p.callCounting(ctx, method, path, body, into, new(int))
}

// callCounting also counts how often it has asked.
func (p *people) callCounting(ctx context.Context, method, path string, body, into any, tries *int) (asked, answered time.Time, err error) {
	text := []byte("{}")
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return asked, answered, err
		}
	}
	asked = time.Now()
	var refusal error
	err = within(ctx, answerBound, method+" "+path, func() error {
		*tries++
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

func (p *people) deploy(ctx context.Context) error {
	dag := map[string]any{"dag": map[string]any{"workflow_id": "oracle", "version": 1, "steps": []int{}}}
	_, _, err := p.call(ctx, http.MethodPut, "/v1/workflows/oracle/versions/1", dag, nil)
	return err
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
	for p.known[id].request == "" && !strings.HasPrefix(id, edited) && !strings.HasPrefix(id, paused) && !strings.HasPrefix(id, dropped) && id != triggered {
		id = p.order[p.random.IntN(len(p.order))]
	}
	k := p.known[id]
	kind, _, _ := strings.Cut(id, "-")
	switch {
	case k.request != "":
		return p.upsert(ctx, k.def, true)
	case kind == triggered:
		return p.trigger(ctx, id, fmt.Sprint("by-hand-", number))
	case kind == edited:
		if p.random.IntN(4) == 0 {
			return p.upsert(ctx, k.def, true)
		}
		return p.upsert(ctx, rewritten(k.def, p.random.IntN(1000)), false)
	case kind == dropped:
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
