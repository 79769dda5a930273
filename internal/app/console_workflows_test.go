package app_test

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTheConsoleShowsWorkflowsAndStartsThem(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.browse("operator", "/ui/workflows", nil).holds(t, "no workflow", "No workflows")
		for _, put := range [][2]string{
			{"/v1/schedules/poll", `{"user_id":"ada","workflow_id":"sheet","version":1,"cron_expr":"0 0 29 2 *","overlap_key":"wf","overlap_policy":"coalesce"}`},
			{"/v1/schedules/report", `{"user_id":"ada","workflow_id":"sheet","version":1,"cron_expr":"0 0 29 2 *","overlap_key":"wf","overlap_policy":"coalesce","paused":true}`},
		} {
			if code, text := g.send("operator", "PUT", put[0], put[1]); code != http.StatusOK {
				t.Fatalf("%s: %d %s", put[0], code, text)
			}
		}
		g.browse("operator", "/ui/workflows", nil).holds(t, "the cards", `href="/ui/workflows/wf?user=ada"`, "Idle", "Schedule", "Recent activity", "Pending work", "nothing waits", "Run now", ", paused")
		g.browse("operator", "/ui/workflows/wf?user=ada", nil).holds(t, "the page", "sheet", `action="/ui/workflows/wf/run"`, "No open runs")
		if got := g.browse("viewer", "/ui/workflows/wf/run", url.Values{"user_id": {"ada"}}); got.code != http.StatusForbidden {
			t.Errorf("who may only look starts it: %d", got.code)
		}
		g.browse("operator", "/ui/workflows/wf/run", url.Values{"user_id": {"ada"}, "request_id": {"r"}}).holds(t, "started", "Started wf")
		if got := g.browse("operator", "/ui/workflows/none?user=ada", nil); got.code != http.StatusNotFound {
			t.Errorf("a workflow that is not there: %d", got.code)
		}
	})
}
