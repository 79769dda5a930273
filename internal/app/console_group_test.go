package app_test

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTheConsoleShowsGroupsAndCancelsAndRetriesThem(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.browse("operator", "/ui/groups", nil).holds(t, "no group", "No groups")
		for _, put := range [][3]string{
			{"PUT", "/v1/queues/gpu", `{"user_id":"ada","max_in_flight":1}`},
			{"POST", "/v1/queues/gpu:pause", `{}`},
			{"POST", "/v1/groups", `{"group_id":"night","queue_id":"gpu","mode":"sequential","runs":[{"workflow_id":"w","version":1},{"workflow_id":"w","version":1}]}`},
		} {
			if code, text := g.send("operator", put[0], put[1], put[2]); code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", put[0], put[1], code, text)
			}
		}
		g.browse("operator", "/ui/groups", nil).holds(t, "the groups", `href="/ui/groups/night"`, "RUNNING", "0 of 2", "not sealed", `href="/ui/queues/gpu"`)
		g.browse("operator", "/ui/groups/night", nil).holds(t, "the group", "Not sealed", "chained", `action="/ui/groups/night/seal"`, "sequential, on failure stop")
		g.browse("operator", "/ui/queues/gpu", nil).holds(t, "its queue", "after its predecessor", `href="/ui/groups?queue=gpu"`)
		if got := g.browse("viewer", "/ui/groups/night/cancel", url.Values{}); got.code != http.StatusForbidden {
			t.Errorf("who may only look cancels: %d", got.code)
		}
		g.browse("operator", "/ui/groups/night/seal", url.Values{"x": {""}}).holds(t, "sealed", "Sealed night")
		g.browse("operator", "/ui/groups/night/cancel", url.Values{"x": {""}}).holds(t, "cancelled", "Cancelled night")
		g.browse("operator", "/ui/groups/night", nil).holds(t, "the cancelled group", "CANCELLED", "2 of 2", "Retry")
		g.browse("operator", "/ui/groups/night/retry", url.Values{"new_group_id": {"again"}, "renew": {"yes"}}).holds(t, "retried", "Group again has 2 members")
		g.browse("operator", "/ui/groups/again", nil).holds(t, "the new group", "RUNNING", "night")
		if got := g.browse("operator", "/ui/groups/none", nil); got.code != http.StatusNotFound {
			t.Errorf("a group that is not there: %d", got.code)
		}
	})
}
