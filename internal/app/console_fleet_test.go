package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// fleetSize is more than the largest page of schedules.
const fleetSize = 2100

// The wanted schedules sort last by id, so that a page that reads only a part misses them.
func TestPagesAreRightBeyondTwoThousandSchedules(t *testing.T) {
	t.Parallel()
	onBothStoresWith(t, map[string]any{"owner_max_schedules": 0}, func(t *testing.T, g *guarded) {
		now := time.Now().UTC()
		yearly := fmt.Sprintf("0 0 1 %d *", 1+(now.Month()+5)%12) // half a year away
		soon := now.Add(20 * time.Minute)
		set := []map[string]any{{
			"schedule_id": "zz-soon", "workflow_id": "w", "version": 1, "user_id": "ada", "labels": map[string]string{"team": "Needles"},
			"cron_expr": fmt.Sprintf("%d * * * *", soon.Minute()),
		}}
		for i := range fleetSize {
			set = append(set, map[string]any{"schedule_id": fmt.Sprintf("a-%04d", i), "workflow_id": "w", "version": 1, "user_id": "ada", "cron_expr": yearly})
		}
		body, err := json.Marshal(map[string]any{"set": "fleet", "schedules": set})
		if err != nil {
			t.Fatal(err)
		}
		if code, answer := g.send("compiler", "POST", "/v1/schedules:apply", string(body)); code != http.StatusOK {
			t.Fatal(answer)
		}
		for _, c := range []struct{ name, path, want, never string }{
			{"the search", "/ui/schedules?q=ZZ-so", "zz-soon", "a-0000"},
			{"the search by a label", "/ui/schedules?q=team%3Dneedles", "zz-soon", "a-0000"},
			{"a search that finds more than a page", "/ui/schedules?q=a-1", "Next page", "zz-soon"},
			{"the overview's next runs", "/", "zz-soon", "a-0000"},
			{"the overview's count", "/", fmt.Sprintf("of %d active schedules", fleetSize+1), "may miss"},
			{"the next 24 hours", "/ui/timeline", "zz-soon", "a-0000"},
			{"the next 24 hours of another owner", "/ui/timeline?owner=eve", "Next 24 hours", "zz-soon"},
		} {
			got := g.browse("user", c.path, nil)
			if got.code != http.StatusOK || !strings.Contains(got.text, c.want) || strings.Contains(got.text, c.never) {
				t.Errorf("%s: %d without %q or with %q:\n%s", c.name, got.code, c.want, c.never, got.main())
			}
			if foreign := g.browse("bob", c.path, nil); strings.Contains(foreign.main(), `href="/ui/schedules/`) {
				t.Errorf("%s shows another owner's schedules:\n%s", c.name, foreign.main())
			}
		}
		var listed struct {
			Schedules []struct {
				ID string `json:"schedule_id"`
			}
			Next string `json:"next_page_token"`
		}
		_, answer := g.send("user", "GET", "/v1/schedules?order_by=next_run_at&page_size=1", "")
		if err := json.Unmarshal([]byte(answer), &listed); err != nil || len(listed.Schedules) != 1 || listed.Schedules[0].ID != "zz-soon" {
			t.Error("ordered by next_run_at:", answer)
		}
		_, answer = g.send("user", "GET", "/v1/schedules?order_by=next_run_at&page_size=1&page_token="+url.QueryEscape(listed.Next), "")
		if !strings.Contains(answer, `"schedule_id":"a-0000"`) {
			t.Error("the page after:", answer)
		}
		if _, answer = g.send("user", "GET", "/v1/overview", ""); !strings.Contains(answer, fmt.Sprintf(`"active_schedules":%d`, fleetSize+1)) ||
			!strings.Contains(answer, `"upcoming_schedules":1`) {
			t.Error("the overview:", answer)
		}
	})
}

func TestRunsAreFoundByKeyRunIDAndSchedule(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		key := g.register("hourly", hourly)
		for _, c := range []struct {
			who, prefix string
			code        int
			says        string
		}{
			{"user", key[:8], http.StatusOK, key},
			{"user", strings.ToUpper(key[:8]), http.StatusOK, key},
			{"user", key, http.StatusOK, key},
			{"bob", key[:8], http.StatusNotFound, "there is no run with a key that begins with " + key[:8]},
			{"user", key[:3], http.StatusBadRequest, "idempotency_key"},
			{"user", key[:7] + "x", http.StatusBadRequest, "idempotency_key"},
		} {
			if code, answer := g.send(c.who, "GET", "/v1/runs/"+c.prefix, ""); code != c.code || !strings.Contains(answer, c.says) {
				t.Errorf("%s asks for %s: %d %s", c.who, c.prefix, code, answer)
			}
		}
		if code, answer := g.send("user", "POST", "/v1/runs/"+key[:8]+":cancel", "{}"); !strings.Contains(answer, key) {
			t.Error("cancel by a prefix:", code, answer)
		}
		if code, answer := g.send("user", "GET", "/v1/runs/"+key[:8]+"/logs", ""); code != http.StatusOK {
			t.Error("logs by a prefix:", code, answer)
		}
		if code, answer := g.send("user", "GET", "/v1/runs?trace_id="+key[:32], ""); code != http.StatusOK || !strings.Contains(answer, key) {
			t.Error("by its trace_id:", code, answer)
		}
		for _, c := range []struct{ who, query, want string }{
			{"user", key[:8], "/ui/runs/" + key}, {"user", key[:32], "/ui/runs/" + key}, {"bob", key[:8], "No matching runs"}, {"user", "nothing", "No matching runs"},
		} {
			if got := g.browse(c.who, "/ui/runs?q="+c.query, nil); got.code != http.StatusOK || !strings.Contains(got.text, c.want) {
				t.Errorf("%s looks for %s: %d without %s:\n%s", c.who, c.query, got.code, c.want, got.main())
			}
		}
		if got := g.browse("user", "/ui/runs/"+key[:8], nil); got.code != http.StatusOK || !strings.Contains(got.text, key) {
			t.Errorf("a run's page by a prefix: %d:\n%s", got.code, got.main())
		}
	})
}
