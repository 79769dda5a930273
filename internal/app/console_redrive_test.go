package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestTheConsoleRedrivesDeadRuns(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		key := g.register("reports.hourly", hourly)
		const list, form = "/ui/runs?dead=yes&schedule=reports.hourly", "/ui/runs/redrive?schedule=reports.hourly"
		g.browse("operator", list, nil).holds(t, "no dead run", "No matching runs")
		g.browse("operator", form, nil).holds(t, "nothing to redrive", "No dead run matches")
		const failed = `{"status":"FAILED","run_id":"r","failure_class":"logic"}`
		for deadline := time.Now().Add(30 * time.Second); !strings.Contains(second(g.send("launcher", "POST", "/v1/runs/"+key+":report", failed)), `"status":"FAILED"`); {
			if time.Now().After(deadline) {
				t.Fatal("the run is not launched")
			}
		}
		g.browse("operator", "/ui/runs/"+key, nil).holds(t, "the run", "logic, no retry follows")
		g.browse("operator", list, nil).holds(t, "the dead run", key[:12], `href="/ui/runs/redrive?schedule=reports.hourly"`)
		g.browse("operator", form, nil).holds(t, "the form", "1 dead run", key[:12], `action="/ui/runs/redrive?schedule=reports.hourly"`)
		if got := g.browse("viewer", form, url.Values{"request_id": {"v"}}); got.code != http.StatusForbidden {
			t.Errorf("who may only look redrives: %d", got.code)
		}
		if got := g.browse("operator", form, url.Values{"request_id": {"a"}, "rate_per_minute": {"many"}}); got.code != http.StatusUnprocessableEntity {
			t.Errorf("a rate that is none: %d", got.code)
		}
		g.browse("operator", "/ui/runs/redrive?schedule=reports.hourly&reason=timeout", url.Values{"request_id": {"a"}}).holds(t, "another reason", "No dead run matches")
		g.browse("operator", form, url.Values{"request_id": {"a"}, "renew": {"yes"}, "rate_per_minute": {"60"}}).holds(t, "the redrive", "1 dead run redriven")
		g.browse("operator", form, url.Values{"request_id": {"a"}}).holds(t, "the same again", "No dead run matches")
		parsed, err := schedule.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		again := schedule.RetryKey(parsed, "a").String()
		g.browse("operator", "/ui/runs/"+key, nil).holds(t, "the run", `retried by hand as <a class="mono" href="/ui/runs/`+again)
		g.browse("operator", "/ui/runs/"+again, nil).holds(t, "the new run", `2 of 2, retry of <a class="mono" href="/ui/runs/`+key)
		g.browse("operator", list, nil).holds(t, "no dead run is left", "No matching runs")
	})
}
