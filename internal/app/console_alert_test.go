package app_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// promising is a schedule of ada that misses its expectation: the executor accepts runs and reports
// nothing.
const promising = `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"* * * * * *","overlap_policy":"allow","expect":{"finish_within_ms":1000,"success_every_ms":86400000}}`

func TestTheConsoleShowsAndAcknowledgesAnAlert(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("promising", promising)
		id := g.alerted("promising")
		for who, want := range map[string]bool{"operator": true, "viewer": true, "user": true, "bob": false} {
			list, one := g.browse(who, "/ui/alerts", nil), g.browse(who, "/ui/alerts/"+id, nil)
			if strings.Contains(list.text, id) != want || (one.code == http.StatusOK) != want || strings.Contains(one.text, "expected to succeed within 1 s of its slot") != want {
				t.Errorf("%s sees the alert: %t, want %t: %d %s", who, !want, want, one.code, list.main())
			}
		}
		if page := g.browse("user", "/ui/schedules/promising", nil); !strings.Contains(page.text, "/ui/alerts/"+id) || !strings.Contains(page.text, "to succeed at least once every 1 d") {
			t.Error("the schedule's page lacks its promises, or the alert:", page.main())
		}
		if page := g.browse("user", "/", nil); !strings.Contains(page.text, "not acknowledged") {
			t.Error("the overview does not count it:", page.main())
		}
		if got := g.browse("bob", "/ui/alerts/"+id+"/acknowledge", url.Values{"note": {"mine"}}); got.code != http.StatusNotFound {
			t.Errorf("seen to by another owner: %d", got.code)
		}
		if got := g.browse("user", "/ui/alerts/"+id+"/acknowledge", url.Values{"note": {"on it"}}); got.code != http.StatusOK || !strings.Contains(got.text, "Acknowledged by") {
			t.Errorf("seen to: %d %s", got.code, got.main())
		}
		if page := g.browse("viewer", "/ui/alerts/"+id, nil); !strings.Contains(page.text, "on it") || strings.Contains(page.text, "b-ack") {
			t.Error("whoever looks next is not told:", page.main())
		}
	})
}

// alerted waits for an open alert of the schedule.
func (g *guarded) alerted(id string) string {
	g.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		_, answer := g.send("operator", "GET", "/v1/alerts?state=open&schedule_id="+id, "")
		if found := regexp.MustCompile(`"alert_id":"([^"]+)"`).FindStringSubmatch(answer); found != nil {
			return found[1]
		}
	}
	g.t.Fatal("no alert of", id, "was opened")
	return ""
}
