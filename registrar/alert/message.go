package alert

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

// tell adds the messages of an outcome, one for each notice and target. It records the notified
// targets in the alert, so that they get its end too, whatever the routes are by then. Ids are
// derived from the content: a repeated verdict adds no message.
func (w *Watch) tell(ctx context.Context, out *expect.Outcome, s *schedule.Schedule, now time.Time) []schedule.AlertDelivery {
	if len(out.Notices) == 0 {
		return nil
	}
	routes := w.routes()
	var labels map[string]string
	if s != nil {
		labels = s.Labels
	}
	kept := &out.Alerts[0] // all notices are about it
	var deliveries []schedule.AlertDelivery
	for _, n := range out.Notices {
		a := &n.Alert
		severity := notify.SeverityOf(labels)
		to := strings.Split(kept.Targets, ",")
		if n.Type != expect.NoticeRecovered {
			to = routes.For(notify.Alert{Labels: labels, Owner: a.UserID, Severity: severity, Kind: a.Kind})
			kept.Targets = union(kept.Targets, to)
		}
		m := w.message(n, now)
		m.Data.OutputTail = w.outputTail(ctx, n, now)
		m.Data.Labels, m.Data.Severity = labels, severity
		seed := fmt.Sprintf("%s/%s/%d", a.AlertID, n.Type, now.UnixMicro())
		deliveries = append(deliveries, envelopes(routes, to, m, seed)...)
	}
	return deliveries
}

// union adds ids to ids between commas, each once.
func union(known string, more []string) string {
	all := strings.FieldsFunc(known, func(r rune) bool { return r == ',' })
	for _, id := range more {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return strings.Join(all, ",")
}

// message is the message of a notice.
func (w *Watch) message(n expect.Notice, now time.Time) notify.Message {
	a := &n.Alert
	m := notify.Message{Type: n.Type, Timestamp: now, Data: notify.MessageData{
		Text: sentence(n), Environment: w.environment, AlertID: a.AlertID, ScheduleID: a.ScheduleID, WorkflowID: a.WorkflowID, UserID: a.UserID,
		Kind: a.Kind, LimitMS: a.LimitMS, Cause: a.Cause, Late: a.Late, FirstSlot: a.FirstSlot, LastSlot: a.LastSlot, Deadline: a.Deadline,
		OpenedAt: a.OpenedAt, ClosedAt: a.ClosedAt, Resolution: a.Resolution, Error: a.Detail,
	}}
	if !a.RunKey.IsZero() {
		m.Data.Run = a.RunKey.String()
	}
	if w.publicURL != "" {
		m.Data.URL, m.Data.APIURL = w.publicURL+"/ui/alerts/"+a.AlertID, w.publicURL+"/v1/alerts/"+a.AlertID
	}
	return m
}

// testMessages are the deliveries of one test to these targets.
func (w *Watch) testMessages(routes *notify.Routes, to []string, now time.Time) []schedule.AlertDelivery {
	m := notify.Message{Type: expect.NoticeTest, Timestamp: now, Data: notify.MessageData{
		Text: "This is a test of Carillon's alerts. Nothing is wrong.", Environment: w.environment,
	}}
	return envelopes(routes, to, m, rand.Text())
}

// envelopes are the deliveries of one message. Targets that the configuration no
// longer has are left out.
func envelopes(routes *notify.Routes, to []string, m notify.Message, seed string) []schedule.AlertDelivery {
	payload, err := json.Marshal(m)
	if err != nil {
		panic("a message is not JSON: " + err.Error()) // words, numbers and times always are
	}
	deliveries := make([]schedule.AlertDelivery, 0, len(to))
	for _, id := range to {
		t := routes.Target(id)
		if t == nil {
			continue
		}
		sum := sha256.Sum256([]byte(seed + "/" + t.ID))
		deliveries = append(deliveries, schedule.AlertDelivery{
			DeliveryID: "msg_" + hex.EncodeToString(sum[:14]), AlertID: m.Data.AlertID, ScheduleID: m.Data.ScheduleID, UserID: m.Data.UserID,
			Type: string(m.Type), Target: t.ID, TargetKind: string(t.Kind), Host: t.Host, Payload: string(payload), CreatedAt: m.Timestamp,
			GroupKey: t.GroupKey(&m),
		})
	}
	return deliveries
}

// sentence describes a notice in one sentence.
func sentence(n expect.Notice) string {
	a := &n.Alert
	if a.Kind == schedule.ExpectNoFailure {
		return failureSentence(n)
	}
	limit := describe.Span(time.Duration(a.LimitMS) * time.Millisecond)
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
	if a.Detail != "" && (a.Kind == schedule.ExpectStart || a.Kind == schedule.ExpectFinish) {
		what += ": " + strings.TrimSuffix(a.Detail, ".")
	}
	switch n.Type {
	case expect.NoticeReminder:
		what = "is still late: it " + what
	case expect.NoticeRecovered:
		now := "recovered"
		switch a.Resolution {
		case schedule.ResolutionHappened:
			now = "recovered (it happened late)"
		case schedule.ResolutionRemoved:
			now = "no longer has this expectation"
		case schedule.ResolutionDeleted:
			now = "was deleted"
		}
		what = now + "; it " + what
	}
	return fmt.Sprintf("Schedule %s %s.", a.ScheduleID, what)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
