package httpexecutor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/launcher"
)

// request is one POST, before it has a context.
type request struct {
	url    string
	header map[string]string
	body   []byte
}

// runBody is the JSON that an executor receives. It contains input and DAG as they were
// sent: no member is reordered, no number rewritten.
type runBody struct {
	IdempotencyKey   string          `json:"idempotency_key"`
	ScheduleID       string          `json:"schedule_id"`
	WorkflowID       string          `json:"workflow_id"`
	Version          int32           `json:"version"`
	UserID           string          `json:"user_id"`
	ScheduledFor     string          `json:"scheduled_for"`
	Trigger          string          `json:"trigger"`
	Attempt          int32           `json:"attempt"`
	MaxAttempts      int32           `json:"max_attempts,omitempty"`
	Epoch            int64           `json:"epoch"`
	Environment      string          `json:"environment,omitempty"`
	ExecutionGrantID string          `json:"execution_grant_id"`
	QueueID          string          `json:"queue_id,omitempty"`
	GroupID          string          `json:"group_id,omitempty"`
	Input            json.RawMessage `json:"input"` // null when there is none
	DAG              json.RawMessage `json:"dag,omitempty"`
	Handler          *handlerBody    `json:"handler,omitempty"`
	Events           []topic.Body    `json:"events,omitempty"`
	EventsDigest     string          `json:"events_digest,omitempty"`
	ReportURL        string          `json:"report_url,omitempty"`
	ReportToken      string          `json:"report_token,omitempty"`
}

// carillonRequest is the request in the dialect carillon.
func (c Config) carillonRequest(call launcher.Call) (request, error) {
	body, err := encode(runBody{
		IdempotencyKey: call.Key.String(), ScheduleID: call.ScheduleID,
		WorkflowID: call.WorkflowID, Version: call.Version, UserID: call.UserID,
		ScheduledFor: call.ScheduledFor.UTC().Format(time.RFC3339Nano), Trigger: string(call.Trigger),
		Attempt: call.Attempt, MaxAttempts: call.MaxAttempts, Epoch: call.Epoch, Environment: c.Environment, ExecutionGrantID: call.ExecutionGrantID,
		QueueID: call.QueueID, GroupID: call.GroupID,
		Input: call.Input, DAG: call.DAG, Handler: handlerOf(&call), Events: call.Events.Bodies(), EventsDigest: digestOf(call.Events),
		ReportURL: call.ReportURL, ReportToken: call.ReportToken,
	})
	if err != nil {
		return request{}, err
	}
	return request{
		url:    expand(c.URL, c.workflowValues(call)),
		header: c.headers(map[string]string{"Idempotency-Key": call.Key.String()}),
		body:   body,
	}, nil
}

const (
	headerEnvironment = "X-Carillon-Environment" // of every call, if ENVIRONMENT is set

	// The headers of a cancel.
	headerScheduleID   = "X-Carillon-Schedule-Id"
	headerScheduledFor = "X-Carillon-Scheduled-For"
)

// headers adds the environment to the headers of a call.
func (c Config) headers(header map[string]string) map[string]string {
	if c.Environment != "" {
		header[headerEnvironment] = c.Environment
	}
	return header
}

// cancelRequest is the DELETE that ends a run. A URL with an empty value would name
// another resource, and its 404 would confirm a cancel that did not happen: such a
// request is an error.
func (c Config) cancelRequest(ref schedule.CancelRequest) (request, error) {
	r := request{header: c.headers(map[string]string{"Idempotency-Key": ref.Key.String()})}
	values := map[string]string{idempotencyKey: ref.Key.String(), runID: ref.RunID, scheduleID: ref.ScheduleID, scheduledFor: "", environment: c.Environment}
	if !ref.ScheduledFor.IsZero() {
		values[scheduledFor] = ref.ScheduledFor.UTC().Format(time.RFC3339Nano)
	}
	for placeholder, value := range values {
		switch {
		case value == "" && strings.Contains(c.CancelURL, placeholder):
			return r, fmt.Errorf("EXECUTOR_CANCEL_URL needs %s, which is not known yet", strings.Trim(placeholder, "{}"))
		case climbs(c.CancelURL, placeholder, value):
			return r, fmt.Errorf("%s %q cannot be used in the path of EXECUTOR_CANCEL_URL", strings.Trim(placeholder, "{}"), value)
		}
	}
	for header, placeholder := range map[string]string{headerScheduleID: scheduleID, headerScheduledFor: scheduledFor} {
		if values[placeholder] != "" {
			r.header[header] = values[placeholder]
		}
	}
	r.url = expand(c.CancelURL, values)
	return r, nil
}

// graphBody is the body of the internal graph run API.
type graphBody struct {
	ExecutionGrantID string          `json:"executionGrantId"`
	Input            json.RawMessage `json:"input"`
	Handler          *handlerBody    `json:"handler,omitempty"`
	Events           []topic.Body    `json:"events,omitempty"`
	EventsDigest     string          `json:"eventsDigest,omitempty"`
}

// graphRequest is the request in the dialect graph.
func (c Config) graphRequest(call launcher.Call) (request, error) {
	if len(call.Input) == 0 {
		call.Input = json.RawMessage("{}") // that API knows no graph without an input
	}
	body, err := encode(graphBody{
		ExecutionGrantID: call.ExecutionGrantID, Input: call.Input, Handler: handlerOf(&call), Events: call.Events.Bodies(), EventsDigest: digestOf(call.Events),
	})
	if err != nil {
		return request{}, err
	}
	r := request{
		url: expand(c.URL, c.workflowValues(call)),
		header: c.headers(map[string]string{
			"Idempotency-Key": graphKey(call),
			"X-Carillon-Key":  call.Key.String(),
		}),
		body: body,
	}
	if call.ReportURL != "" { // for a graph that goes on after its 202
		r.header["X-Carillon-Report-Url"] = call.ReportURL
		r.header["X-Carillon-Report-Token"] = call.ReportToken
	}
	return r, nil
}

// graphURL is EXECUTOR_URL, with the path of the API appended unless it has a
// placeholder for the workflow id.
func (c Config) graphURL() string {
	if strings.Contains(c.URL, workflowID) {
		return c.URL
	}
	return strings.TrimRight(c.URL, "/") + "/api/internal/graphs/" + workflowID + "/runs"
}

// graphKey is schedule_id:run_at, the API's name of a slot. Other runs of the slot
// (triggers, retries, backfills) would be answered with the slot's recorded
// outcome, so their trigger and key are appended. It has at most 223 bytes.
func graphKey(call launcher.Call) string {
	if call.ClientKey != "" {
		return call.ClientKey // keep the key of a caller of graphapi
	}
	pair := call.ScheduleID + ":" + call.ScheduledFor.UTC().Format(time.RFC3339)
	if call.Key == schedule.SlotKey(call.ScheduleID, call.ScheduledFor) {
		return pair
	}
	return pair + ":" + string(call.Trigger) + ":" + call.Key.String()
}

func (c Config) workflowValues(call launcher.Call) map[string]string {
	return map[string]string{workflowID: call.WorkflowID, version: strconv.Itoa(int(call.Version)), environment: c.Environment}
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // "<" in an input stays "<"
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the call as JSON: %w", err)
	}
	return b.Bytes(), nil
}
