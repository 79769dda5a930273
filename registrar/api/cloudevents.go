package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	eventsPath       = "/v1/events"
	cloudEventHeader = "Ce-" // of an attribute in binary mode
	cloudEventJSON   = "application/cloudevents+json"
	cloudEventBatch  = "application/cloudevents-batch+json"
	cloudEventAny    = "application/cloudevents"
)

// notJSON is the answer to content that is not JSON.
func notJSON(format string, args ...any) error {
	return &runtime.HTTPStatusError{
		HTTPStatus: http.StatusUnsupportedMediaType, Err: status.Errorf(codes.InvalidArgument, "the data of events are JSON: "+format, args...),
	}
}

// cloudEvents reads a request with CloudEvents 1.0 as one of PublishEvents, which the gateway then
// makes; nil: it has none. All checks but those of CloudEvents are those of PublishEvents.
func cloudEvents(r *http.Request) (*carillonv1.PublishEventsRequest, error) {
	if r.URL.Path != eventsPath || r.Method != http.MethodPost {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = r.Header.Get("Content-Type")
	}
	if !hasAttribute(r.Header) && !strings.HasPrefix(kind, cloudEventAny) {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err)
	}
	req := &carillonv1.PublishEventsRequest{}
	if err := readParameters(r.URL.Query(), req); err != nil {
		return nil, err
	}
	switch {
	case kind == cloudEventBatch:
		err = readCloudEventBatch(body, req)
	case kind == cloudEventJSON:
		err = readCloudEvent(body, req, "")
	case strings.HasPrefix(kind, cloudEventAny):
		err = notJSON("%s is not read; send %s or %s", schedule.Quote(kind), cloudEventJSON, cloudEventBatch)
	default:
		err = readBinaryCloudEvent(r.Header, kind, body, req)
	}
	return req, err
}

// readCloudEvents makes CloudEvents the request, if it has any.
func (s *sent) readCloudEvents(r *http.Request) error {
	req, err := cloudEvents(r)
	var answered *runtime.HTTPStatusError
	if errors.As(err, &answered) {
		return err
	}
	if err != nil {
		return statusOf(err).Err()
	}
	if req != nil {
		s.request, s.query = req, nil // what the query says is in the request
	}
	return nil
}

// hasAttribute reports whether the request is in binary mode.
func hasAttribute(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, cloudEventHeader) {
			return true
		}
	}
	return false
}

// readParameters reads what a CloudEvent has no attribute for.
func readParameters(query url.Values, req *carillonv1.PublishEventsRequest) error {
	var c schedule.Collect
	truth := func(name string) bool {
		if value := query.Get(name); value != "true" && value != "false" {
			c.Add(name, value, "is not true or false", "")
		}
		return query.Get(name) == "true"
	}
	for name := range query {
		switch name {
		case "topic":
			req.Topic = query.Get(name)
		case "user_id":
			req.UserId = query.Get(name)
		case "strict":
			req.Strict = truth(name)
		case "require_subscriber":
			req.RequireSubscriber = truth(name)
		default:
			c.Note(name, "is not a parameter of CloudEvents", "use topic, user_id, strict or require_subscriber")
		}
	}
	return c.Err()
}

func readCloudEventBatch(body []byte, req *carillonv1.PublishEventsRequest) error {
	var all []json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil || len(all) == 0 {
		return schedule.Invalid("body", len(all), "CloudEvents are in it", "send an array of 1 to 1000")
	}
	if len(all) > topic.MaxPublished {
		return schedule.Invalid("body", len(all), fmt.Sprintf("CloudEvents are more than %d", topic.MaxPublished), "send them in several requests")
	}
	var refused schedule.InvalidError
	for i, raw := range all {
		err := readCloudEvent(raw, req, fmt.Sprintf("events[%d].", i))
		var invalid *schedule.InvalidError
		if err != nil && !errors.As(err, &invalid) {
			return err
		}
		if invalid != nil {
			refused.Violations = append(refused.Violations, invalid.Violations...)
		}
	}
	if len(refused.Violations) > 0 {
		return &refused
	}
	return nil
}

// readCloudEvent adds an event in the JSON format.
func readCloudEvent(body []byte, req *carillonv1.PublishEventsRequest, prefix string) error {
	if problem := rawjson.Problem(body, schedule.MaxJSONDepth+1); problem != "" {
		return &schedule.InvalidError{Violations: []schedule.Violation{{Field: strings.TrimSuffix(prefix+"body", ".body"), Problem: problem}}}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return &schedule.InvalidError{Violations: []schedule.Violation{{Field: strings.TrimSuffix(prefix+"body", ".body"), Problem: "is not an object"}}}
	}
	a := attributes{prefix: prefix, values: make(map[string]string)}
	for name, raw := range members {
		var text string
		switch {
		case name == "data" || string(raw) == "null":
		case name == "data_base64":
			a.c.Note(prefix+name, "is refused", "send JSON in data")
		case json.Unmarshal(raw, &text) == nil:
			a.values[name] = text
		case slices.Contains(attributeNames, name):
			a.c.Note(prefix+name, "is not a text", "")
		}
	}
	if kind, there := a.values["datacontenttype"]; there && !isJSON(kind) {
		return notJSON("%sdatacontenttype is %s", prefix, schedule.Quote(kind))
	}
	return a.add(req, members["data"])
}

// readBinaryCloudEvent adds the event whose attributes are headers.
func readBinaryCloudEvent(h http.Header, kind string, body []byte, req *carillonv1.PublishEventsRequest) error {
	if kind != "" && !isJSON(kind) {
		return notJSON("Content-Type is %s; send application/json", schedule.Quote(kind))
	}
	a := attributes{prefix: "ce-", values: make(map[string]string)}
	for header := range h {
		name, isAttribute := strings.CutPrefix(header, cloudEventHeader)
		if name = strings.ToLower(name); !isAttribute || !slices.Contains(attributeNames, name) {
			continue
		}
		value, err := url.PathUnescape(unquoted(h.Get(header)))
		if err != nil || !utf8.ValidString(value) {
			a.c.Add("ce-"+name, h.Get(header), "is not UTF-8 in percent-encoding", "write % as %25")
			continue
		}
		a.values[name] = value
	}
	return a.add(req, body)
}

// unquoted is a header's value without quotes around it.
func unquoted(value string) string {
	inner, begins := strings.CutPrefix(value, `"`)
	inner, ends := strings.CutSuffix(inner, `"`)
	if !begins || !ends {
		return value
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(inner)
}

func isJSON(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}

// attributeNames are those that an event has a field for. Others are left out.
var attributeNames = []string{"id", "source", "type", "specversion", "subject", "time"}

// attributes are those of one CloudEvent.
type attributes struct {
	prefix string // of their names in errors
	values map[string]string
	c      schedule.Collect
}

// add adds the event to the request.
func (a *attributes) add(req *carillonv1.PublishEventsRequest, data []byte) error {
	for _, name := range []string{"id", "source", "type", "specversion"} {
		if a.values[name] == "" {
			a.c.Note(a.prefix+name, "is required", "CloudEvents 1.0 have id, source, type and specversion")
		}
	}
	if v := a.values["specversion"]; v != "" && v != "1.0" {
		a.c.Add(a.prefix+"specversion", v, "is not read", "send CloudEvents 1.0")
	}
	e := &carillonv1.NewEvent{EventId: a.values["id"], Source: a.values["source"], Type: a.values["type"], Subject: a.values["subject"], Data: data}
	if e.Topic = req.GetTopic(); e.Topic == "" {
		e.Topic = e.GetType()
		if e.GetType() != "" && !schedule.ValidID(e.GetType()) {
			a.c.Add(a.prefix+"type", e.GetType(), "is no topic", "name one with ?topic=")
		}
	}
	if text := a.values["time"]; text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			a.c.Add(a.prefix+"time", text, "is not a time of RFC 3339", "write one such as 2026-03-08T14:00:00Z")
		}
		e.Time = timestamppb.New(at)
	}
	req.Events = append(req.Events, e)
	return a.c.Err()
}
