package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const wholeSchedule = `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 3 * * *","timezone":"Europe/Berlin","jitter_ms":5000,` +
	`"overlap_policy":"queue","max_queued":7,"catchup_policy":"latest","catchup_window_ms":60000,"run_timeout_ms":90000,"priority":3,` +
	`"input":{"b":1.50,"a":[1e3]},"labels":{"team":"x","tier":"1"},"start_at":"2026-01-01T00:00:00Z"}`

func TestPatchChangesOnlyTheFieldsOfItsMask(t *testing.T) {
	t.Parallel()
	whoGives(t, func(t *testing.T, g *guarded) {
		for i, tc := range []struct {
			name, query, body string
			headers           []string
			code              int
			says              string // of the answer
			moves             map[string]any
		}{
			{name: "the members of the body are the mask", body: `{"cron_expr":"0 4 * * *"}`, code: 200, says: `"changed":true`, moves: map[string]any{"cron_expr": "0 4 * * *"}},
			{name: "an equal value changes nothing", body: `{"cron_expr":"0 3 * * *"}`, code: 200, says: `"changed":false`},
			{name: "null sets the default", body: `{"priority":null,"timezone":null}`, code: 200, moves: map[string]any{"priority": 0.0, "timezone": "UTC"}},
			{name: "null clears the input", body: `{"input":null}`, code: 200, moves: map[string]any{"input": nil}},
			{name: "a mask wins over the body", query: "?update_mask=priority", body: `{"priority":9,"version":4}`, code: 200, moves: map[string]any{"priority": 9.0}},
			{name: "one label", query: "?update_mask=labels.team,labels.tier", body: `{"labels":{"team":"y"}}`, code: 200, moves: map[string]any{"labels": map[string]any{"team": "y"}}},
			{name: "all labels", body: `{"labels":{"only":"this"}}`, code: 200, moves: map[string]any{"labels": map[string]any{"only": "this"}}},
			{name: "another kind of rule", body: `{"cron_expr":null,"interval_ms":60000}`, code: 200, moves: map[string]any{"cron_expr": "", "interval_ms": 60000.0}},
			{name: "an alert", body: `{"expect":{"success_every_ms":172800000}}`, code: 200, says: "success_every_ms"},
			{name: "a pause", body: `{"paused":true}`, code: 200, moves: map[string]any{"paused": true}},
			{name: "the current revision", headers: []string{"If-Match", `"1"`}, body: `{"priority":9}`, code: 200, moves: map[string]any{"priority": 9.0}},
			{name: "the current revision as a parameter", query: "?etag=1", body: `{"priority":9}`, code: 200, moves: map[string]any{"priority": 9.0}},
			{name: "any revision", headers: []string{"If-Match", "*"}, body: `{"priority":9}`, code: 200, moves: map[string]any{"priority": 9.0}},
			{name: "the ids that it has", body: `{"schedule_id":"ID","user_id":"ada","version":2}`, code: 200, moves: map[string]any{"version": 2.0}},
			{name: "another revision", headers: []string{"If-Match", `"7"`}, body: `{"priority":9}`, code: 412, says: "has revision 1, and the change is based on revision 7"},
			{name: "an etag that is no revision", query: "?etag=abc", body: `{"priority":9}`, code: 400, says: "etag"},
			{name: "two different etags", query: "?etag=1", headers: []string{"If-Match", `"2"`}, body: `{"priority":9}`, code: 400, says: "If-Match"},
			{name: "a wrong value", body: `{"cron_expr":"0 99 * * *"}`, code: 400, says: "cron_expr"},
			{name: "two rules", body: `{"interval_ms":60000}`, code: 400, says: "more than one of cron_expr, interval_ms and once_at"},
			{name: "an unknown field", body: `{"cron":"x"}`, code: 400, says: "cron"},
			{name: "a mask with an unknown field", query: "?update_mask=revision", body: `{}`, code: 400, says: "is not a field of UpsertScheduleRequest"},
			{name: "a part of a field", query: "?update_mask=expect.success_every_ms", body: `{}`, code: 400, says: "only labels.NAME"},
			{name: "nothing", body: `{}`, code: 400, says: "update_mask"},
			{name: "a required field is cleared", body: `{"workflow_id":null}`, code: 400, says: "workflow_id"},
			{name: "another owner", body: `{"user_id":"bob"}`, code: 400, says: `cannot change from \"ada\"`},
			{name: "another id", body: `{"schedule_id":"other"}`, code: 400, says: "cannot change from"},
			{name: "adopt in the body", body: `{"adopt":true}`, code: 400, says: "is not a field of the definition"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				id := fmt.Sprintf("p%d", i)
				path := "/v1/schedules/" + id
				if code, answer := g.send("operator", "PUT", path, wholeSchedule); code != http.StatusOK {
					t.Fatalf("%d %s", code, answer)
				}
				before := scheduleAt(t, g, path)
				code, answer := g.send("operator", http.MethodPatch, path+tc.query, strings.ReplaceAll(tc.body, "ID", id), tc.headers...)
				if code != tc.code || !strings.Contains(answer, tc.says) {
					t.Fatalf("%d %s, want %d with %s", code, answer, tc.code, tc.says)
				}
				after := scheduleAt(t, g, path)
				for name, value := range tc.moves {
					before[name] = value
				}
				for _, follows := range []string{"revision", "revised_at", "updated_at", "next_run_at", "paused_by", "expect", "expectations"} {
					if tc.code == 200 {
						delete(before, follows)
						delete(after, follows)
					}
				}
				was, _ := json.Marshal(before)
				is, _ := json.Marshal(after)
				if string(was) != string(is) {
					t.Errorf("the schedule is\n%s\nwant\n%s", is, was)
				}
			})
		}
		if code, answer := g.send("operator", http.MethodPatch, "/v1/schedules/nosuch", `{"priority":1}`); code != http.StatusNotFound {
			t.Errorf("a schedule that there is not: %d %s", code, answer)
		}
	})
}

func scheduleAt(t *testing.T, g *guarded, path string) map[string]any {
	t.Helper()
	code, answer := g.send("operator", http.MethodGet, path, "")
	var got struct{ Schedule map[string]any }
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	return got.Schedule
}

func TestTheSecondWriterOfARevisionIsRefused(t *testing.T) {
	t.Parallel()
	whoGives(t, func(t *testing.T, g *guarded) {
		if code, answer := g.send("operator", "PUT", "/v1/schedules/s", wholeSchedule); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		client := carillonv1.NewScheduleServiceClient(g.conn)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.shown("operator"))
		const writers = 6
		var all sync.WaitGroup
		errs := make([]error, writers)
		for i := range writers {
			all.Go(func() {
				_, errs[i] = client.PatchSchedule(ctx, &carillonv1.PatchScheduleRequest{
					ScheduleId: "s", Etag: `"1"`, Schedule: &carillonv1.UpsertScheduleRequest{Version: int32(i + 2)},
					UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"version"}},
				})
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			switch status.Code(err) {
			case codes.OK:
				won++
			case codes.Aborted:
			default:
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d writers of one revision succeeded, want 1: %v", won, writers, errs)
		}
		// Without an etag, patches of different fields all take effect.
		fields := []*carillonv1.UpsertScheduleRequest{{Version: 50}, {Labels: map[string]string{"a": "1"}}, {ExecutionGrantId: ""}, {Input: []byte(`{"n":1}`)}}
		priority := int32(8)
		fields[2].Priority = &priority
		errs = make([]error, len(fields))
		for i, values := range fields {
			all.Go(func() {
				_, errs[i] = client.PatchSchedule(ctx, &carillonv1.PatchScheduleRequest{ScheduleId: "s", Schedule: values})
			})
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		got, err := client.GetSchedule(ctx, &carillonv1.GetScheduleRequest{ScheduleId: "s"})
		s := got.GetSchedule()
		if err != nil || s.GetVersion() != 50 || s.GetLabels()["a"] != "1" || s.GetPriority() != 8 || string(s.GetInput()) != `{"n":1}` || s.GetRevision() != 6 {
			t.Errorf("%v, %v: a patch was lost", s, err)
		}
	})
}

func TestPatchFollowsTheRulesOfUpsert(t *testing.T) {
	t.Parallel()
	whoGives(t, func(t *testing.T, g *guarded) {
		set := `{"set":"prod","schedules":[{"schedule_id":"managed","workflow_id":"w","version":1,"user_id":"ada","cron_expr":"@daily"}]}`
		if code, answer := g.send("operator", "POST", "/v1/schedules:apply", set); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		for _, tc := range []struct {
			name, who, path, body string
			code                  int
			says                  string
		}{
			{"a change of a managed schedule has a warning", "operator", "managed", `{"priority":1}`, 200, "the next apply of that set overwrites this change"},
			{"another manager is refused", "operator", "managed", `{"managed_by":"set:test"}`, 409, "cannot take over managed"},
			{"a manager is not cleared by accident", "operator", "managed", `{"managed_by":null}`, 400, "without adopt"},
			{"another manager with adopt", "operator", "managed?adopt=true", `{"managed_by":"set:test"}`, 200, `"managed_by":"set:test"`},
			{"no manager with adopt", "operator", "managed?adopt=true", `{"managed_by":null}`, 200, `"managed_by":""`},
			{"the owner", "user", "managed", `{"priority":2}`, 200, `"priority":2`},
			{"another owner", "bob", "managed", `{"priority":3}`, 404, "managed"},
			{"a viewer", "viewer", "managed", `{"priority":3}`, 403, ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				code, answer := g.send(tc.who, http.MethodPatch, "/v1/schedules/"+tc.path, tc.body)
				if code != tc.code || !strings.Contains(answer, tc.says) {
					t.Errorf("%d %s, want %d with %s", code, answer, tc.code, tc.says)
				}
			})
		}
		eventually(t, "each patch is in the audit trail", func() bool {
			_, answer := g.send("operator", http.MethodGet, "/v1/audit?method=PatchSchedule", "")
			return strings.Count(answer, `"code":"OK"`) >= 4 && strings.Contains(answer, `"code":"NotFound"`)
		})
	})
}
