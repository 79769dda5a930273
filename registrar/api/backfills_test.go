package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/registrar"
)

// history is a rig six hours after the creation of an hourly schedule with default policies.
func history(t *testing.T, expr string) *rig {
	t.Helper()
	now := time.Date(2026, 3, 2, 12, 30, 0, 0, time.UTC)
	r := newRig(t, func(o *registrar.Options) { o.Now = func() time.Time { return now } })
	r.must("PUT", "/v1/schedules/h", `{"workflow_id": "w", "version": 1, "user_id": "u", "cron_expr": "`+cmp.Or(expr, "0 * * * *")+`"}`)
	now = now.Add(6 * time.Hour)
	return r
}

type backfillAnswer struct {
	Backfill *struct {
		BackfillID string         `json:"backfill_id"`
		State      string         `json:"state"`
		StateNote  string         `json:"state_note"`
		Progress   map[string]any `json:"progress"`
	} `json:"backfill"`
	Count, Slots int
	First, Last  string
}

func (r *rig) backfill(method, path, body string) (got backfillAnswer) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.must(method, path, body)), &got); err != nil {
		r.t.Fatal(err)
	}
	return got
}

func TestADryRunOfABackfillCountsAndWritesNothing(t *testing.T) {
	r := history(t, "")
	got := r.backfill("POST", "/v1/schedules/h:backfill", `{"from": "2026-03-02T12:30:00Z", "dry_run": true}`)
	if got.Backfill != nil || got.Count != 6 || got.Slots != 6 || got.First != "2026-03-02T13:00:00Z" || got.Last != "2026-03-02T18:00:00Z" {
		t.Errorf("got %+v", got)
	}
	if list := r.must("GET", "/v1/backfills", ""); !strings.Contains(list, `"backfills":[]`) {
		t.Errorf("something was written: %s", list)
	}
}

func TestABackfillIsAskedForOncePerRequestPausedResumedAndCancelled(t *testing.T) {
	r := history(t, "")
	ask := `{"from": "2026-03-02T12:30:00Z", "to": "2026-03-02T16:00:00Z", "request_id": "one", "note": "outage"}`
	first := r.backfill("POST", "/v1/schedules/h:backfill", ask)
	if first.Backfill == nil || first.Backfill.State != "running" || first.Backfill.Progress["total"] != 3.0 || first.Backfill.Progress["remaining"] != 3.0 {
		t.Fatalf("got %+v", first)
	}
	id := first.Backfill.BackfillID
	if again := r.backfill("POST", "/v1/schedules/h:backfill", ask); again.Backfill.BackfillID != id {
		t.Errorf("the same request made another: %+v", again)
	}
	if code, text := r.rest("POST", "/v1/schedules/h:backfill", strings.Replace(ask, "outage", "other", 1)); code != http.StatusUnprocessableEntity {
		t.Errorf("another request under the same id: %d %s", code, text)
	}
	path := "/v1/backfills/" + id
	for _, step := range []struct{ verb, state string }{
		{":pause", "paused"}, {":pause", "paused"}, {":resume", "running"}, {":cancel", "cancelled"}, {":cancel", "cancelled"},
	} {
		if got := r.backfill("POST", path+step.verb, `{"note": "why not"}`); got.Backfill.State != step.state || got.Backfill.StateNote != "why not" {
			t.Errorf("after %s: %+v", step.verb, got.Backfill)
		}
	}
	if p := r.backfill("GET", path, "").Backfill.Progress; p["remaining"] != 0.0 || p["not_run"] != 3.0 || p["total"] != 3.0 {
		t.Errorf("after its cancel %v remain and %v are not run, of %v", p["remaining"], p["not_run"], p["total"])
	}
	if code, _ := r.rest("POST", path+":resume", "{}"); code != http.StatusConflict {
		t.Errorf("a cancelled backfill is resumed: %d", code)
	}
	for _, list := range []string{"/v1/backfills?state=cancelled", "/v1/schedules/h/backfills", "/v1/backfills?schedule_id=h&page_size=1"} {
		if text := r.must("GET", list, ""); !strings.Contains(text, id) {
			t.Errorf("%s lacks it: %s", list, text)
		}
	}
	if code, _ := r.rest("GET", "/v1/backfills/none", ""); code != http.StatusNotFound {
		t.Errorf("an unknown backfill: %d", code)
	}
	for _, list := range []string{"/v1/schedules/none/backfills", "/v1/backfills?schedule_id=none"} {
		if code, text := r.rest("GET", list, ""); code != http.StatusNotFound || !strings.Contains(text, `there is no schedule \"none\"`) {
			t.Errorf("%s of a schedule that never was: %d %s", list, code, text)
		}
	}
}

func TestABackfillThatCannotBeIsRefusedWithTheFieldAndTheReason(t *testing.T) {
	const from = `"from": "2026-03-02T13:00:00Z"`
	for _, tc := range []struct {
		name, expr, body string
		code             int
		says             string
	}{
		{name: "no range", body: `{}`, code: 400, says: "from"},
		{name: "a range that lies ahead", body: `{` + from + `, "to": "2026-03-03T00:00:00Z"}`, code: 400, says: "only past slots"},
		{name: "a range that ends before it begins", body: `{` + from + `, "to": "2026-03-02T13:00:00Z"}`, code: 400, says: "is not before"},
		{name: "before the creation", body: `{"from": "2026-03-01T00:00:00Z"}`, code: 400, says: "creation"},
		{name: "before the retention", body: `{"from": "2025-03-01T00:00:00Z"}`, code: 400, says: "reprocess all"},
		{name: "too many slots", expr: "* * * * * *", body: `{"from": "2026-02-02T13:00:00Z", "reprocess": "all"}`, code: 400, says: "more than 100000"},
		{name: "an unknown word", body: `{` + from + `, "reprocess": "some"}`, code: 400, says: "reprocess"},
		{name: "two at once under skip", body: `{` + from + `, "concurrency": 2}`, code: 400, says: "needs overlap_policy allow"},
		{name: "replace", body: `{` + from + `, "overlap_policy": "replace"}`, code: 400, says: "overlap_policy"},
		{name: "no slot in it", body: `{` + from + `, "to": "2026-03-02T12:59:00Z"}`, code: 400, says: "is not before"},
		{name: "an empty range", body: `{"from": "2026-03-02T13:10:00Z", "to": "2026-03-02T13:20:00Z"}`, code: 409, says: "has no slot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := history(t, tc.expr)
			code, text := r.rest("POST", "/v1/schedules/h:backfill", tc.body)
			if code != tc.code || !strings.Contains(text, tc.says) {
				t.Errorf("%d %s, want %d and %q", code, text, tc.code, tc.says)
			}
		})
	}
	r := history(t, "")
	if code, _ := r.rest("POST", "/v1/schedules/none:backfill", `{`+from+`}`); code != http.StatusNotFound {
		t.Errorf("an unknown schedule: %d", code)
	}
	for i := range 10 {
		r.must("POST", "/v1/schedules/h:backfill", fmt.Sprintf(`{%s, "request_id": "r%d"}`, from, i))
	}
	if code, text := r.rest("POST", "/v1/schedules/h:backfill", `{`+from+`}`); code != http.StatusTooManyRequests || !strings.Contains(text, "10 unfinished backfills") {
		t.Errorf("the eleventh: %d %s", code, text)
	}
}
