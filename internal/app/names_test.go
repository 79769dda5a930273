package app_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Two owners use the same names for grants, schedules, sets and workflows over both protocols. Each
// reaches only its own.
func TestTwoOwnersUseTheSameNames(t *testing.T) {
	t.Parallel()
	const schedule = `"workflow_id":"w","version":1,"cron_expr":"@daily","execution_grant_id":"g"`
	steps := []struct{ name, rest, body, grpc, request, second string }{
		{"a workflow", "PUT /v1/workflows/w/versions/1", `{"dag":{"nodes":[]}}`, "", "", ""},
		{"a grant", "POST /v1/grants", `{"grant_id":"g","billing_account_id":"OWNER","scopes":["graph:execute:w"]}`, "", "", ""},
		{"a schedule", "PUT /v1/schedules/nightly", `{` + schedule + `}`, "ScheduleService/UpsertSchedule", `{"schedule_id":"nightly",` + schedule + `}`, "bob:nightly"},
		{"get", "GET /v1/schedules/nightly", "", "ScheduleService/GetSchedule", `{"schedule_id":"nightly"}`, "bob:nightly"},
		{"list", "GET /v1/schedules", "", "ScheduleService/ListSchedules", `{}`, "bob:nightly"},
		{"pause", "POST /v1/schedules/nightly:pause", `{}`, "ScheduleService/PauseSchedule", `{"schedule_id":"nightly"}`, "bob:nightly"},
		{"resume", "POST /v1/schedules/nightly:resume", `{}`, "ScheduleService/ResumeSchedule", `{"schedule_id":"nightly"}`, "bob:nightly"},
		{"trigger", "POST /v1/schedules/nightly:trigger", `{"request_id":"r","overlap_policy":"allow"}`, "ScheduleService/TriggerSchedule", `{"schedule_id":"nightly","request_id":"r","overlap_policy":"allow"}`, "bob:nightly"},
		{
			"backfill", "POST /v1/schedules/nightly:backfill", `{"request_id":"b","from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z","reprocess":"all","dry_run":true}`,
			"ScheduleService/BackfillSchedule", `{"schedule_id":"nightly","request_id":"b","from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z","reprocess":"all","dry_run":true}`, "",
		},
		{"preview", "POST /v1/schedules:preview", `{"schedule_id":"nightly"}`, "ScheduleService/PreviewSchedule", `{"schedule_id":"nightly"}`, ""},
		{"explain", "GET /v1/schedules/nightly:explain?time=2026-01-01T00:00:00Z", "", "ScheduleService/ExplainSlot", `{"schedule_id":"nightly","time":"2026-01-01T00:00:00Z"}`, "bob:nightly"},
		{"runs", "GET /v1/runs?schedule_id=nightly", "", "RunService/ListRuns", `{"schedule_id":"nightly"}`, "bob:nightly"},
		{"events", "GET /v1/schedules/nightly/events", "", "ScheduleService/ListScheduleEvents", `{"schedule_id":"nightly"}`, "created"},
		{"revisions", "GET /v1/schedules/nightly/revisions", "", "ScheduleService/ListRevisions", `{"schedule_id":"nightly"}`, "bob:nightly"},
		{"alerts", "GET /v1/alerts?schedule_id=nightly", "", "AlertService/ListAlerts", `{"schedule_id":"nightly"}`, ""},
		{
			"a set", "POST /v1/schedules:apply", `{"set":"x","adopt":true,"prune":true,"schedules":[{"schedule_id":"nightly",` + schedule + `}]}`,
			"ScheduleService/ApplySchedules", `{"set":"x","prune":true,"schedules":[{"schedule_id":"nightly",` + schedule + `}]}`, "bob:nightly",
		},
		{
			"a deploy", "POST /v1/workflows/w2:deploy", `{"version":1,"dag":{"triggers":[{"type":"schedule_based","name":"t","cron_expr":"@daily"}]}}`,
			"", "", "bob:w2.t",
		},
		{"the short id of a deploy", "GET /v1/schedules/w2.t", "", "ScheduleService/GetSchedule", `{"schedule_id":"w2.t"}`, "bob:w2.t"},
		{"see the grant", "GET /v1/grants/g", "", "GrantService/GetGrant", `{"grant_id":"g"}`, ""},
		{"revoke the grant", "POST /v1/grants/g:revoke", `{}`, "GrantService/RevokeGrant", `{"grant_id":"g"}`, ""},
		{"delete", "DELETE /v1/schedules/nightly", "", "", "", ""},
	}
	whoGives(t, func(t *testing.T, g *guarded) {
		other := map[string]string{"user": `"bob`, "bob": `"ada`}
		for _, who := range []string{"user", "bob"} {
			owner := map[string]string{"user": "ada", "bob": "bob"}[who]
			for _, s := range steps {
				want := s.second
				if who == "user" {
					want = strings.TrimPrefix(want, "bob:")
				}
				method, path, _ := strings.Cut(s.rest, " ")
				code, answer := g.send(who, method, path, strings.ReplaceAll(s.body, "OWNER", owner))
				if code != http.StatusOK || want != "" && !strings.Contains(answer, `"`+want+`"`) || strings.Contains(answer, other[who]) {
					t.Errorf("%s, %s over REST: %d %s, want %q", owner, s.name, code, answer, want)
				}
				if s.grpc == "" {
					continue
				}
				answer, err := g.call(who, s.grpc, s.request)
				if err != nil || want != "" && !strings.Contains(answer, `"`+want+`"`) || strings.Contains(answer, other[who]) {
					t.Errorf("%s, %s over gRPC: %v %s, want %q", owner, s.name, err, answer, want)
				}
			}
			if code, answer := g.send(who, "GET", "/v1/schedules/nightly", ""); code != http.StatusNotFound || !strings.Contains(answer, `no schedule \"nightly\"`) {
				t.Errorf("%s, deleted: %d %s", owner, code, answer)
			}
		}
		// Who has no owner uses the stored ids.
		for path, want := range map[string]int{"bob:w2.t": http.StatusOK, "w2.t": http.StatusOK, "ada:w2.t": http.StatusNotFound} {
			if code, answer := g.send("operator", "GET", "/v1/schedules/"+path, ""); code != want {
				t.Errorf("the operator gets %s: %d %s", path, code, answer)
			}
		}
		if _, err := g.call("operator", "GrantService/GetGrant", `{"grant_id":"g"}`); status.Code(err) != codes.InvalidArgument {
			t.Errorf("the operator gets a grant of two owners without naming one: %v", err)
		}
	})
}
