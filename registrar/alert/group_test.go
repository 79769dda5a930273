package alert_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

// people has two targets that get grouped messages, and one of them mails each
// owner alone.
const people = `targets:
  - {name: chat, kind: ntfy, url: "http://127.0.0.1:1/chat"}
  - {name: owners, kind: email, smtp: "127.0.0.1:1", from: mail@example.org, to_label: mailto, allow_domains: example.org}
`

var (
	unreachable = schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonLaunchUnavailable, ErrorCode: "executor_unreachable", ErrorMessage: "connection refused"}
	succeeded   = schedule.Settlement{To: schedule.StatusSuccess}
)

// failingSite is a site with schedules that fail, and registrars that come and go.
type failingSite struct {
	*site
	clock  time.Time
	slot   time.Time
	routes func() *notify.Routes
	watch  *alert.Watch
}

func newFailingSite(t *testing.T, e engine, file string) *failingSite {
	c := &failingSite{site: newSite(t, e), clock: time.Now().Truncate(time.Second)}
	c.slot = c.clock.Add(-24 * time.Hour)
	c.now = func() time.Time { return c.clock }
	c.routes = newNotifyFile(t, file).routes()
	c.restart()
	return c
}

// restart replaces the registrar by one that remembers nothing.
func (c *failingSite) restart() {
	c.watch = alert.New(alert.Options{
		Expectations: c.store, Outbox: c.store, Routes: c.routes, Now: c.now, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		OnFailure: schedule.OnFailureAlert, PublicURL: "https://carillon.example.org",
	})
}

// schedules makes n schedules of two owners.
func (c *failingSite) schedules(t *testing.T, n int) (rows []*schedule.Schedule) {
	for i := range n {
		row := hourly(fmt.Sprintf("etl-%04d", i), c.clock.Add(-48*time.Hour))
		row.Expect, row.Labels = schedule.Expect{}, map[string]string{"mailto": []string{"ada@example.org", "bob@example.org"}[i%2]}
		rows = append(rows, &row)
	}
	c.define(t, rows...)
	return rows
}

// onEngines plays a story on each engine, on a site with these targets.
func onEngines(t *testing.T, targets string, play func(t *testing.T, c *failingSite)) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			play(t, newFailingSite(t, e, targets))
		})
	}
}

// all ends a run of each schedule.
func (c *failingSite) all(t *testing.T, of []*schedule.Schedule, as schedule.Settlement) {
	c.slot = c.slot.Add(time.Minute)
	c.end(t, c.slot, as, of...)
}

// pass advances the clock in steps of two seconds, the interval of a registrar.
func (c *failingSite) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for end := c.clock.Add(d); ; c.clock = c.clock.Add(2 * time.Second) {
		if err := c.watch.Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.watch.Group(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !c.clock.Before(end) {
			return
		}
	}
}

// messages are all that went into the outbox, the oldest first.
func (c *failingSite) messages(t *testing.T, target string) (found []notify.Message) {
	t.Helper()
	all, err := c.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	for _, d := range all {
		var m notify.Message
		if err := json.Unmarshal([]byte(d.Payload), &m); err != nil {
			t.Fatal(err)
		}
		if d.Type != string(m.Type) || m.Data.Group != nil && d.AlertID != m.Data.AlertID {
			t.Errorf("a delivery of type %s about %s has the message %+v", d.Type, d.AlertID, m)
		}
		if d.Target == target {
			found = append(found, m)
		}
	}
	return found
}

// said are the sentences of the messages to a target.
func (c *failingSite) said(t *testing.T, target string) (lines []string) {
	t.Helper()
	for _, m := range c.messages(t, target) {
		lines = append(lines, m.Data.Text)
	}
	return lines
}

func TestAnOutageOfAnExecutorIsOneIncidentForEachTarget(t *testing.T) {
	onEngines(t, people, func(t *testing.T, c *failingSite) {
		rows := c.schedules(t, 1000)
		c.all(t, rows[:990], unreachable)
		c.pass(t, 10*time.Second)
		c.restart()
		c.all(t, rows[990:], unreachable)
		c.pass(t, 2*time.Minute)
		c.restart()
		c.all(t, rows[:500], succeeded)
		c.pass(t, 4*time.Minute)
		c.restart()
		c.all(t, rows[500:], succeeded)
		c.pass(t, 10*time.Minute)

		want := []string{
			"990 schedules have an open alert. Cause: executor_unreachable.",
			"10 more: 1,000 schedules have an open alert. Cause: executor_unreachable.",
			"The alerts of all 1,000 schedules are closed. Cause: executor_unreachable.",
		}
		if got := c.said(t, "chat"); !slices.Equal(got, want) {
			t.Errorf("the chat reads %q, want %q", got, want)
		}
		var ids []string
		for _, m := range c.messages(t, "chat") {
			ids = append(ids, m.Data.AlertID)
		}
		if ids = slices.Compact(ids); len(ids) != 1 {
			t.Errorf("the incident has the ids %q: PagerDuty would not resolve it", ids)
		}
		mails := make(map[string][]string)
		for _, m := range c.messages(t, "owners") {
			mails[m.Data.Labels["mailto"]] = append(mails[m.Data.Labels["mailto"]], m.Data.Text)
			for _, id := range m.Data.Group.IDs {
				if owner := map[bool]string{true: "ada@example.org", false: "bob@example.org"}[strings.ContainsAny(id[len(id)-1:], "02468")]; owner != m.Data.Labels["mailto"] {
					t.Errorf("%s is told of %s", m.Data.Labels["mailto"], id)
				}
			}
		}
		for _, owner := range []string{"ada@example.org", "bob@example.org"} {
			if want := []string{
				"495 schedules have an open alert. Cause: executor_unreachable.", "5 more: 500 schedules have an open alert. Cause: executor_unreachable.",
				"The alerts of all 500 schedules are closed. Cause: executor_unreachable.",
			}; !slices.Equal(mails[owner], want) {
				t.Errorf("%s reads %q, want %q", owner, mails[owner], want)
			}
		}
	})
}

func TestGroupsSeparateDifferentAlerts(t *testing.T) {
	onEngines(t, people, func(t *testing.T, c *failingSite) {
		rows := c.schedules(t, 5)
		failed := schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", ErrorMessage: "status 3"}
		c.all(t, rows[:2], unreachable)
		c.all(t, rows[2:3], failed)
		c.pass(t, 10*time.Second)
		got := c.said(t, "chat")
		slices.Sort(got)
		if len(got) != 2 || got[0] != "2 schedules have an open alert. Cause: executor_unreachable." || !strings.HasPrefix(got[1], "Schedule etl-0002 failed: workflow_failed, exit: status 3") {
			t.Errorf("two causes are told apart, and a single schedule with all its details: %q", got)
		}
		c.pass(t, 6*time.Minute)
		c.all(t, rows[3:4], failed)
		c.pass(t, 10*time.Second)
		if got := c.said(t, "chat"); len(got) != 3 || !strings.HasPrefix(got[2], "Schedule etl-0003 failed") {
			t.Errorf("another failure, much later, is another incident: %q", got)
		}
		c.all(t, rows[:1], succeeded)
		c.pass(t, 6*time.Minute)
		if got := c.said(t, "chat"); len(got) != 4 || got[3] != "The alerts of 1 of 2 schedules are closed; 1 schedule has an open alert. Cause: executor_unreachable." {
			t.Errorf("one of two recovered, and the other did not follow: %q", got)
		}
		c.all(t, rows[1:4], succeeded)
		c.pass(t, 2*time.Minute)
		if got := c.said(t, "chat"); len(got) != 7 {
			t.Errorf("three incidents end: %q", got[4:])
		}
	})
}

func TestSchedulesThatFlapDoNotFloodPeople(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		for _, n := range []int{1, 50} {
			t.Run(fmt.Sprintf("%s, %d schedules", e.name, n), func(t *testing.T) {
				t.Parallel()
				c := newFailingSite(t, e, people)
				rows := c.schedules(t, n)
				const minutes = 20
				var told []time.Time
				for minute := range minutes {
					for second := 0; second < 60; second += 10 {
						group := rows[n*second/60 : n*(second+10)/60] // some of them at each time
						if len(group) > 0 {
							c.all(t, group, []schedule.Settlement{unreachable, succeeded}[minute%2])
						}
						c.pass(t, 8*time.Second)
						c.clock = c.clock.Add(2 * time.Second)
						for len(told) < len(c.messages(t, "chat")) {
							told = append(told, c.clock)
						}
					}
				}
				for i := 2; i < len(told); i++ {
					if gap := told[i].Sub(told[i-2]); gap < 50*time.Second { // a minute, as seen every ten seconds
						t.Errorf("three messages within %s", gap)
					}
				}
				if len(told) == 0 || len(told) > minutes {
					t.Errorf("%d messages in %d minutes", len(told), minutes)
				}
				last := c.messages(t, "chat")
				c.pass(t, 10*time.Minute)
				if all := c.messages(t, "chat"); len(all) > len(last)+1 || all[len(all)-1].Type != expect.NoticeRecovered {
					t.Errorf("the last of it is %+v", all[len(all)-1])
				}
			})
		}
	}
}

func TestMessagesToATargetThatIsMissingAreKeptForARegistrarThatHasIt(t *testing.T) {
	onEngines(t, people, func(t *testing.T, c *failingSite) {
		rows := c.schedules(t, 1)
		c.all(t, rows, unreachable)
		c.pass(t, 0)
		with := c.routes
		c.routes = newNotifyFile(t, "targets: []").routes()
		c.restart()
		c.pass(t, 10*time.Second)
		if got := c.said(t, "chat"); got != nil {
			t.Errorf("sent %q", got)
		}
		c.routes = with
		c.restart()
		c.pass(t, 2*time.Minute)
		if got := c.said(t, "chat"); len(got) != 1 {
			t.Errorf("sent %q", got)
		}
	})
}

func TestAnIncidentKeepsItsRecipientsWhenALabelChanges(t *testing.T) {
	onEngines(t, people, func(t *testing.T, c *failingSite) {
		rows := c.schedules(t, 4)
		c.all(t, rows, unreachable)
		c.pass(t, 10*time.Second)
		rows[0].Labels, rows[0].Revision = map[string]string{"mailto": "bob@example.org"}, 2
		c.define(t, rows[0])
		c.all(t, rows[1:], succeeded)
		c.pass(t, 2*time.Second)
		c.all(t, rows[:1], succeeded) // the newest notice of ada's incident
		c.pass(t, 2*time.Minute)
		got := make(map[string]int)
		for _, m := range c.messages(t, "owners") {
			slices.Sort(m.Data.Group.IDs)
			got[strings.Join(m.Data.Group.IDs, " ")+" "+string(m.Type)+" to "+m.Data.Labels["mailto"]]++
		}
		for _, want := range []string{
			"etl-0000 etl-0002 alert.opened to ada@example.org", "etl-0000 etl-0002 alert.recovered to ada@example.org",
			"etl-0001 etl-0003 alert.opened to bob@example.org", "etl-0001 etl-0003 alert.recovered to bob@example.org",
		} {
			if got[want] != 1 || len(got) != 4 {
				t.Errorf("want one mail %s, got %v", want, got)
			}
		}
	})
}

func TestAnIncidentThatAlertsKeepJoiningEnds(t *testing.T) {
	onEngines(t, people, func(t *testing.T, c *failingSite) {
		first := c.clock
		began := make(map[string]time.Duration)
		for _, row := range c.schedules(t, 100) {
			c.all(t, []*schedule.Schedule{row}, unreachable)
			c.pass(t, 0)
			c.clock = c.clock.Add(4 * time.Minute)
			for _, m := range c.messages(t, "chat") {
				incident := m.Data.AlertID
				if m.Data.IncidentID != "" {
					incident = m.Data.IncidentID
				}
				if _, known := began[incident]; !known {
					began[incident] = m.Timestamp.Sub(first)
				}
			}
		}
		var at []time.Duration
		for _, d := range began {
			at = append(at, d)
		}
		slices.Sort(at)
		if len(at) != 2 || at[1] < 6*time.Hour || at[1] > 6*time.Hour+10*time.Minute {
			t.Errorf("incidents begin after %v, want two, the second one after six hours", at)
		}
	})
}

func TestRemindersDoNotPutOffTheFirstMessage(t *testing.T) {
	onEngines(t, "group_wait: 10m\n"+people, func(t *testing.T, c *failingSite) {
		row := hourly("etl", c.clock.Add(-48*time.Hour))
		row.Expect = schedule.Expect{OnFailure: schedule.OnFailureAlert, RemindEveryMS: 300_000}
		c.define(t, &row)
		c.all(t, []*schedule.Schedule{&row}, unreachable)
		c.pass(t, 11*time.Minute)
		if got := c.messages(t, "chat"); len(got) != 1 || got[0].Type != expect.NoticeOpened {
			t.Errorf("after 11 minutes the chat has %+v, want the opening message", got)
		}
	})
}
