package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/notify"
)

// messages are deliveries; only callers who see all owners may list them.
type messages struct {
	Rows []messageRow
	More bool
	Acts bool // each shows its actions
}

// messageRow is one message to one target.
type messageRow struct {
	*carillonv1.AlertDelivery
	Made, Ended, Next moment
}

func (c *Console) messages(v *visit, req *carillonv1.ListAlertDeliveriesRequest) part[messages] {
	resp, err := c.alerts.ListAlertDeliveries(v.Context(), req)
	m := messages{More: resp.GetNextPageToken() != "", Acts: req.GetAlertId() != "" || req.State != nil}
	for _, d := range resp.GetDeliveries() {
		m.Rows = append(m.Rows, messageRow{d, v.at(d.GetCreatedAt()), v.at(d.GetEndedAt()), v.at(d.GetNextAt())})
	}
	return partOf(m, err)
}

// To is the target: its name in NOTIFY_FILE and its kind, or the host of a URL.
func (m messageRow) To() string {
	if m.GetTargetKind() == string(notify.KindWebhook) {
		return m.GetHost()
	}
	return m.GetTarget() + " (" + m.GetTargetKind() + ", " + m.GetHost() + ")"
}

// About describes the content of a message.
func (m messageRow) About() string {
	switch m.GetType() {
	case "alert.opened":
		return "opened"
	case "alert.reminder":
		return "still open"
	case "alert.recovered":
		return "closed"
	}
	return "test"
}

// Alert is the path of its alert; empty: a test.
func (m messageRow) Alert() string {
	if m.GetAlertId() == "" {
		return ""
	}
	return alertPath(m.GetAlertId())
}

// Redeliver is the path of the form that sends it again.
func (m messageRow) Redeliver() string {
	return Prefix + "messages/" + url.PathEscape(m.GetDeliveryId()) + "/redeliver"
}

// Tone is the class of the state's chip.
func (m messageRow) Tone() string {
	return map[string]string{"PENDING": "ENQUEUED", "DELIVERED": "SUCCESS", "DEAD": "FAILED"}[m.GetState()]
}

func (m messageRow) State() string {
	switch {
	case m.GetState() == string(schedule.DeliveryDead):
		return "failed"
	case m.Waits():
		return "retrying"
	case m.GetState() == string(schedule.DeliveryPending):
		return "sending"
	}
	return "delivered"
}

// Waits reports whether it waits for its next try.
func (m messageRow) Waits() bool {
	return m.GetState() == string(schedule.DeliveryPending) && m.GetAttempts() > 0
}

// Advice is what to do about an undelivered message.
func (m messageRow) Advice() string {
	switch code := m.GetLastStatus(); {
	case m.GetState() == string(schedule.DeliveryDelivered):
		return ""
	case m.GetDisabled() || code == http.StatusGone:
		return "The target answered 410 (gone), so nothing more is sent to it. When it is back, send this again; the first 2xx answer reopens the target."
	case m.GetTargetKind() == string(notify.KindEmail) && code == 0:
		return "The mail was not handed over: check the server in NOTIFY_FILE and, for a recipient that was left out, allow_domains. Then send it again."
	case m.GetTargetKind() == string(notify.KindEmail):
		return "The mail server refused it: check the sender, the recipients and the login in NOTIFY_FILE. Then send it again."
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "The target rejected the secret or the caller: compare the secret in NOTIFY_FILE or ALERT_WEBHOOK_SECRET with the target's own, then send it again."
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "The target's address does not accept this request: correct it in NOTIFY_FILE, which is read again at once, or in ALERT_WEBHOOK_URL and restart the registrars. Then send it again."
	case code == http.StatusBadRequest:
		return "The target does not accept the message or its key: check the target in NOTIFY_FILE, then send it again."
	case code == 0:
		return "No answer: check that the target is up, its name resolves, and ALLOW_EGRESS allows it. Then send it again."
	}
	return "The target answered with an error: see its log. Send it again when that is fixed."
}

func (c *Console) redeliver(v *visit) (toast, error) {
	resp, err := c.alerts.RedeliverAlert(v.Context(), &carillonv1.RedeliverAlertRequest{DeliveryId: v.PathValue("id")})
	if err != nil {
		return toast{}, err
	}
	return toast{Title: "Sending again", Lines: []string{"To " + messageRow{AlertDelivery: resp.GetDelivery()}.To() + ", with the same id, retried for up to 24 hours."}}, nil
}

// redeliverDead sends all failed messages again, of one schedule if the page shows only that,
// oldest first, up to maxMany: each is a separate call with an entry in the audit trail.
func (c *Console) redeliverDead(v *visit) (toast, error) {
	dead := string(schedule.DeliveryDead)
	resp, err := c.alerts.ListAlertDeliveries(v.Context(), &carillonv1.ListAlertDeliveriesRequest{ScheduleId: v.field("schedule"), State: &dead, PageSize: maxMany})
	if err != nil {
		return toast{}, err
	}
	all := resp.GetDeliveries()
	slices.Reverse(all) // they come newest first
	var t toast
	done := 0
	for _, d := range all {
		if _, err := c.alerts.RedeliverAlert(v.Context(), &carillonv1.RedeliverAlertRequest{DeliveryId: d.GetDeliveryId()}); err != nil {
			t.Fails = append(t.Fails, violation{d.GetDeliveryId(), status.Convert(err).Message()})
			continue
		}
		done++
	}
	t.Bad = len(t.Fails) > 0
	t.Title = describe.Count(done, "notification") + " sent again"
	if resp.GetNextPageToken() != "" {
		t.Lines = []string{fmt.Sprintf("Those were the newest %d; there are more.", maxMany)}
	}
	return t, nil
}

func (c *Console) testAlerts(v *visit) (toast, error) {
	resp, err := c.alerts.TestAlerts(v.Context(), &carillonv1.TestAlertsRequest{})
	if err != nil {
		return toast{}, err
	}
	t := toast{Title: describe.Count(len(resp.GetDeliveries()), "test notification") + " sent", Lines: []string{"See the result under Notifications."}}
	for _, d := range resp.GetDeliveries() {
		t.Lines = append(t.Lines, "To "+messageRow{AlertDelivery: d}.To()+".")
	}
	return t, nil
}
