package console

import (
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	openShown   = 100
	closedShown = 20
	deadShown   = 50
	sentShown   = 20
)

// alertsView is the page of alerts, with the notifications about them.
type alertsView struct {
	Schedule, Kind string
	Kinds          []string // to choose from
	Open           []alertRow
	OpenMore       bool
	Closed         part[[]alertRow]
	Older, Newest  string // addresses of other pages of Closed
	Dead, Sent     part[messages]
}

// alertRow is one alert.
type alertRow struct {
	*carillonv1.Alert
	First, Last, Deadline, Opened, Closed, Acked moment
}

func (v *visit) alert(a *carillonv1.Alert) alertRow {
	return alertRow{
		Alert: a, First: v.at(a.GetFirstSlot()), Last: v.at(a.GetLastSlot()), Deadline: v.at(a.GetDeadline()),
		Opened: v.at(a.GetOpenedAt()), Closed: v.at(a.GetClosedAt()), Acked: v.at(a.GetAckedAt()),
	}
}

func (v *visit) alerts(all []*carillonv1.Alert) []alertRow {
	rows := make([]alertRow, len(all))
	for i, a := range all {
		rows[i] = v.alert(a)
	}
	return rows
}

func (a alertRow) Path() string { return alertPath(a.GetAlertId()) }

func alertPath(id string) string { return Prefix + "alerts/" + url.PathEscape(id) }

// Why is the page that explains the alert's last slot.
func (a alertRow) Why() string {
	if a.GetKind() == string(schedule.ExpectSuccess) || !a.Last.Is() {
		return ""
	}
	return whyPath(a.GetScheduleId(), a.GetLastSlot())
}

// Expectation describes the expectation that was missed.
func (a alertRow) Expectation() string { return expectationWords(a.GetKind(), a.GetLimitMs()) }

// Late is the label of its slots.
func (a alertRow) Late() string {
	if a.GetKind() == string(schedule.ExpectNoFailure) {
		return "failed"
	}
	return "late"
}

// FailedRun is the page of the newest failed run; "" if the alert is about none.
func (a alertRow) FailedRun() string {
	if a.GetIdempotencyKey() == "" {
		return ""
	}
	return Prefix + "runs/" + a.GetIdempotencyKey()
}

// Cause explains the cause.
func (a alertRow) Cause() string { return causeWords(a.GetCause()) }

// InARow is how often it was broken.
func (a alertRow) InARow() string {
	if a.GetLate() < 2 {
		return ""
	}
	if a.GetKind() == string(schedule.ExpectSuccess) {
		return fmt.Sprintf("%d consecutive periods without success", a.GetLate())
	}
	if a.GetKind() == string(schedule.ExpectNoFailure) {
		return fmt.Sprintf("%d failed runs since the last success", a.GetLate())
	}
	return fmt.Sprintf("%d consecutive slots", a.GetLate())
}

// Lasted is how long it was open.
func (a alertRow) Lasted() string {
	if a.Closed.Instant.Equal(a.Opened.Instant) { // found all at once
		return ""
	}
	return between(a.Opened, a.Closed)
}

// Resolution explains why the alert was closed.
func (a alertRow) Resolution() string { return resolutions[schedule.Resolution(a.GetResolution())] }

// causes explains each schedule.Cause, and where to look.
var causes = map[schedule.Cause]string{
	schedule.CauseNotPlanned:   "The slot has no run: no worker led its shard, or its rule could not be planned. See the workers.",
	schedule.CauseNotClaimed:   "The run was planned but not claimed: no leader, no free capacity, or waiting for its overlap key. See the workers, and explain the slot.",
	schedule.CauseNotAccepted:  "The run was sent, and no executor accepted it. Is the executor up, and does it answer?",
	schedule.CauseStillRunning: "The executor accepted the run, and it has not ended. See the run.",
	schedule.CauseQueued:       "The run waits in its dispatch queue. Explain the run: it says what keeps it.",
	schedule.CauseTooLate:      "It happened after the limit. The run shows where the time went.",
	schedule.CauseNoLeader:     "No worker led the schedule's shard. See the workers.",
	schedule.CauseNoReport:     "The run that blocks the slot was accepted, and the executor has not reported since. Explain the slot, and ask the executor.",
	"executor_unreachable":     "The executor could not be reached.",
	"executor_timeout":         "The executor did not answer in time.",
	"executor_error":           "The executor answered with an error.",
	"executor_bad_answer":      "The executor's answer broke the contract.",
	"launcher_unreachable":     "The launcher could not be reached.",
	"queue_unavailable":        "The launch queue could not be reached.",
	"workflow_unavailable":     "The workflow store could not be read.",
	schedule.CauseNoSuccess:    "No run succeeded in that time, and none failed.",
}

// causeWords explains a cause. It may also be the reason of a run.
func causeWords(cause string) string {
	if words, ok := causes[schedule.Cause(cause)]; ok {
		return words
	}
	return reasonWords(cause)
}

var resolutions = map[schedule.Resolution]string{
	schedule.ResolutionRecovered: "back to normal",
	schedule.ResolutionHappened:  "it happened late; no slot was due since",
	schedule.ResolutionRemoved:   "the expectation was removed",
	schedule.ResolutionDeleted:   "the schedule was deleted",
}

// Sum is the sentence above the page.
func (a alertsView) Sum() string {
	open, dead := "No open alerts", ""
	if n := len(a.Open); n > 0 {
		acknowledged := 0
		for _, one := range a.Open {
			if one.Acked.Is() {
				acknowledged++
			}
		}
		open = describe.Count(n, "open alert")
		if a.OpenMore {
			open = fmt.Sprintf("%d or more open alerts", n)
		}
		if acknowledged > 0 {
			open += fmt.Sprintf(", %d acknowledged", acknowledged)
		}
	}
	if n := len(a.Dead.Is.Rows); n > 0 {
		dead = "; " + describe.Count(n, "failed notification")
	}
	return open + dead + "."
}

// Filtered reports whether a filter may be the reason of an empty list.
func (a alertsView) Filtered() bool { return a.Schedule+a.Kind != "" }

func (c *Console) showAlerts(v *visit) (page, error) {
	view := alertsView{Schedule: v.param("schedule"), Kind: v.param("kind"), Kinds: texts(schedule.ExpectationKinds)}
	ask := func(state string, size uint32, token string) (*carillonv1.ListAlertsResponse, error) {
		req := &carillonv1.ListAlertsRequest{ScheduleId: view.Schedule, State: &state, PageSize: size, PageToken: token}
		if view.Kind != "" {
			req.Kind = &view.Kind
		}
		return c.alerts.ListAlerts(v.Context(), req)
	}
	open, err := ask("open", openShown, "")
	if err != nil {
		return page{}, err
	}
	view.Open, view.OpenMore = v.alerts(open.GetAlerts()), open.GetNextPageToken() != ""
	var g errgroup.Group
	g.Go(func() error {
		closed, err := ask("closed", closedShown, v.param("page_token"))
		view.Closed = partOf(v.alerts(closed.GetAlerts()), err)
		if token := closed.GetNextPageToken(); token != "" {
			view.Older = v.with("page_token", token)
		}
		if v.param("page_token") != "" {
			view.Newest = v.with("page_token", "")
		}
		return nil
	})
	g.Go(func() error {
		dead := string(schedule.DeliveryDead)
		view.Dead = c.messages(v, &carillonv1.ListAlertDeliveriesRequest{ScheduleId: view.Schedule, State: &dead, PageSize: deadShown})
		return nil
	})
	g.Go(func() error {
		view.Sent = c.messages(v, &carillonv1.ListAlertDeliveriesRequest{ScheduleId: view.Schedule, PageSize: sentShown})
		return nil
	})
	_ = g.Wait() // each part holds its error
	return page{name: "alerts", title: "Alerts", view: view}, nil
}

// alertView is one alert.
type alertView struct {
	Alert    alertRow
	Messages part[messages]
	Past     part[[]runRow]
	Lately   string // address of the schedule's runs
}

func (c *Console) showAlert(v *visit) (page, error) {
	resp, err := c.alerts.GetAlert(v.Context(), &carillonv1.GetAlertRequest{AlertId: v.PathValue("id")})
	if err != nil {
		return page{}, err
	}
	row := v.alert(resp.GetAlert())
	view := alertView{Alert: row, Lately: Prefix + "runs?schedule=" + row.GetScheduleId()}
	var g errgroup.Group
	g.Go(func() error {
		view.Messages = c.messages(v, &carillonv1.ListAlertDeliveriesRequest{AlertId: row.GetAlertId(), PageSize: deadShown})
		return nil
	})
	g.Go(func() error {
		view.Past = partOf(c.lastRuns(v.Context(), v, row.GetScheduleId(), 5))
		return nil
	})
	_ = g.Wait() // each part holds its error
	return page{name: "alert", title: "Alert of " + row.GetScheduleId(), view: view}, nil
}

func (c *Console) acknowledge(v *visit) (toast, error) {
	resp, err := c.alerts.AcknowledgeAlert(v.Context(), &carillonv1.AcknowledgeAlertRequest{AlertId: v.PathValue("id"), Note: v.field("note")})
	if err != nil {
		return toast{}, err
	}
	a := resp.GetAlert()
	if a.GetClosedAt() != nil {
		return toast{Title: "It has already recovered", Lines: []string{"There is nothing to acknowledge."}, Still: true}, nil
	}
	return toast{Title: "Acknowledged by " + orSomebody(a.GetAckedBy()), Lines: []string{"No more reminders until it recovers."}}, nil
}

func orSomebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}
