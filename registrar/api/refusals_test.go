package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/schedule"
)

// upsert is a good definition with some members set otherwise (raw JSON each,
// "-" leaves one out).
func upsert(changes ...string) string {
	members := []string{"schedule_id", `"s1"`, "workflow_id", `"w"`, "version", "1", "user_id", `"u"`, "cron_expr", `"*/5 * * * *"`}
	for i := 0; i < len(changes); i += 2 {
		found := false
		for j := 0; j < len(members); j += 2 {
			if members[j] == changes[i] {
				members[j+1], found = changes[i+1], true
			}
		}
		if !found {
			members = append(members, changes[i], changes[i+1])
		}
	}
	var out []string
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "-" {
			out = append(out, fmt.Sprintf("%q:%s", members[i], members[i+1]))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func quote(s string) string { return `"` + s + `"` }

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

const (
	upsertCall  = "ScheduleService/UpsertSchedule"
	previewCall = "ScheduleService/PreviewSchedule"
	putCall     = "WorkflowService/PutWorkflowVersion"
	deployCall  = "WorkflowService/DeployWorkflow"
)

// refused is one request that must be refused on both APIs, by the field and
// with the words that are given.
type refused struct {
	name  string
	call  string // default upsertCall
	rest  string // default "POST /schedules/upsert"
	body  string
	field string
	says  string
}

var refusedDefinitions = []refused{
	{name: "a malformed cron expression", body: upsert("cron_expr", `"5 o'clock"`), field: "cron_expr", says: "5 o'clock"},
	{name: "an empty cron expression", body: upsert("cron_expr", `""`), field: "cron_expr", says: "is empty"},
	{name: "a minute out of range", body: upsert("cron_expr", `"61 * * * *"`), field: "cron_expr", says: "61"},
	{name: "four fields", body: upsert("cron_expr", `"* * * *"`), field: "cron_expr", says: "* * * *"},
	{name: "a date that never comes", body: upsert("cron_expr", `"0 0 30 2 *"`), field: "cron_expr", says: "30"},
	{name: "a cron expression of a novel's length", body: upsert("cron_expr", quote(strings.Repeat("1,", 200)+"1 * * * *")), field: "cron_expr", says: "256"},
	{name: "an unknown zone", body: upsert("timezone", `"Mars/Olympus"`), field: "timezone", says: "Mars/Olympus"},
	{name: "an expression beside an unknown zone", body: upsert("timezone", `"Mars/Olympus"`, "cron_expr", `"61 * * * *"`), field: "cron_expr", says: "61"},
	{name: "an empty zone", body: upsert("timezone", `""`), field: "timezone", says: "is empty"},
	{name: "the zone of the server", body: upsert("timezone", `"Local"`), field: "timezone", says: "Local"},
	{name: "a path as a zone", body: upsert("timezone", `"../etc/passwd"`), field: "timezone", says: "../etc/passwd"},
	{name: "a lower-case zone", body: upsert("timezone", `"europe/berlin"`), field: "timezone", says: "europe/berlin"},
	{name: "cron and interval", body: upsert("interval_ms", "60000"), field: "cron_expr", says: "more than one"},
	{name: "cron and once", body: upsert("once_at", `"2099-01-01T00:00:00Z"`), field: "cron_expr", says: "more than one"},
	{
		name: "interval and once", body: upsert("cron_expr", "-", "interval_ms", "60000", "once_at", `"2099-01-01T00:00:00Z"`),
		field: "cron_expr", says: "more than one",
	},
	{name: "an interval of no time", body: upsert("cron_expr", "-", "interval_ms", "0"), field: "interval_ms", says: "1000"},
	{name: "an interval below a second", body: upsert("cron_expr", "-", "interval_ms", "999"), field: "interval_ms", says: "1000"},
	{name: "an interval of broken seconds", body: upsert("cron_expr", "-", "interval_ms", "1500"), field: "interval_ms", says: "multiple of 1000"},
	{name: "a start within a second", body: upsert("start_at", `"2030-01-01T00:00:00.5Z"`), field: "start_at", says: "whole second"},
	{name: "an end within a second", body: upsert("end_at", `"2030-01-01T00:00:00.001Z"`), field: "end_at", says: "whole second"},
	{
		name: "an instant within a second", body: upsert("cron_expr", "-", "once_at", `"2030-01-01T00:00:00.000000001Z"`),
		field: "once_at", says: "whole second",
	},
	{name: "an instant in the past", body: upsert("cron_expr", "-", "once_at", `"2001-01-01T00:00:00Z"`), field: "once_at", says: "2001"},
	{name: "a start before 1970", body: upsert("start_at", `"1969-12-31T23:59:59Z"`), field: "start_at", says: "1970"},
	{name: "an end after 2099", body: upsert("end_at", `"2100-01-01T00:00:00Z"`), field: "end_at", says: "2099"},
	{
		name: "an end before the start", body: upsert("start_at", `"2030-01-02T00:00:00Z"`, "end_at", `"2030-01-01T00:00:00Z"`),
		field: "end_at", says: "before start_at",
	},
	{name: "a negative jitter", body: upsert("jitter_ms", "-1"), field: "jitter_ms", says: "-1"},
	{name: "an absurd jitter", body: upsert("jitter_ms", "3600001"), field: "jitter_ms", says: "3600000"},
	{name: "a jitter beyond 32 bits", body: upsert("jitter_ms", "4294967296"), field: "jitter_ms", says: "4294967296"},
	{name: "an unknown overlap policy", body: upsert("overlap_policy", `"sometimes"`), field: "overlap_policy", says: `"sometimes"`},
	{name: "a policy in capitals", body: upsert("overlap_policy", `"SKIP"`), field: "overlap_policy", says: "skip"},
	{name: "an empty policy", body: upsert("overlap_policy", `""`), field: "overlap_policy", says: "skip"},
	{name: "replace without an executor that cancels", body: upsert("overlap_policy", `"replace"`), field: "overlap_policy", says: "cancel"},
	{name: "an unknown catch-up policy", body: upsert("catchup_policy", `"all"`), field: "catchup_policy", says: "fire_immediately"},
	{name: "an unknown DST rule", body: upsert("dst", `"summer"`), field: "dst", says: "literal"},
	{name: "a queue of none", body: upsert("max_queued", "0"), field: "max_queued", says: "0"},
	{name: "an endless queue", body: upsert("max_queued", "1001"), field: "max_queued", says: "1000"},
	{name: "a catch-up window over 30 days", body: upsert("catchup_window_ms", "2592000001"), field: "catchup_window_ms", says: "2592000000"},
	{name: "a run timeout below a second", body: upsert("run_timeout_ms", "999"), field: "run_timeout_ms", says: "1000"},
	{name: "a launch timeout below a second", body: upsert("launch_timeout_ms", "999"), field: "launch_timeout_ms", says: "1000"},
	{name: "a launch timeout over a day", body: upsert("launch_timeout_ms", "86400001"), field: "launch_timeout_ms", says: "86400000"},
	{name: "a run timeout over 30 days", body: upsert("run_timeout_ms", "2592000001"), field: "run_timeout_ms", says: "2592000000"},
	{name: "too high a priority", body: upsert("priority", "1001"), field: "priority", says: "1000"},
	{name: "version 0", body: upsert("version", "0"), field: "version", says: "0"},
	{name: "no version", body: upsert("version", "-"), field: "version", says: "1"},
	{name: "no workflow", body: upsert("workflow_id", "-"), field: "workflow_id", says: "is required"},
	{name: "no owner", body: upsert("user_id", "-"), field: "user_id", says: "is required"},
	{name: "an id with a space", body: upsert("schedule_id", `"a b"`), field: "schedule_id", says: `"a b"`},
	{name: "an id with a line break", body: upsert("schedule_id", `"a\nb"`), field: "schedule_id", says: `a\nb`},
	{name: "an id that ends in a line break", body: upsert("user_id", `"ab\n"`), field: "user_id", says: `ab\n`},
	{name: "an id with a control character", body: upsert("workflow_id", `"a\u0001"`), field: "workflow_id", says: `a\x01`},
	{name: "an id with NUL", body: upsert("workflow_id", `"a\u0000"`), field: "workflow_id", says: `a\x00`},
	{name: "an id that looks like another", body: upsert("schedule_id", `"ѕ1"`), field: "schedule_id", says: "not a valid id"},
	{name: "an id of 129 characters", body: upsert("schedule_id", quote(strings.Repeat("a", 129))), field: "schedule_id", says: "129 bytes"},
	{name: "a grant that is no id", body: upsert("execution_grant_id", `"g/1"`), field: "execution_grant_id", says: "g/1"},
	{name: "a label name that is no id", body: upsert("labels", `{"a b":"x"}`), field: `labels["a b"]`, says: "a b"},
	{name: "a label value with NUL", body: upsert("labels", `{"a":"x\u0000"}`), field: `labels["a"]`, says: "NUL"},
	{name: "an input over 64 KiB", body: upsert("input", quote(strings.Repeat("x", 64<<10-1))), field: "input", says: "65537 bytes, more than 65536"},
	{name: "an input that is too deep", body: upsert("input", nested(33)), field: "input", says: "32"},
	{name: "an input with NUL", body: upsert("input", `{"a":"\u0000"}`), field: "input", says: "NUL"},
	{name: "an input with a name twice", body: upsert("input", `{"a":1,"a":2}`), field: "input", says: "twice"},
	{name: "an unknown field", body: upsert("cron", `"* * * * *"`), field: "cron", says: "not a field"},
	{name: "a field in another spelling", body: upsert("cronExpr", `"* * * * *"`), field: "cronExpr", says: "write cron_expr"},
	{name: "a field twice", body: `{"version":1,"version":2}`, field: "version", says: "twice"},
	{name: "a field that is only shown", body: upsert("next_run_at", `"2030-01-01T00:00:00Z"`), field: "next_run_at", says: "not a field"},
	{name: "a time of no calendar", body: upsert("start_at", `"2030-02-30T00:00:00Z"`), field: "start_at", says: "2030-02-30"},
	{name: "no JSON at all", body: `schedule_id=s1`, field: "body", says: "not JSON"},
	{name: "JSON and more", body: upsert() + "x", field: "body", says: "not JSON"},
	{name: "a body over 256 KiB", call: "rest", rest: "POST /schedules/upsert", body: upsert("input", quote(strings.Repeat("x", 300<<10))), field: "body", says: "262144"},
}

var refusedOthers = []refused{
	{
		name: "a DAG over 1 MiB", call: putCall, rest: "PUT /v1/workflows/w/versions/1",
		body:  `{"workflow_id":"w","version":1,"dag":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		field: "dag", says: "more than 1048576",
	},
	{
		name: "a DAG call over its limit", rest: "PUT /v1/workflows/w/versions/1",
		body: `{"dag":{"x":"` + strings.Repeat("x", 1200<<10) + `"}}`, field: "body", says: "1114112", call: "rest",
	},
	{name: "a DAG that is not JSON", call: "rest", rest: "PUT /v1/workflows/w/versions/1", body: `{"dag":{nodes}}`, field: "body", says: "not JSON"},
	{name: "no DAG", call: putCall, rest: "PUT /v1/workflows/w/versions/1", body: `{"workflow_id":"w","version":1}`, field: "dag", says: "required"},
	{name: "a DAG that is a list", call: putCall, rest: "PUT /v1/workflows/w/versions/1", body: `{"workflow_id":"w","version":1,"dag":[]}`, field: "dag", says: "object"},
	{
		name: "a DAG of another version", call: putCall, rest: "PUT /v1/workflows/w/versions/1",
		body: `{"workflow_id":"w","version":1,"dag":{"version":2}}`, field: "dag.version", says: "2",
	},
	{
		name: "a DAG with a name twice", call: putCall, rest: "PUT /v1/workflows/w/versions/1",
		body: `{"workflow_id":"w","version":1,"dag":{"a":{"b":1,"b":1}}}`, field: "dag", says: "twice",
	},
	{
		name: "a version beyond 32 bits in the path", call: "rest", rest: "PUT /v1/workflows/w/versions/99999999999", body: `{"dag":{}}`,
		field: "", says: "version",
	},
	{
		name: "a trigger with a bad cron expression", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"webhook","x":1},{"type":"schedule_based","cron_expr":"x"}]}}`,
		field: "dag.triggers[1].cron_expr", says: "x",
	},
	{
		name: "a trigger with an unknown field", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","cron":"* * * * *"}]}}`,
		field: "dag.triggers[0].cron", says: "not a field",
	},
	{
		name: "a trigger with jitter out of range", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","jitter_ms":3600001}]}}`,
		field: "dag.triggers[0].jitter_ms", says: "3600000",
	},
	{
		name: "a trigger that belongs to another workflow", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","workflow_id":"v","version":2}]}}`,
		field: "dag.triggers[0].workflow_id", says: `"w"`,
	},
	{
		name: "two triggers of one name", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","name":"a"},{"type":"schedule_based","name":"a"}]}}`,
		field: "dag.triggers[1].name", says: "trigger 0",
	},
	{
		name: "a trigger name that is no id", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body:  `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","name":"a b"}]}}`,
		field: "dag.triggers[0].name", says: "a b",
	},
	{
		name: "triggers that are no list", call: deployCall, rest: "POST /v1/workflows/w:deploy",
		body: `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":{}}}`, field: "dag.triggers", says: "list",
	},
	{name: "a query and a body", call: "rest", rest: "PUT /v1/schedules/s1?paused=true", body: upsert(), field: "paused", says: "body"},
	{name: "an unknown query parameter", call: "rest", rest: "GET /v1/schedules?owner=u", field: "owner", says: "not a parameter"},
	{name: "a parameter that is no time", call: "rest", rest: "GET /v1/runs?from=yesterday", field: "from", says: `"yesterday" is not a time such as 2026-03-08T14:00:00Z`},
	{
		name: "a time without an offset", call: "rest", rest: "GET /v1/schedules/s1:explain?time=2026-03-08T07:30:00", field: "time",
		says: `"2026-03-08T07:30:00" has no offset; write 2026-03-08T07:30:00Z, or an offset such as %2B01:00 (+ in a URL) at its end; what the clock of the schedule's zone shows goes into local`,
	},
	{
		name: "another time without an offset", call: "rest", rest: "GET /v1/forecast?from=2026-03-08T07:30", field: "from",
		says: `"2026-03-08T07:30" has no offset; write 2026-03-08T07:30:00Z, or`,
	},
	{
		name: "a time whose + became a blank", call: "rest", rest: "GET /v1/schedules/s1:explain?time=2026-03-08T07:30:00+01:00", field: "time",
		says: `has a space before its offset; write %2B for the + in a URL: 2026-03-08T07:30:00%2B01:00`,
	},
	{name: "a parameter that is no number", call: "rest", rest: "GET /v1/runs?page_size=ten", field: "page_size", says: `"ten" is not a whole number`},
	{name: "too large a page", call: "ScheduleService/ListSchedules", rest: "GET /v1/schedules?page_size=201", body: `{"page_size":201}`, field: "page_size", says: "200"},
	{name: "a forged page token", call: "ScheduleService/ListSchedules", rest: "GET /v1/schedules?page_token=x", body: `{"page_token":"x"}`, field: "page_token", says: "x"},
	{
		name: "a page token of another list", call: "RunService/ListRuns", rest: "GET /v1/runs?page_token=c3Mx",
		body: `{"page_token":"c3Mx"}`, field: "page_token", says: "next_page_token",
	},
	{name: "an unknown state", call: "ScheduleService/ListSchedules", rest: "GET /v1/schedules?state=asleep", body: `{"state":"asleep"}`, field: "state", says: "exhausted"},
	{name: "an unknown status", call: "RunService/ListRuns", rest: "GET /v1/runs?status=DONE", body: `{"status":["DONE"]}`, field: "status[0]", says: "SUCCESS"},
	{name: "a key in capitals", call: "RunService/GetRun", rest: "GET /v1/runs/ABC", body: `{"idempotency_key":"ABC"}`, field: "idempotency_key", says: "64 hex digits"},
	{
		name: "a report of no status", call: "RunService/ReportRun", rest: "POST /v1/runs/" + strings.Repeat("a", 64) + ":report",
		body: `{"idempotency_key":"` + strings.Repeat("a", 64) + `"}`, field: "status", says: "STARTED",
	},
	{name: "pausing or not, left open", call: "ScheduleService/SetPaused", rest: "POST /schedules/pause", body: `{"schedule_id":"s1"}`, field: "paused", says: "required"},
	{name: "a preview of nothing", call: previewCall, rest: "POST /v1/schedules:preview", body: `{}`, field: "schedule_id", says: "cron_expr"},
	{name: "a preview of too much", call: previewCall, rest: "POST /v1/schedules:preview", body: `{"cron_expr":"@daily","page_size":10001}`, field: "page_size", says: "10000"},
	{name: "a preview of a saved schedule otherwise", call: previewCall, rest: "POST /v1/schedules:preview", body: `{"schedule_id":"s1","dst":"literal"}`, field: "dst", says: "saved"},
	{
		name: "a trigger's input over 64 KiB", call: "ScheduleService/TriggerSchedule", rest: "POST /v1/schedules/s1:trigger",
		body: `{"schedule_id":"s1","input":"` + strings.Repeat("x", 64<<10) + `"}`, field: "input", says: "65536",
	},
}

func TestBadInputIsRefusedOnBothAPIsAndWritesNothing(t *testing.T) {
	r := newRig(t)
	for _, tt := range slices.Concat(refusedDefinitions, refusedOthers, refusedExpectations, refusedQueues, refusedReservations, refusedQueueSimulations, refusedUniques, refusedLimits, refusedGroups, refusedOverlaps) {
		t.Run(tt.name, func(t *testing.T) {
			if tt.call == "" {
				tt.call, tt.rest = upsertCall, "POST /schedules/upsert"
			}
			method, path, _ := strings.Cut(tt.rest, " ")
			body := tt.body
			if method == http.MethodGet {
				body = ""
			}
			code, text := rest(t, r.base, method, path, body)
			answer := readRefusal(t, text)
			if code != http.StatusBadRequest || answer.Code != int(codes.InvalidArgument) {
				t.Errorf("REST: %d %s", code, text)
			}
			tt.check(t, "REST", answer.Message, answer.violations())
			if tt.call == "rest" {
				return
			}
			_, st, carried := grpcCall(t, r.conn, tt.call, tt.body)
			if !carried {
				return // not expressible in gRPC
			}
			if st.Code() != codes.InvalidArgument {
				t.Fatalf("gRPC: %v", st)
			}
			var found []violation
			for _, d := range st.Details() {
				if bad, ok := d.(*errdetails.BadRequest); ok {
					for _, v := range bad.GetFieldViolations() {
						found = append(found, violation{v.GetField(), v.GetDescription()})
					}
				}
			}
			tt.check(t, "gRPC", st.Message(), found)
		})
	}
	if rows, err := r.store.ListSchedules(t.Context(), schedule.ScheduleFilter{Limit: 10}); err != nil || len(rows) != 0 {
		t.Errorf("%d schedules were written (%v)", len(rows), err)
	}
	if rows, err := r.store.ListWorkflows(t.Context(), schedule.WorkflowFilter{WorkflowID: "w", Limit: 10}); err != nil || len(rows) != 0 {
		t.Errorf("%d workflow versions were written (%v)", len(rows), err)
	}
}

// check wants the field among the violations, the words in its description and
// all of it in the message, and no answer that grows with the request.
func (r refused) check(t *testing.T, way, message string, found []violation) {
	t.Helper()
	if !strings.Contains(message, r.says) || len(message) > 4096 {
		t.Errorf("%s: message %q does not say %q", way, message, r.says)
	}
	if r.field == "" {
		return
	}
	for _, v := range found {
		if v.Field == r.field && strings.Contains(v.Description, r.says) {
			return
		}
	}
	t.Errorf("%s: no violation of %q says %q: %q", way, r.field, r.says, found)
}
