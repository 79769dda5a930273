package notify

import (
	"cmp"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// Message is the body of a Standard Webhook, from which the other formats are rendered;
// docs/alerts.md.
type Message struct {
	Type      expect.NoticeType `json:"type"`
	Timestamp time.Time         `json:"timestamp"` // when the change was found
	Data      MessageData       `json:"data"`
}

// Bounds of MessageData.OutputTail.
const (
	MaxTailLines = 20
	MaxTailBytes = 2 << 10
)

// MessageData is the alert that a message is about, by the API's names.
type MessageData struct {
	Text        string                   `json:"text"` // one sentence for people
	Environment string                   `json:"environment,omitempty"`
	AlertID     string                   `json:"alert_id,omitempty"`
	ScheduleID  string                   `json:"schedule_id,omitempty"`
	WorkflowID  string                   `json:"workflow_id,omitempty"`
	UserID      string                   `json:"user_id,omitempty"`
	Labels      map[string]string        `json:"labels,omitempty"` // of the schedule
	Severity    Severity                 `json:"severity,omitempty"`
	Kind        schedule.ExpectationKind `json:"kind,omitempty"`
	LimitMS     uint32                   `json:"limit_ms,omitempty"`
	Cause       schedule.Cause           `json:"cause,omitempty"`
	Late        int64                    `json:"late,omitempty"`
	FirstSlot   time.Time                `json:"first_slot,omitzero"`
	LastSlot    time.Time                `json:"last_slot,omitzero"`
	Deadline    time.Time                `json:"deadline,omitzero"`
	OpenedAt    time.Time                `json:"opened_at,omitzero"`
	ClosedAt    time.Time                `json:"closed_at,omitzero"`
	Resolution  schedule.Resolution      `json:"resolution,omitempty"`
	Run         string                   `json:"idempotency_key,omitempty"` // of kind failure: the newest failed run
	Error       string                   `json:"error,omitempty"`           // of kind failure: its error
	// OutputTail holds the last lines of the failed run's output: at most MaxTailLines lines and
	// MaxTailBytes bytes, secrets masked, no control characters except line breaks and tabs.
	// Empty: no output is stored.
	OutputTail string `json:"output_tail,omitempty"`
	URL        string `json:"url,omitempty"`     // of the alert's page in the console
	APIURL     string `json:"api_url,omitempty"` // of the alert in the API
	// IncidentID is the alert that the incident started with; empty: this one.
	IncidentID string `json:"incident_id,omitempty"`
	Group      *Group `json:"group,omitempty"` // of several schedules; nil: of one
}

// Severity says how urgent an alert is, in PagerDuty's words.
type Severity string

// The severities, most urgent first.
const (
	SeverityCritical Severity = "critical"
	SeverityError    Severity = "error"
	SeverityWarning  Severity = "warning"
	SeverityInfo     Severity = "info"
)

// Severities is the closed set.
var Severities = []Severity{SeverityCritical, SeverityError, SeverityWarning, SeverityInfo}

// SeverityLabel is the label of a schedule that sets the severity of its alerts.
const SeverityLabel = "severity"

// incident is the alert that the incident started with.
func (m *Message) incident() string { return cmp.Or(m.Data.IncidentID, m.Data.AlertID) }

// SeverityOf is the severity of alerts of a schedule with these labels: the
// label severity, or error where that is missing or another word.
func SeverityOf(labels map[string]string) Severity {
	for _, s := range Severities {
		if labels[SeverityLabel] == string(s) {
			return s
		}
	}
	return SeverityError
}

var titles = map[expect.NoticeType]string{
	expect.NoticeOpened:    "Alert",
	expect.NoticeReminder:  "Still open",
	expect.NoticeRecovered: "Recovered",
	expect.NoticeTest:      "Test message",
}

// title is the subject: "[prod] Alert: nightly".
func (m *Message) title() string {
	title := titles[m.Type]
	switch {
	case m.Data.Group != nil:
		title += ": " + m.Data.Group.headline(m.Data.Cause)
	case m.Data.ScheduleID != "":
		title += ": " + m.Data.ScheduleID
	}
	if m.Data.Environment != "" {
		title = "[" + m.Data.Environment + "] " + title
	}
	return oneLine(title, maxTitle)
}

// fact is a line below the sentence.
type fact struct{ name, value string }

// facts are the details to show, without empty ones.
func (m *Message) facts() []fact {
	d := &m.Data
	var facts []fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, oneLine(value, maxFact)})
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return stamp(t)
	}
	add("Environment", d.Environment)
	if d.Group != nil {
		add("Severity", string(d.Severity))
		add("Cause", string(d.Cause))
		return append(facts, d.Group.facts(m)...)
	}
	add("Schedule", d.ScheduleID)
	add("Workflow", d.WorkflowID)
	add("Owner", d.UserID)
	add("Severity", string(d.Severity))
	add("Cause", string(d.Cause))
	add("Error", d.Error)
	if d.Late > 1 {
		add("In a row", fmt.Sprint(d.Late))
		add("First slot", at(d.FirstSlot))
	}
	add("Slot", at(d.LastSlot))
	add("Opened", at(d.OpenedAt))
	add("Closed", at(d.ClosedAt))
	add("Resolution", string(d.Resolution))
	add("Alert", d.AlertID)
	return facts
}
