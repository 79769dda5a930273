package alert

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/expect"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/wording"
)

// Bounds of MessageData.OutputTail.
const (
	MaxTailLines = 20
	MaxTailBytes = 2 << 10
)

// Message is the body of what receivers get; docs/alerts.md.
type Message struct {
	Type      expect.NoticeType `json:"type"`
	Timestamp time.Time         `json:"timestamp"` // when what it tells of was found
	Data      MessageData       `json:"data"`
}

// MessageData is the alert that a message is about, by the API's names.
type MessageData struct {
	Text       string                   `json:"text"` // one sentence for people
	AlertID    string                   `json:"alert_id,omitempty"`
	ScheduleID string                   `json:"schedule_id,omitempty"`
	WorkflowID string                   `json:"workflow_id,omitempty"`
	UserID     string                   `json:"user_id,omitempty"`
	Kind       schedule.ExpectationKind `json:"kind,omitempty"`
	LimitMS    uint32                   `json:"limit_ms,omitempty"`
	Cause      schedule.Cause           `json:"cause,omitempty"`
	Late       int64                    `json:"late,omitempty"`
	FirstSlot  time.Time                `json:"first_slot,omitzero"`
	LastSlot   time.Time                `json:"last_slot,omitzero"`
	Deadline   time.Time                `json:"deadline,omitzero"`
	OpenedAt   time.Time                `json:"opened_at,omitzero"`
	ClosedAt   time.Time                `json:"closed_at,omitzero"`
	Resolution schedule.Resolution      `json:"resolution,omitempty"`
	// OutputTail holds the last lines that the failed run wrote: at most
	// MaxTailLines lines and MaxTailBytes bytes, secrets masked, no control
	// characters but line breaks and tabs. Empty: no output is kept.
	OutputTail string `json:"output_tail,omitempty"`
	URL        string                   `json:"url,omitempty"`     // of the alert's page in the console
	APIURL     string                   `json:"api_url,omitempty"` // of the alert in the API
}

// messages are the deliveries of one notice, one for each target. Their ids
// follow from what they tell, so that a verdict that is found again adds none.
func (w *Watch) messages(n expect.Notice, now time.Time) []schedule.AlertDelivery {
	a := &n.Alert
	m := Message{Type: n.Type, Timestamp: now, Data: MessageData{
		Text: sentence(n), AlertID: a.AlertID, ScheduleID: a.ScheduleID, WorkflowID: a.WorkflowID, UserID: a.UserID, Kind: a.Kind,
		LimitMS: a.LimitMS, Cause: a.Cause, Late: a.Late, FirstSlot: a.FirstSlot, LastSlot: a.LastSlot, Deadline: a.Deadline,
		OpenedAt: a.OpenedAt, ClosedAt: a.ClosedAt, Resolution: a.Resolution,
	}}
	if w.publicURL != "" {
		m.Data.URL, m.Data.APIURL = w.publicURL+"/ui/alerts/"+a.AlertID, w.publicURL+"/v1/alerts/"+a.AlertID
	}
	seed := fmt.Sprintf("%s/%s/%d", a.AlertID, n.Type, now.UnixMicro())
	return w.envelopes(m, a, seed, now)
}

// testMessages are the deliveries of one test.
func (w *Watch) testMessages(now time.Time) []schedule.AlertDelivery {
	m := Message{Type: expect.NoticeTest, Timestamp: now, Data: MessageData{
		Text: "This is a test of Carillon's alerts: somebody asked for it, and nothing is amiss.",
	}}
	return w.envelopes(m, &schedule.Alert{}, rand.Text(), now)
}

func (w *Watch) envelopes(m Message, a *schedule.Alert, seed string, now time.Time) []schedule.AlertDelivery {
	payload, err := json.Marshal(m)
	if err != nil {
		panic("a message is not JSON: " + err.Error()) // words, numbers and times always are
	}
	deliveries := make([]schedule.AlertDelivery, len(w.targets))
	for i := range w.targets {
		t := &w.targets[i]
		sum := sha256.Sum256([]byte(seed + "/" + t.ID))
		deliveries[i] = schedule.AlertDelivery{
			DeliveryID: "msg_" + hex.EncodeToString(sum[:14]), AlertID: a.AlertID, ScheduleID: a.ScheduleID, UserID: a.UserID,
			Type: string(m.Type), Target: t.ID, Host: t.Host, Payload: string(payload), CreatedAt: now,
		}
	}
	return deliveries
}

// sentence says a notice to people.
func sentence(n expect.Notice) string {
	a := &n.Alert
	limit := wording.Span(time.Duration(a.LimitMS) * time.Millisecond)
	has := "has"
	if n.Type == expect.NoticeRecovered {
		has = "had"
	}
	what := fmt.Sprintf("%s had no successful run for %s, since %s", has, limit, stamp(a.FirstSlot))
	switch a.Kind {
	case schedule.ExpectStart:
		what = fmt.Sprintf("%s not started its run of %s within %s (%s)", has, stamp(a.LastSlot), limit, a.Cause)
	case schedule.ExpectFinish:
		what = fmt.Sprintf("%s not finished its run of %s within %s (%s)", has, stamp(a.LastSlot), limit, a.Cause)
	}
	if a.Late > 1 {
		what += fmt.Sprintf(", %d times in a row", a.Late)
	}
	switch n.Type {
	case expect.NoticeReminder:
		what = "is still late: it " + what
	case expect.NoticeRecovered:
		now := "is well again"
		if a.Resolution == schedule.ResolutionDeleted || a.Resolution == schedule.ResolutionRemoved {
			now = "promises this no more"
		}
		what = fmt.Sprintf("%s (%s); it %s", now, a.Resolution, what)
	}
	return fmt.Sprintf("Schedule %s %s.", a.ScheduleID, what)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
