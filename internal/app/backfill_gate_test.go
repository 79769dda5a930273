package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Backfills and schedules of another owner must look like missing ones.
func TestAnOwnerSeesAndChangesItsOwnBackfillsOnly(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	must := func(code int, answer string) string {
		t.Helper()
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		return answer
	}
	const nobody = "000000000000000000000000"
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	must(g.send("user", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":1,"cron_expr":"* * * * *","paused":true}`))
	answer := must(g.send("user", "POST", "/v1/schedules/adas:backfill", `{"from":"`+past+`","reprocess":"all","request_id":"first"}`))
	var asked struct {
		Backfill struct {
			ID     string `json:"backfill_id"`
			UserID string `json:"user_id"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &asked); err != nil || asked.Backfill.ID == "" || asked.Backfill.UserID != "ada" {
		t.Fatalf("%s, %v", answer, err)
	}
	masked := strings.NewReplacer("adas", "none", asked.Backfill.ID, nobody)
	for _, call := range []struct{ name, method, path, body string }{
		{"see it", "GET", "/v1/backfills/" + asked.Backfill.ID, ""},
		{"pause it", "POST", "/v1/backfills/" + asked.Backfill.ID + ":pause", "{}"},
		{"resume it", "POST", "/v1/backfills/" + asked.Backfill.ID + ":resume", "{}"},
		{"cancel it with its runs", "POST", "/v1/backfills/" + asked.Backfill.ID + ":cancel", `{"cancel_runs":true}`},
		{"ask for another", "POST", "/v1/schedules/adas:backfill", `{"from":"` + past + `","reprocess":"all"}`},
		{"ask for the same", "POST", "/v1/schedules/adas:backfill", `{"from":"` + past + `","reprocess":"all","request_id":"first"}`},
		{"list those of it", "GET", "/v1/schedules/adas/backfills", ""},
		{"list those of it otherwise", "GET", "/v1/backfills?schedule_id=adas", ""},
		{"count what one would run", "POST", "/v1/schedules/adas:backfill", `{"from":"` + past + `","reprocess":"all","dry_run":true}`},
	} {
		code, theirs := g.send("bob", call.method, call.path, call.body)
		never, nobodys := g.send("bob", call.method, masked.Replace(call.path), call.body)
		if code != http.StatusNotFound || never != code || masked.Replace(theirs) != nobodys {
			t.Errorf("%s: of another %d %s\nof nobody: %d %s", call.name, code, theirs, never, nobodys)
		}
	}
	for _, list := range []string{"/v1/backfills", "/v1/backfills?user_id=ada", "/v1/schedules/adas/backfills"} {
		if _, answer := g.send("bob", "GET", list, ""); strings.Contains(answer, asked.Backfill.ID) {
			t.Errorf("%s shows another's: %s", list, answer)
		}
		if answer := must(g.send("viewer", "GET", list, "")); !strings.Contains(answer, asked.Backfill.ID) {
			t.Errorf("%s shows a viewer only %s", list, answer)
		}
	}
	if answer := must(g.send("user", "GET", "/v1/backfills/"+asked.Backfill.ID, "")); strings.Contains(answer, `"state":"cancelled"`) || strings.Contains(answer, `"state":"paused"`) {
		t.Errorf("another changed it: %s", answer)
	}
	for _, verb := range []string{"pause", "cancel"} {
		if code, answer := g.send("viewer", "POST", "/v1/backfills/"+asked.Backfill.ID+":"+verb, "{}"); code != http.StatusForbidden {
			t.Errorf("a viewer's %s: %d %s", verb, code, answer)
		}
	}
}
