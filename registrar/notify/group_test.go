package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

// incident is a group with its last message at a second, and notices such as "opened 0 told": the
// type, the second of the notice, and whether it was sent.
func incident(toldAt int, notices ...string) *schedule.AlertGroup {
	g := &schedule.AlertGroup{Target: "chat", GroupID: "al-0", Key: "critical/executor_unreachable/"}
	if toldAt >= 0 {
		g.ToldAt = noon.Add(time.Duration(toldAt) * time.Second)
	}
	for i, text := range notices {
		var kind string
		var at int
		_, _ = fmt.Sscan(text, &kind, &at)
		g.Notices = append(g.Notices, schedule.AlertNotice{
			Target: "chat", AlertID: fmt.Sprint("al-", i), GroupID: "al-0", ScheduleID: fmt.Sprint("s", i), Type: "alert." + kind,
			OpenedAt: noon, NoticedAt: noon.Add(time.Duration(at) * time.Second), Told: strings.HasSuffix(text, "told"),
		})
	}
	return g
}

func TestWhichMessageAnIncidentNeedsNext(t *testing.T) {
	t.Parallel()
	grouping := notify.Grouping{Wait: 5 * time.Second, Interval: time.Minute}
	for _, tt := range []struct {
		name string
		of   *schedule.AlertGroup
		what expect.NoticeType
		due  int // seconds
	}{
		{name: "the first message waits for more alerts from the first one on", of: incident(-1, "opened 0", "opened 4"), what: expect.NoticeOpened, due: 5},
		{name: "all is told", of: incident(5, "opened 0 told", "opened 4 told")},
		{name: "an alert joins just after a message", of: incident(5, "opened 0 told", "opened 7"), what: expect.NoticeOpened, due: 65},
		{name: "an alert joins long after a message", of: incident(5, "opened 0 told", "opened 200"), what: expect.NoticeOpened, due: 205},
		{name: "a growing incident is told of more seldom", of: incident(130, "opened 0 told", "opened 131"), what: expect.NoticeOpened, due: 260},
		{name: "but at least every five intervals", of: incident(3600, "opened 0 told", "opened 3601"), what: expect.NoticeOpened, due: 3900},
		{name: "a reminder", of: incident(5, "opened 0 told", "reminder 300", "reminder 302"), what: expect.NoticeReminder, due: 305},
		{name: "some are closed, and the others may follow", of: incident(5, "opened 0 told", "recovered 600", "recovered 660"), what: expect.NoticeReminder, due: 960},
		{name: "some are closed, and another joins", of: incident(5, "opened 0 told", "recovered 600", "opened 660"), what: expect.NoticeOpened, due: 665},
		{name: "the last one is closed", of: incident(5, "recovered 600 told", "recovered 700"), what: expect.NoticeRecovered, due: 705},
		{name: "the end comes soon after a message", of: incident(5, "recovered 20"), what: expect.NoticeRecovered, due: 65},
		{name: "the end of an old incident does not wait longer", of: incident(3600, "recovered 3601"), what: expect.NoticeRecovered, due: 3660},
		{name: "it is over before it is told", of: incident(-1, "recovered 3"), what: expect.NoticeRecovered, due: 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			what, due := grouping.Next(tt.of)
			want := time.Time{}
			if tt.what != "" {
				want = noon.Add(time.Duration(tt.due) * time.Second)
			}
			if what != tt.what || !due.Equal(want) {
				t.Errorf("%q at %s, want %q at %s", what, due, tt.what, want)
			}
		})
	}
}

// outage is an incident of n schedules with some closed, and its message.
func outage(what expect.NoticeType, n, closed, fresh int, toldAt int) notify.Message {
	g := incident(toldAt)
	for i := range n {
		a := schedule.AlertNotice{
			Target: "chat", AlertID: fmt.Sprintf("al-%024d", i), ScheduleID: fmt.Sprintf("etl-%04d", i), Type: schedule.NoticeOpened,
			OpenedAt: noon.Add(time.Duration(i) * 10 * time.Millisecond), Told: toldAt >= 0 && i < n-fresh,
		}
		if i < closed {
			a.Type = schedule.NoticeRecovered
		}
		g.Notices = append(g.Notices, a)
	}
	g.GroupID = g.Notices[0].AlertID
	one := messages()["opened"]
	one.Data.Kind, one.Data.Cause, one.Data.Severity = schedule.ExpectNoFailure, "workflow_failed", notify.SeverityInfo // changed since the incident began
	one.Data.Error = "executor_unreachable: dial tcp 192.0.2.7:8080: connection refused"
	return one.Together(what, g, notify.Summarize(g), "https://carillon.example.org/ui/")
}

func outages() map[string]notify.Message {
	return map[string]notify.Message{
		"group_opened":    outage(expect.NoticeOpened, 1000, 0, 1000, -1),
		"group_joined":    outage(expect.NoticeOpened, 1200, 100, 200, 5),
		"group_reminder":  outage(expect.NoticeReminder, 3, 2, 0, 5),
		"group_recovered": outage(expect.NoticeRecovered, 1000, 1000, 0, 5),
	}
}

func TestTextOfAGroup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		of   notify.Message
		want string
	}{
		{"the first message", outages()["group_opened"], "1,000 schedules have an open alert. Cause: executor_unreachable."},
		{"more schedules", outage(expect.NoticeOpened, 3, 0, 1, 5), "1 more: 3 schedules have an open alert. Cause: executor_unreachable."},
		{"more schedules, and some closed", outages()["group_joined"], "200 more: 1,100 schedules have an open alert, the alerts of 100 are closed. Cause: executor_unreachable."},
		{"some closed", outages()["group_reminder"], "The alerts of 2 of 3 schedules are closed; 1 schedule has an open alert. Cause: executor_unreachable."},
		{"a reminder", outage(expect.NoticeReminder, 2, 0, 0, 5), "2 schedules still have an open alert. Cause: executor_unreachable."},
		{"the end", outages()["group_recovered"], "The alerts of all 1,000 schedules are closed. Cause: executor_unreachable."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.of.Data.Text; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnIncidentOfOneScheduleIsNoGroup(t *testing.T) {
	t.Parallel()
	g := incident(-1, "opened 0", "opened 1")
	g.Notices[1].ScheduleID = g.Notices[0].ScheduleID // it fails to start, and then fails
	if s := notify.Summarize(g); s != nil {
		t.Errorf("%+v", s)
	}
}
