package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// answers are the parts of answers that people look at.
type answers struct {
	ScheduleID string `json:"schedule_id"`
	Schedule   struct {
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
		Revision  int       `json:"revision"`
	} `json:"schedule"`
	Run struct {
		Key string `json:"idempotency_key"`
	} `json:"run"`
}

// look is the state of a schedule.
func (p *people) look(ctx context.Context, id string) (found answers, shown *record.ShownState, err error) {
	_, _, err = p.call(ctx, http.MethodGet, "/v1/schedules/"+id, nil, &found)
	return found, &record.ShownState{Revision: found.Schedule.Revision, UpdatedAt: found.Schedule.UpdatedAt}, err
}

// say makes a call and completes its act. That a repetition is refused is for
// the checker to mind.
func (p *people) say(ctx context.Context, act *record.Act, method, path string, body any) (answer answers, err error) {
	if act.Same && act.Verb != record.Delete {
		if _, act.Was, err = p.look(ctx, act.ScheduleID); err != nil {
			return answer, err
		}
	}
	act.Asked, act.Answered, err = p.call(ctx, method, path, body, &answer)
	if act.Same && errors.Is(err, errRefused) {
		act.Refused, err = err.Error(), nil
	}
	if err == nil && act.Was != nil {
		_, act.Is, err = p.look(ctx, act.ScheduleID)
	}
	return answer, err
}

// requested is an upsert of a schedule that has no id of its own.
type requested struct {
	record.Definition
	ScheduleID string `json:"schedule_id,omitempty"`
	RequestID  string `json:"request_id"`
}

// upsert registers or edits a schedule; same repeats the current definition.
func (p *people) upsert(ctx context.Context, d record.Definition, same bool) error {
	act := record.Act{Verb: record.Upsert, ScheduleID: d.ScheduleID, Definition: &d, Same: same}
	k := p.known[d.ScheduleID]
	if k == nil {
		k = &known{}
		p.known[d.ScheduleID] = k
		p.order = append(p.order, d.ScheduleID)
	}
	body := any(d)
	if act.RequestID = k.request; k.request != "" {
		body = requested{Definition: d, RequestID: k.request}
	}
	answer, err := p.say(ctx, &act, http.MethodPost, "/schedules/upsert", body)
	if err != nil {
		return err
	}
	if act.ScheduleID = answer.ScheduleID; act.Refused != "" {
		act.ScheduleID = d.ScheduleID
	}
	found, _, err := p.look(ctx, act.ScheduleID)
	if err != nil {
		return err
	}
	k.def, k.deleted = d, false
	act.Revision, act.CreatedAt = found.Schedule.Revision, found.Schedule.CreatedAt
	return p.journal.Write(act)
}

// request registers a schedule without an id: only the request's id can find it again.
func (p *people) request(ctx context.Context, d record.Definition, requestID string) error {
	var answer answers
	d.ScheduleID = ""
	asked, answered, err := p.call(ctx, http.MethodPost, "/schedules/upsert", requested{Definition: d, RequestID: requestID}, &answer)
	if err != nil {
		return err
	}
	d.ScheduleID = answer.ScheduleID
	found, shown, err := p.look(ctx, d.ScheduleID)
	if err != nil {
		return err
	}
	p.known[d.ScheduleID] = &known{def: d, request: requestID}
	p.order = append(p.order, d.ScheduleID)
	return p.journal.Write(record.Act{
		Verb: record.Upsert, ScheduleID: d.ScheduleID, RequestID: requestID, Asked: asked, Answered: answered, Definition: &d,
		Revision: shown.Revision, CreatedAt: found.Schedule.CreatedAt,
	})
}

// act changes a schedule, and says the same again some of the time.
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
	act := record.Act{Verb: verb, ScheduleID: id, Until: until}
	if _, err := p.say(ctx, &act, method, path, body); err != nil {
		return err
	}
	k := p.known[id]
	k.paused, k.deleted, k.until = verb == record.Pause, verb == record.Delete, until
	err := p.journal.Write(act)
	if err != nil || !until.IsZero() || p.random.IntN(2) == 0 { // what has an end may be over by now
		return err
	}
	again := record.Act{Verb: verb, ScheduleID: id, Same: true}
	_, err = p.say(ctx, &again, method, path, body)
	return errors.Join(err, p.journal.Write(again))
}

// trigger requests a manual run, sometimes twice.
func (p *people) trigger(ctx context.Context, id, requestID string) error {
	for turn := range 1 + p.random.IntN(2) {
		act := record.Act{Verb: record.Trigger, ScheduleID: id, RequestID: requestID, Same: turn > 0}
		answer, err := p.say(ctx, &act, http.MethodPost, "/v1/schedules/"+id+":trigger", map[string]any{"request_id": requestID})
		if err != nil {
			return err
		}
		act.Key = answer.Run.Key
		if err := p.journal.Write(act); err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
	}
	return nil
}
