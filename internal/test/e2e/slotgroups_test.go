package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestLongRunsOfOneInstantAreToldOfOnce is the second half of acceptance 25, with kills: the runs
// of three schedules at one instant are one group, which is told of once, after its seal.
func TestLongRunsOfOneInstantAreToldOfOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		const grace, every, instants = 12 * time.Second, 4 * time.Second, 4
		p, api, e, hooks := groupSite(t, database, grace)
		if status, answer, _ := api.call("PUT", "/v1/schedules/x", `{"user_id": "ada", "workflow_id": "w", "version": 1, "group": "night"}`); status != http.StatusBadRequest || !strings.Contains(string(answer), "group") {
			t.Errorf("a group without a queue is answered %d %s", status, answer)
		}
		first := time.Now().Add(every).Truncate(every).Add(every).UTC()
		last := first.Add((instants - 1) * every)
		for _, name := range []string{"a", "bad b", "c"} {
			api.do("PUT", "/v1/schedules/"+name[len(name)-1:], fmt.Sprintf(`{"user_id": "ada", "workflow_id": "w", "version": 1, "overlap_policy": "allow", "interval_ms": %d,
				"start_at": %q, "end_at": %q, "queue_id": "q", "group": "night", "input": {"name": %q}, "retry": {"max_attempts": 2, "backoff_ms": 1000}}`,
				every.Milliseconds(), first.Format(time.RFC3339), last.Format(time.RFC3339), name), nil)
		}
		var ids []string
		for at := first; !at.After(last); at = at.Add(every) {
			ids = append(ids, "q.ada.night."+at.Format(time.RFC3339))
		}
		for n := range instants {
			eventually(t, 4*startBound, fmt.Sprint("runs of instant ", n), func() error {
				if got := len(e.got("a")); got <= n {
					return fmt.Errorf("the executor got %d", got)
				}
				return nil
			})
			if n%2 == 0 {
				p.kill()
				p.startReady()
			}
		}
		eventually(t, 4*startBound, "all groups have ended", func() error {
			for _, id := range ids {
				if status, answer, _ := api.call("GET", "/v1/groups/"+id, ""); status != http.StatusOK || !strings.Contains(string(answer), `"PARTIAL"`) {
					return fmt.Errorf("group %s: %d %s", id, status, answer)
				}
			}
			return nil
		})
		for i, id := range ids {
			want := jobGroup{GroupID: id, State: "PARTIAL", Members: 3, Succeeded: 2, Failed: 1}
			if got := api.group(id); got != want {
				t.Errorf("the group of instant %d is %+v", i, got)
			}
		}
		endedOnce(t, hooks, api, ids...)
		for _, call := range hooks.got() {
			id, _ := call.body.Data.Group["group_id"].(string)
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(id, "q.ada.night."))
			if err != nil || call.body.Timestamp.Before(at.Add(grace)) {
				t.Errorf("group %s has ended at %s, before its seal (%v)", id, call.body.Timestamp, err)
			}
		}
		api.do("POST", "/v1/schedules/a:trigger", `{}`, nil)
		eventually(t, startBound, "a run by hand", func() error {
			if got := len(e.got("a")); got != instants+1 {
				return fmt.Errorf("the executor got %d", got)
			}
			return nil
		})
		var groups struct {
			Groups []jobGroup `json:"groups"`
		}
		if api.do("GET", "/v1/groups?queue_id=q", nil, &groups); len(groups.Groups) != instants {
			t.Errorf("%d groups, want %d: %+v", len(groups.Groups), instants, groups.Groups)
		}
	})
}
