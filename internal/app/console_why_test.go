package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A deleted schedule is explained until its retention ends.
func TestTheConsoleExplainsADeletedScheduleOnBothStores(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("reports.hourly", hourly)
		if code, answer := g.send("operator", "DELETE", "/v1/schedules/reports.hourly", ""); code != http.StatusOK {
			t.Fatal(answer)
		}
		for _, test := range []struct{ name, who, path, want string }{
			{"the page", "operator", "/ui/schedules/reports.hourly/explain", "Enter any time"},
			{"the clock of its zone", "operator", "/ui/schedules/reports.hourly/explain", "in Europe/Berlin, or with an offset"},
			{"an instant after it", "operator", "/ui/schedules/reports.hourly/explain?time=2090-01-01T13:00:00Z", "it was deleted at " + time.Now().UTC().Format("2006-")},
			{"somebody else's", "bob", "/ui/schedules/reports.hourly/explain", "there is no schedule"},
			{"one that never was", "operator", "/ui/schedules/none/explain", "there is no schedule"},
		} {
			if got := g.browse(test.who, test.path, nil); !strings.Contains(got.text, test.want) {
				t.Errorf("%s: %s answers %d without %q:\n%s", test.name, test.path, got.code, test.want, got.main())
			}
		}
	})
}

// Its backfills are shown too, but no new one can start.
func TestTheBackfillsOfADeletedScheduleAreShownOnBothStores(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("reports.hourly", hourly)
		past := time.Now().UTC().Add(-48 * time.Hour).Format(time.RFC3339)
		code, answer := g.send("operator", "POST", "/v1/schedules/reports.hourly:backfill", `{"from":"`+past+`","reprocess":"all","overlap_policy":"allow","note":"after the outage"}`)
		if code != http.StatusOK {
			t.Fatal(answer)
		}
		const path = "/ui/schedules/reports.hourly/backfills"
		if got := g.browse("operator", path, nil); !strings.Contains(got.text, `id="new"`) || !strings.Contains(got.text, "after the outage") {
			t.Errorf("of a schedule that is there it lacks the form or the backfill:\n%s", got.main())
		}
		if code, answer := g.send("operator", "DELETE", "/v1/schedules/reports.hourly", ""); code != http.StatusOK {
			t.Fatal(answer)
		}
		got := g.browse("operator", path, nil)
		if got.code != http.StatusOK || !strings.Contains(got.text, "after the outage") || !strings.Contains(got.text, "The schedule was deleted") || strings.Contains(got.text, `id="new"`) {
			t.Errorf("%d, want the backfill, that the schedule was deleted, and no form:\n%s", got.code, got.main())
		}
		for who, path := range map[string]string{"bob": path, "operator": "/ui/schedules/none/backfills"} {
			if got := g.browse(who, path, nil); got.code != http.StatusNotFound || !strings.Contains(got.text, "there is no schedule") {
				t.Errorf("%s sees %d at %s, want that there is no such schedule:\n%s", who, got.code, path, got.main())
			}
		}
	})
}
