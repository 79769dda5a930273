package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

const documents = `{"schedule_id":"s1","workflow_id":"w","version":1,"user_id":"u","cron_expr":"*/5 * * * *",` +
	`"timezone":"America/New_York","overlap_policy":"skip"}`

// The source documents' calls, verbatim, with curl's headers.
func TestTheDocumentsCallsWorkAsWritten(t *testing.T) {
	r := newRig(t)

	answer := r.must("POST", "/schedules/upsert", documents)
	if !regexp.MustCompile(`^\{"schedule_id":"s1","next_run_at":"20\d\d-\d\d-\d\dT\d\d:\d[05]:00Z"\}$`).MatchString(answer) {
		t.Errorf("upsert answers %s", answer)
	}
	if again := r.must("POST", "/schedules/upsert", documents); again != answer {
		t.Errorf("upsert again answers %s, before %s", again, answer)
	}

	got := r.must("GET", "/schedules/s1", "")
	fire := `\{"run_at":"[0-9T:-]+Z","fire_at":"[0-9T:-]+Z","local":"[^"]+"\}`
	if !regexp.MustCompile(`,"preview":\[` + fire + strings.Repeat(","+fire, 4) + `\]\}$`).MatchString(got) {
		t.Errorf("get answers %s", got)
	}
	for name, want := range map[string]string{
		"cron_expr": "*/5 * * * *", "timezone": "America/New_York", "overlap_policy": "skip", "catchup_policy": "none",
		"overlap_key": "s1", "jitter_ms": "0", "max_queued": "100", "paused": "false", "revision": "1", "input": "null", "last_run_at": "null",
	} {
		if found := member(t, got, "schedule", name); found != want {
			t.Errorf("get: %s is %s, want %s", name, found, want)
		}
	}

	if answer := r.must("POST", "/schedules/pause", `{"schedule_id":"s1","paused":true}`); answer != "{}" {
		t.Errorf("pause answers %s", answer)
	}
	got = r.must("GET", "/schedules/s1", "")
	if member(t, got, "schedule", "paused") != "true" || member(t, got, "schedule", "next_run_at") != "null" {
		t.Errorf("paused, but get answers %s", got)
	}
	r.must("POST", "/schedules/upsert", documents)
	if got = r.must("GET", "/schedules/s1", ""); member(t, got, "schedule", "paused") != "true" {
		t.Error("an upsert ended the pause")
	}
	if answer := r.must("POST", "/schedules/pause", `{"schedule_id":"s1","paused":false}`); answer != "{}" {
		t.Errorf("unpausing answers %s", answer)
	}

	for range 2 {
		if answer := r.must("DELETE", "/schedules/s1", ""); answer != "{}" {
			t.Errorf("delete answers %s", answer)
		}
	}
	if code, text := r.rest("GET", "/schedules/s1", ""); code != http.StatusNotFound || readRefusal(t, text).Code != int(codes.NotFound) {
		t.Errorf("get after delete: %d %s", code, text)
	}
}

func TestInputAndDAGComeBackByteForByte(t *testing.T) {
	r := newRig(t)
	const raw = "{ \"z\":12345678901234567890,\n\t\"a\" : 1.50, \"m\":[ ],\"e\":\"\\u00e9\\/\" }"

	r.must("PUT", "/v1/schedules/s1", upsert("input", raw))
	if got := r.must("GET", "/v1/schedules/s1", ""); !strings.Contains(got, `"input":`+raw+`,"execution_grant_id"`) {
		t.Errorf("input came back as %s", got)
	}
	if got := r.must("GET", "/v1/schedules", ""); !strings.Contains(got, `"input":`+raw+`,`) {
		t.Errorf("input is listed as %s", got)
	}
	if got := r.must("GET", "/v1/schedules/s1/revisions", ""); !strings.Contains(got, `"input":`+raw+`,`) {
		t.Errorf("input stands in the revision as %s", got)
	}
	if got, st, _ := grpcCall(t, r.conn, "ScheduleService/GetSchedule", `{"schedule_id":"s1"}`); st != nil || !strings.Contains(got, raw) {
		t.Errorf("input came over gRPC as %s (%v)", got, st)
	}

	r.must("PUT", "/v1/workflows/w/versions/7", `{"dag":`+raw+`}`)
	if got := r.must("GET", "/v1/workflows/w/versions/7", ""); !strings.Contains(got, `"dag":`+raw+`,`) {
		t.Errorf("the DAG came back as %s", got)
	}
	if got := r.must("GET", "/v1/workflows/w/versions", ""); !strings.Contains(got, `"dag":null`) {
		t.Errorf("versions are listed as %s", got)
	}
	r.must("PUT", "/v1/workflows/w/versions/7", `{"dag":{"e":"é/","m":[],"a":1.50,"z":12345678901234567890}}`)
	if code, text := r.rest("PUT", "/v1/workflows/w/versions/7", `{"dag":{"z":1}}`); code != http.StatusConflict {
		t.Errorf("another DAG under the same version: %d %s", code, text)
	}
}

func TestListsGoPageByPage(t *testing.T) {
	r := newRig(t)
	for i := range 7 {
		r.must("PUT", fmt.Sprintf("/v1/schedules/s%d", i), upsert("schedule_id", "-", "labels", fmt.Sprintf(`{"odd":"%d"}`, i%2)))
	}
	for i := range 5 {
		r.must("POST", "/v1/schedules/s0:trigger", fmt.Sprintf(`{"request_id":"r%d","overlap_policy":"allow"}`, i))
		r.must("PUT", fmt.Sprintf("/v1/workflows/w/versions/%d", i+1), `{"dag":{}}`)
		r.must("PUT", "/v1/schedules/s0", upsert("schedule_id", "-", "priority", fmt.Sprint(i+1)))
	}
	tests := []struct {
		name  string
		path  string
		field string // the field that distinguishes the rows
		want  int
	}{
		{"schedules", "/v1/schedules?", "schedule_id", 7},
		{"schedules of a label", "/v1/schedules?label=odd=1&", "schedule_id", 3},
		{"schedules of nobody", "/v1/schedules?user_id=x&", "schedule_id", 0},
		{"runs of a schedule", "/v1/schedules/s0/runs?status=PLANNED&", "idempotency_key", 5},
		{"runs of another schedule", "/v1/schedules/s1/runs?", "idempotency_key", 0},
		{"versions", "/v1/workflows/w/versions?", "version", 5},
		{"revisions", "/v1/schedules/s0/revisions?", "revision", 6},
		{"events", "/v1/schedules/s0/events?", "", 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := *r
			r.t = t
			seen, token := map[string]bool{}, ""
			rows := 0
			for pages := 0; ; pages++ {
				text := r.must("GET", tt.path+"page_size=2&page_token="+token, "")
				for _, match := range regexp.MustCompile(`[{,]"`+tt.field+`":"?([^",]+)`).FindAllStringSubmatch(text, -1) {
					if !seen[match[1]] {
						seen[match[1]] = true
						rows++
					}
				}
				if tt.field == "" {
					rows += strings.Count(text, `"kind":`)
				}
				if token = member(t, text, "next_page_token"); token == "" || pages > 10 {
					break
				}
			}
			if rows != tt.want {
				t.Errorf("%d rows, want %d", rows, tt.want)
			}
		})
	}
}

func TestPreviewGoesPageByPageWithoutAGap(t *testing.T) {
	r := newRig(t)
	const spec = `"cron_expr":"30 2 * * *","timezone":"America/New_York","from":"2026-03-07T00:00:00Z","to":"2026-03-10T00:00:00Z"`
	whole := r.must("POST", "/v1/schedules:preview", `{`+spec+`}`)
	runs := regexp.MustCompile(`"run_at":"[^"]+"`).FindAllString(whole, -1)
	want := []string{`"run_at":"2026-03-07T07:30:00Z"`, `"run_at":"2026-03-08T07:00:00Z"`, `"run_at":"2026-03-09T06:30:00Z"`}
	if fmt.Sprint(runs) != fmt.Sprint(want) || member(t, whole, "next_page_token") != "" {
		t.Fatalf("preview answers %s", whole)
	}
	var paged []string
	for token := ""; ; {
		text := r.must("POST", "/v1/schedules:preview", `{`+spec+`,"page_size":1,"page_token":"`+token+`"}`)
		paged = append(paged, regexp.MustCompile(`"run_at":"[^"]+"`).FindAllString(text, -1)...)
		if token = member(t, text, "next_page_token"); token == "" || len(paged) > 5 {
			break
		}
	}
	if fmt.Sprint(paged) != fmt.Sprint(want) {
		t.Errorf("page by page: %v", paged)
	}
}

func TestRunsByHand(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/v1/schedules", upsert("input", `{"of":"schedule"}`))
	first := r.must("POST", "/v1/schedules/s1:trigger", `{"request_id":"r1","input":{"own":1}}`)
	key := member(t, first, "run", "idempotency_key")
	if again := r.must("POST", "/v1/schedules/s1:trigger", `{"request_id":"r1","input":{"own":1}}`); again != first {
		t.Errorf("the same request answers %s, before %s", again, first)
	}
	if code, text := r.rest("POST", "/v1/schedules/s1:trigger", `{"request_id":"r1","input":{"own":2}}`); code != http.StatusUnprocessableEntity {
		t.Errorf("another request under the same id: %d %s", code, text)
	}
	if got := r.must("GET", "/v1/runs/"+key, ""); got != first {
		t.Errorf("the run is %s, it was %s", got, first)
	}
	if trigger, status := member(t, first, "run", "trigger"), member(t, first, "run", "status"); trigger != "manual" || status != "PLANNED" {
		t.Errorf("trigger %s, status %s", trigger, status)
	}

	// A report of a run that was not launched moves nothing and returns that.
	report := r.must("POST", "/v1/runs/"+key+":report", `{"status":"STARTED","run_id":"x"}`)
	if member(t, report, "moved") != "false" {
		t.Errorf("report answers %s", report)
	}
	if code, text := r.rest("POST", "/v1/runs/"+key+":retry", `{}`); code != http.StatusConflict {
		t.Errorf("retry of a planned run: %d %s", code, text)
	}
	for range 2 {
		cancelled := r.must("POST", "/v1/runs/"+key+":cancel", `{"note":"not today"}`)
		if status := member(t, cancelled, "run", "status"); status != "CANCELLED" {
			t.Errorf("cancel answers %s", cancelled)
		}
	}
	retry := r.must("POST", "/v1/runs/"+key+":retry", `{"request_id":"a"}`)
	if member(t, retry, "run", "retry_of") != key || member(t, retry, "run", "attempt") != "2" {
		t.Errorf("retry answers %s", retry)
	}
	if policy := member(t, retry, "run", "overlap_policy"); policy != "skip" {
		t.Errorf("the retry is under %s, want the schedule's skip", policy)
	}
	if retry := r.must("POST", "/v1/runs/"+key+":retry", `{"request_id":"b","overlap_policy":"queue"}`); member(t, retry, "run", "overlap_policy") != "queue" {
		t.Errorf("retry with a policy of its own answers %s", retry)
	}
	if code, text := r.rest("POST", "/v1/runs/"+key+":retry", `{"overlap_policy":"often"}`); code != http.StatusBadRequest {
		t.Errorf("retry with a policy that does not exist: %d %s", code, text)
	}
	if code, text := r.rest("GET", "/v1/runs/"+strings.Repeat("0", 64), ""); code != http.StatusNotFound {
		t.Errorf("an unknown run: %d %s", code, text)
	}
}

func TestARedriveNamesItsRunsWithinBounds(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]int{
		`{"all":true}`: http.StatusOK,
		`{"all":true,"dry_run":true,"page_size":1000}`:            http.StatusOK,
		`{"filter":{"reason":"timeout"}}`:                         http.StatusOK,
		`{"all":true,"rate_per_minute":60000}`:                    http.StatusOK,
		`{}`:                                                      http.StatusBadRequest,
		`{"filter":{}}`:                                           http.StatusBadRequest,
		`{"all":true,"rate_per_minute":0}`:                        http.StatusBadRequest,
		`{"all":true,"rate_per_minute":60001}`:                    http.StatusBadRequest,
		`{"all":true,"page_size":1001}`:                           http.StatusBadRequest,
		`{"all":true,"page_token":"x"}`:                           http.StatusBadRequest,
		`{"all":true,"request_id":"a/b"}`:                         http.StatusBadRequest,
		`{"filter":{"reason":"tired"}}`:                           http.StatusBadRequest,
		`{"filter":{"failure_class":"tired"}}`:                    http.StatusBadRequest,
		`{"filter":{"keys":["5f0c"]}}`:                            http.StatusBadRequest,
		`{"filter":{"queue":"q"}}`:                                http.StatusBadRequest,
		`{"filter":{"schedule_id":"never-was"}}`:                  http.StatusNotFound,
		`{"filter":{"keys":["` + strings.Repeat("0", 64) + `"]}}`: http.StatusOK,
	} {
		if code, text := r.rest("POST", "/v1/runs:redrive", body); code != want {
			t.Errorf("%s: %d, want %d: %s", body, code, want, text)
		}
	}
}

func TestACancelOfManyRunsNamesThemWithinBounds(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	for body, want := range map[string]int{
		`{"filter":{"queue_id":"gpu"},"dry_run":true,"page_size":1000}`: http.StatusOK,
		`{"filter":{"workflow_id":"w"},"note":"wrong"}`:                 http.StatusOK,
		`{}`:                                          http.StatusBadRequest,
		`{"filter":{}}`:                               http.StatusBadRequest,
		`{"note":"all","dry_run":true}`:               http.StatusBadRequest,
		`{"all":true}`:                                http.StatusBadRequest,
		`{"filter":{"reason":"overlap"}}`:             http.StatusBadRequest,
		`{"filter":{"queue_id":"a b"}}`:               http.StatusBadRequest,
		`{"filter":{"keys":["5f0c"]}}`:                http.StatusBadRequest,
		`{"filter":{"user_id":"u"},"page_size":1001}`: http.StatusBadRequest,
		`{"filter":{"user_id":"u"},"page_token":"x"}`: http.StatusBadRequest,
		`{"filter":{"user_id":"u"},"note":"` + strings.Repeat("x", 1025) + `"}`: http.StatusBadRequest,
		`{"filter":{"user_id":"u"},"request_id":"a/b"}`:                         http.StatusBadRequest,
		`{"filter":{"queue_id":"never-was"}}`:                                   http.StatusNotFound,
		`{"filter":{"schedule_id":"never-was"}}`:                                http.StatusNotFound,
		`{"filter":{"keys":["` + strings.Repeat("0", 64) + `"]}}`:               http.StatusOK,
	} {
		if code, text := r.rest("POST", "/v1/runs:cancel", body); code != want {
			t.Errorf("%s: %d, want %d: %s", body, code, want, text)
		}
	}
	r.must("POST", "/v1/queues/gpu:pause", `{}`)
	for range 3 {
		r.must("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1}`)
	}
	first := r.must("POST", "/v1/queues/gpu:cancel", `{"page_size":2}`)
	rest := r.must("POST", "/v1/queues/gpu:cancel", `{"page_size":2,"page_token":`+quote(member(t, first, "next_page_token"))+`}`)
	if member(t, first, "cancelled") != "2" || member(t, rest, "cancelled") != "1" || member(t, rest, "next_page_token") != "" {
		t.Errorf("two pages: %s %s", first, rest)
	}
	r.must("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1}`)
	if text := r.must("POST", "/v1/queues/gpu:pause", `{"cancel_waiting":true}`); member(t, text, "cancelled") != "1" || member(t, text, "queue", "waiting") != "0" {
		t.Errorf("a pause that cancels answers %s", text)
	}
}

func TestPauseWithNoteAndEnd(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/v1/schedules", upsert())
	got := r.must("POST", "/v1/schedules/s1:pause", `{"note":"releasing","until":"2099-01-01T00:00:00Z"}`)
	for name, want := range map[string]string{"paused": "true", "pause_note": "releasing", "paused_until": "2099-01-01T00:00:00Z", "next_run_at": "null"} {
		if found := member(t, got, "schedule", name); found != want {
			t.Errorf("%s is %s, want %s", name, found, want)
		}
	}
	got = r.must("POST", "/v1/schedules/s1:resume", "")
	if member(t, got, "schedule", "paused") != "false" || member(t, got, "schedule", "pause_note") != "" || member(t, got, "schedule", "next_run_at") == "null" {
		t.Errorf("resume answers %s", got)
	}
	events := r.must("GET", "/v1/schedules/s1/events", "")
	if kinds := regexp.MustCompile(`"kind":"(\w+)"`).FindAllString(events, -1); fmt.Sprint(kinds) != `["kind":"resumed" "kind":"paused" "kind":"created"]` {
		t.Errorf("events are %v", kinds)
	}
}

func TestDeployMakesSchedulesOfTriggers(t *testing.T) {
	r := newRig(t)
	const dag = `{"workflow_id":"w","version":3,"nodes":[],"triggers":[
		{"type":"webhook","path":"/x","cron_expr":5},
		{"type":"schedule_based","name":"nightly","cron_expr":"0 2 * * *","timezone":"Europe/Berlin","input":{"n": 1}},
		{"type":"schedule_based","interval_ms":60000,"overlap_policy":"queue"}]}`
	const deploy = `{"version":3,"user_id":"u","dag":` + dag + `}`
	got := r.must("POST", "/v1/workflows/w:deploy", deploy)
	if !regexp.MustCompile(`^\{"schedules":\[\{"schedule_id":"w.nightly","next_run_at":"[^"]+","created":true,"changed":true\},` +
		`\{"schedule_id":"w.2","next_run_at":"[^"]+","created":true,"changed":true\}\]\}$`).MatchString(got) {
		t.Errorf("deploy answers %s", got)
	}
	again := r.must("POST", "/v1/workflows/w:deploy", deploy)
	if strings.Contains(again, "true") {
		t.Errorf("the same deployment again answers %s", again)
	}
	schedule := r.must("GET", "/v1/schedules/w.nightly", "")
	for name, want := range map[string]string{"managed_by": "workflow:w", "workflow_id": "w", "version": "3", "user_id": "u", "input": `{"n": 1}`} {
		if found := member(t, schedule, "schedule", name); found != want {
			t.Errorf("%s is %s, want %s", name, found, want)
		}
	}
	// All or nothing: the second trigger never fires, so the first is not changed.
	broken := strings.NewReplacer(`"0 2 * * *"`, `"0 3 * * *"`, `"interval_ms":60000`, `"cron_expr":"0 0 31 2 *"`, `"version":3`, `"version":4`).Replace(deploy)
	code, text := r.rest("POST", "/v1/workflows/w:deploy", broken)
	if code != http.StatusBadRequest || !strings.Contains(text, `"dag.triggers[2].cron_expr"`) {
		t.Errorf("a broken trigger: %d %s", code, text)
	}
	if now := r.must("GET", "/v1/schedules/w.nightly", ""); member(t, now, "schedule", "revision") != "1" {
		t.Errorf("half a deployment was stored: %s", now)
	}
	if code, _ := r.rest("GET", "/v1/workflows/w/versions/4", ""); code != http.StatusNotFound {
		t.Errorf("the DAG of a broken deployment was stored: %d", code)
	}
	// Another owner's workflow of the same name.
	if code, text := r.rest("POST", "/v1/workflows/w:deploy", strings.Replace(deploy, `"user_id":"u"`, `"user_id":"v"`, 1)); code != http.StatusConflict {
		t.Errorf("another owner's deployment: %d %s", code, text)
	}
}

func TestAnUnknownCallHasAClearError(t *testing.T) {
	r := newRig(t)
	tests := []struct {
		name string
		call string
		want int
	}{
		{"no such path", "GET /v1/nothing", http.StatusNotFound},
		{"no such verb", "POST /v1/schedules/s1:explode", http.StatusMethodNotAllowed},
		{"the wrong method", "DELETE /v1/schedules", http.StatusMethodNotAllowed},
		{"a POST is not taken for a GET", "POST /v1/runs", http.StatusMethodNotAllowed},
		{"the launcher is not here", "POST /run-launcher/start", http.StatusNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.call, " ")
			code, text := rest(t, r.base, method, path, "{}")
			if code != tt.want || readRefusal(t, text).Message == "" {
				t.Errorf("%d %s, want %d", code, text, tt.want)
			}
		})
	}
}

func TestThePathWinsOverABodyThatNamesAnotherSchedule(t *testing.T) {
	r := newRig(t)
	r.must(http.MethodPut, "/v1/schedules/s2", upsert("schedule_id", `"s1"`))
	if text := r.must(http.MethodGet, "/v1/schedules/s2", ""); !strings.Contains(text, `"schedule_id":"s2"`) {
		t.Errorf("s2 is %s", text)
	}
	if code, text := rest(t, r.base, http.MethodGet, "/v1/schedules/s1", ""); code != http.StatusNotFound {
		t.Errorf("s1 was registered: %d %s", code, text)
	}
}
