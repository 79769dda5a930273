package notify

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Kind says how messages are sent to a target; a closed set.
type Kind string

// The kinds.
const (
	KindWebhook   Kind = "webhook" // Standard Webhooks
	KindEmail     Kind = "email"
	KindSlack     Kind = "slack"
	KindPagerDuty Kind = "pagerduty"
	KindTeams     Kind = "teams"
	KindNtfy      Kind = "ntfy"
)

// Kinds is the closed set, in the order of the documentation.
var Kinds = []Kind{KindWebhook, KindEmail, KindSlack, KindPagerDuty, KindTeams, KindNtfy}

// Target is one place that messages are sent to.
type Target struct {
	ID   string // the name in NOTIFY_FILE; for ALERT_WEBHOOK_URL a hash of the URL, which may hold a secret
	Kind Kind
	Host string // for people
	sender
}

// GroupKey is the common key of alerts that share messages to this target: severity, cause and,
// for e-mail to a label's addresses, the recipients. Empty: one message per alert, as for
// programs.
func (t *Target) GroupKey(m *Message) string {
	if t.Kind == KindWebhook || m.Data.AlertID == "" {
		return ""
	}
	recipients := ""
	if e, ok := t.sender.(*email); ok && e.toLabel != "" {
		recipients = m.Data.Labels[e.toLabel]
	}
	return string(m.Data.Severity) + "/" + string(m.Data.Cause) + "/" + recipients
}

// Readdress gives m the recipients of the incident with this GroupKey. Owners can edit
// the label while an alert is open: a message about the schedules of one owner must
// not go where the newest notice says.
func (t *Target) Readdress(m *Message, groupKey string) {
	e, ok := t.sender.(*email)
	if !ok || e.toLabel == "" {
		return
	}
	_, _, recipients := splitGroupKey(groupKey)
	m.Data.Labels = maps.Clone(m.Data.Labels)
	if m.Data.Labels == nil {
		m.Data.Labels = make(map[string]string, 1)
	}
	m.Data.Labels[e.toLabel] = recipients
}

// splitGroupKey is the reverse of GroupKey. Severities and causes have no slash.
func splitGroupKey(key string) (severity Severity, cause schedule.Cause, recipients string) {
	first, rest, _ := strings.Cut(key, "/")
	second, recipients, _ := strings.Cut(rest, "/")
	return Severity(first), schedule.Cause(second), recipients
}

// Outgoing is one attempt to send one message.
type Outgoing struct {
	ID      string // the same at every attempt
	Payload string // a Message in JSON
	Now     time.Time
	Client  *http.Client // of package safehttp
}

// Result is the result of an attempt.
type Result struct {
	Status  int    // the HTTP or SMTP status; 0: there was no answer
	Problem string // empty: the target has the message
	Note    string // the target has it, but not every recipient
	Final   bool   // another attempt cannot help
	Gone    bool   // HTTP 410: send nothing more by itself
	After   time.Duration
}

// sender sends to one kind of target.
type sender interface {
	// Send makes one attempt, in bounded time.
	Send(ctx context.Context, o Outgoing) Result
}

// message reads the payload; a failure is final, as the payload does not change.
func (o *Outgoing) message() (*Message, *Result) {
	var m Message
	if err := json.Unmarshal([]byte(o.Payload), &m); err != nil {
		return nil, &Result{Problem: "the stored message cannot be read: " + err.Error(), Final: true}
	}
	return &m, nil
}
