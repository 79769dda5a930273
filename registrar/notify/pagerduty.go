package notify

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon/carillon/registrar/alert/expect"
)

// pagerDuty is a service behind PagerDuty's Events API v2.
type pagerDuty struct {
	url source
	key source // the integration key of the service
}

const pagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

type pagerDutyEvent struct {
	RoutingKey  string            `json:"routing_key"`
	EventAction string            `json:"event_action"`
	DedupKey    string            `json:"dedup_key"`
	Client      string            `json:"client,omitempty"`
	ClientURL   string            `json:"client_url,omitempty"`
	Links       []pagerDutyLink   `json:"links,omitempty"`
	Payload     *pagerDutyPayload `json:"payload,omitempty"`
}

type pagerDutyLink struct {
	HRef string `json:"href"`
	Text string `json:"text"`
}

type pagerDutyPayload struct {
	Summary       string            `json:"summary"`
	Source        string            `json:"source"`
	Severity      Severity          `json:"severity"`
	Timestamp     time.Time         `json:"timestamp"`
	Component     string            `json:"component,omitempty"`
	Group         string            `json:"group,omitempty"`
	Class         string            `json:"class,omitempty"`
	CustomDetails map[string]string `json:"custom_details,omitempty"`
}

// Send triggers or resolves the incident. A test does both, so that
// it leaves no incident open.
func (p *pagerDuty) Send(ctx context.Context, o Outgoing) Result {
	m, bad := o.message()
	if bad != nil {
		return *bad
	}
	address, err := p.url.read()
	if err != nil {
		return Result{Problem: "url: " + err.Error()}
	}
	key, err := p.key.read()
	if err != nil {
		return Result{Problem: "routing_key: " + err.Error()}
	}
	event := pagerDutyBody(m, o.ID)
	actions := []string{event.EventAction}
	if m.Type == expect.NoticeTest {
		actions = append(actions, "resolve")
	}
	var r Result
	for _, action := range actions {
		event.RoutingKey, event.EventAction = key, action
		if r = postJSON(ctx, o.Client, call{url: address, hide: []string{key}}, event); r.Problem != "" {
			break
		}
	}
	return r
}

// pagerDutyBody renders the event without its routing key. The dedup key is the
// same for all messages of one incident.
func pagerDutyBody(m *Message, id string) pagerDutyEvent {
	d := &m.Data
	e := pagerDutyEvent{EventAction: "trigger", DedupKey: dedupKey(m, id)}
	if m.Type == expect.NoticeRecovered {
		e.EventAction = "resolve"
		return e
	}
	e.Client, e.ClientURL = "Carillon", d.URL
	if d.URL != "" {
		e.Links = []pagerDutyLink{{HRef: d.URL, Text: "Open in Carillon"}}
	}
	from := "carillon"
	if d.Environment != "" {
		from += " " + d.Environment
	}
	severity := d.Severity
	if m.Type == expect.NoticeTest {
		severity = SeverityInfo
	}
	details := make(map[string]string)
	for _, f := range m.facts() {
		details[f.name] = f.value
	}
	for i, line := range m.output() {
		if i > 0 {
			line = details["Output"] + "\n" + line
		}
		details["Output"] = line
	}
	e.Payload = &pagerDutyPayload{
		Summary: m.pagerSummary(), Source: from, Severity: severity, Timestamp: m.Timestamp, Component: d.ScheduleID,
		Group: d.WorkflowID, Class: string(d.Cause), CustomDetails: details,
	}
	return e
}

// pagerSummary is the one line that a phone shows.
func (m *Message) pagerSummary() string {
	if m.Data.Environment == "" {
		return m.sentence()
	}
	return "[" + m.Data.Environment + "] " + m.sentence()
}

// dedupKey names the incident. The environment is part of it: staging and prod
// may have a schedule of the same id, and share a service.
func dedupKey(m *Message, id string) string {
	incident := cmp.Or(m.incident(), id) // a test has no alert
	if m.Data.Environment != "" {
		incident = m.Data.Environment + "/" + incident
	}
	return "carillon/" + incident
}
