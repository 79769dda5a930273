package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheConsoleShowsLaunchRetriesAndTheirReason(t *testing.T) {
	t.Parallel()
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<h1>no backend</h1>")
	}))
	t.Cleanup(executor.Close)
	onBothStoresWith(t, map[string]any{"executor_url": executor.URL}, func(t *testing.T, g *guarded) {
		due := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
		if code, answer := g.send("compiler", "PUT", "/v1/schedules/nightly", `{"workflow_id":"w","version":1,"user_id":"ada","once_at":"`+due+`"}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		const chip = `<span class="chip FAILED">retrying</span>`
		for _, path := range []string{"/ui/runs", "/ui/schedules/nightly", "/ui/schedules/nightly/explain?time=last"} {
			eventually(t, path+" says that the launch is retried", func() bool { return strings.Contains(g.browse("operator", path, nil).main(), chip) })
		}
		g.browse("operator", "/ui/schedules/nightly", nil).holds(t, "the schedule's past slots", "502")
		g.browse("operator", "/ui/schedules/nightly/explain", nil).holds(t, "explain", `explain?time=last">the last slot`)
	})
}

func TestTheOverviewShowsAShardWithoutALeader(t *testing.T) {
	t.Parallel()
	onBothStoresWith(t, map[string]any{"roles": "registrar"}, func(t *testing.T, g *guarded) {
		g.browse("operator", "/", nil).holds(t, "without a worker", "No worker has started on this database: nothing is planned or launched.")
	})
	onBothStores(t, func(t *testing.T, g *guarded) {
		eventually(t, "the shard has a leader", func() bool {
			return strings.Contains(g.browse("operator", "/", nil).main(), `<div id="leaderless" data-live></div>`)
		})
	})
}
