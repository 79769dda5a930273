package app_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A schedule managed by a set is upserted by hand over both protocols.
func TestUpsertKeepsTheManager(t *testing.T) {
	t.Parallel()
	const warning = "schedule nightly is managed by set:prod; the next apply of that set overwrites this change"
	const refusal = "set:test cannot take over nightly (managed by set:prod)"
	body := func(version, more string) string {
		return `{"schedule_id":"nightly","workflow_id":"w","user_id":"ada","cron_expr":"@daily","version":` + version + more + `}`
	}
	whoGives(t, func(t *testing.T, g *guarded) {
		if code, answer := g.send("operator", "POST", "/v1/schedules:apply", `{"set":"prod","schedules":[`+body("1", "")+`]}`); code != http.StatusOK {
			t.Fatalf("apply: %d %s", code, answer)
		}
		manager := func(want string) {
			t.Helper()
			if code, answer := g.send("operator", "GET", "/v1/schedules/nightly", ""); code != http.StatusOK || !strings.Contains(answer, `"managed_by":"`+want+`"`) {
				t.Errorf("stored: %d %s, want managed_by %q", code, answer, want)
			}
		}
		if code, answer := g.send("operator", "PUT", "/v1/schedules/nightly", body("2", "")); code != http.StatusOK || !strings.Contains(answer, warning) {
			t.Errorf("REST: %d %s, want the warning %q", code, answer, warning)
		}
		manager("set:prod")
		if answer, err := g.call("operator", "ScheduleService/UpsertSchedule", body("3", "")); err != nil || !strings.Contains(answer, warning) {
			t.Errorf("gRPC: %v %s, want the warning %q", err, answer, warning)
		}
		manager("set:prod")

		other := body("4", `,"managed_by":"set:test"`)
		if code, answer := g.send("operator", "PUT", "/v1/schedules/nightly", other); code != http.StatusConflict || !strings.Contains(answer, refusal) {
			t.Errorf("REST, another manager: %d %s, want %q", code, answer, refusal)
		}
		if _, err := g.call("operator", "ScheduleService/UpsertSchedule", other); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), refusal) {
			t.Errorf("gRPC, another manager: %v, want %q", err, refusal)
		}
		set := `{"set":"test","schedules":[` + body("4", "") + `]}`
		if _, err := g.call("operator", "ScheduleService/ApplySchedules", set); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), refusal) {
			t.Errorf("gRPC, another set: %v, want %q", err, refusal)
		}
		manager("set:prod")
		if code, answer := g.send("operator", "PUT", "/v1/schedules/nightly", body("4", `,"managed_by":"set:test","adopt":true`)); code != http.StatusOK {
			t.Errorf("adopt: %d %s", code, answer)
		}
		manager("set:test")
		if code, answer := g.send("operator", "POST", "/v1/workflows/w:deploy",
			`{"version":5,"user_id":"ada","dag":{"triggers":[{"type":"schedule_based","name":"t","cron_expr":"@daily","adopt":true}]}}`); code != http.StatusBadRequest || !strings.Contains(answer, "dag.triggers[0].adopt") {
			t.Errorf("adopt in a trigger: %d %s", code, answer)
		}
	})
}
