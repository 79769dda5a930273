package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is deleted is explained as long as it is kept, on the page as elsewhere.
func TestTheConsoleExplainsADeletedScheduleOnBothStores(t *testing.T) {
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("reports.hourly", hourly)
		if code, answer := g.send("operator", "DELETE", "/v1/schedules/reports.hourly", ""); code != http.StatusOK {
			t.Fatal(answer)
		}
		for _, test := range []struct{ name, who, path, want string }{
			{"the page", "operator", "/ui/schedules/reports.hourly/explain", "Ask about any instant"},
			{"the clock of its zone", "operator", "/ui/schedules/reports.hourly/explain", "as the clock of Europe/Berlin shows it"},
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
