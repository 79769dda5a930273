package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const applyCall = "ScheduleService/ApplySchedules"

// aSet is the body of an apply: a schedule and a workflow with a trigger.
const aSet = `{"set":"billing","schedules":[{"schedule_id":"s1","workflow_id":"w","version":1,"user_id":"u","cron_expr":"0 * * * *","input":{"b": 1, "a": 2}}],
 "workflows":[{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","name":"t","cron_expr":"@daily","paused":true}]}}]%s}`

func TestApplyReportsItsChanges(t *testing.T) {
	r := newRig(t)
	dry := r.must("POST", "/v1/schedules:apply", fmt.Sprintf(aSet, `,"dry_run":true`))
	for _, want := range []string{
		`"schedule_id":"s1","action":"create","revision":1`, `"added":720,"removed":0`, `"first_added":[{"run_at":"`,
		`"workflows":[{"workflow_id":"w","version":1,"action":"create"}]`, `"changed":true`, `"forecast":{"until":"`, `"peak":1`,
	} {
		if !strings.Contains(dry, want) {
			t.Errorf("the dry run does not say %s: %s", want, dry)
		}
	}
	if code, _ := r.rest("GET", "/v1/schedules/s1", ""); code != http.StatusNotFound {
		t.Errorf("after the dry run s1 answers %d", code)
	}
	if code, _ := r.rest("GET", "/v1/workflows/w/versions/1", ""); code != http.StatusNotFound {
		t.Errorf("after the dry run the workflow answers %d", code)
	}
	done := r.must("POST", "/v1/schedules:apply", fmt.Sprintf(aSet, ""))
	if strings.Count(done, `"action":"create"`) != 3 || !strings.Contains(done, `"forecast":null`) {
		t.Error(done)
	}
	stands := r.must("GET", "/v1/schedules/w.t", "")
	for path, want := range map[string]string{"managed_by": "set:billing", "paused": "true", "version": "1"} {
		if got := member(t, stands, "schedule", path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	answer, st, _ := grpcCall(t, r.conn, applyCall, fmt.Sprintf(aSet, `,"prune":true`))
	if st != nil || strings.Count(answer, `"action":"unchanged"`) != 3 || member(t, answer, "changed") != "false" {
		t.Errorf("the same over gRPC: %v %s", st, answer)
	}
	answer, st, _ = grpcCall(t, r.conn, applyCall, `{"set":"billing","prune":true,"allow_empty":true}`)
	if st != nil || strings.Count(answer, `"action":"delete"`) != 2 {
		t.Errorf("nothing at all: %v %s", st, answer)
	}
}

func TestApplyNamesEachRefusedFieldByItsPlace(t *testing.T) {
	r := newRig(t)
	body := `{"set":"x","schedules":[` + upsert("schedule_id", `"ok"`) + `,` + upsert("schedule_id", `"bad"`, "cron_expr", `"61 * * * *"`, "managed_by", `"me"`) + `],
	 "workflows":[{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"event"},{"type":"schedule_based","timezone":"Mars/Base","cron_expr":"@daily"}]}}]}`
	for _, tt := range []struct {
		name string
		body string
		want []string
	}{
		{name: "a schedule that contradicts the set", body: body, want: []string{"schedules[1].managed_by"}},
		{name: "invalid definitions", body: strings.Replace(body, `,"managed_by":"me"`, "", 1), want: []string{"schedules[1].cron_expr", "workflows[0].dag.triggers[1].timezone"}},
		{name: "a trigger that breaks a rule", body: `{"set":"x","workflows":[{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","cronn":"@daily"}]}}]}`, want: []string{"workflows[0].dag.triggers[0].cronn"}},
		{name: "a rule of the protos", body: `{"set":"x","schedules":[` + upsert("jitter_ms", "3600001") + `]}`, want: []string{"schedules[0].jitter_ms"}},
		{name: "a DAG that is none", body: `{"set":"x","workflows":[{"workflow_id":"w","version":1,"user_id":"u","dag":7}]}`, want: []string{"workflows[0].dag"}},
		{name: "a workflow with a request id", body: `{"set":"x","workflows":[{"workflow_id":"w","version":1,"user_id":"u","dag":{},"request_id":"r"}]}`, want: []string{"workflows[0].request_id"}},
		{name: "no set", body: `{"schedules":[` + upsert() + `]}`, want: []string{"set"}},
		{name: "nothing, with prune", body: `{"set":"x","prune":true}`, want: []string{"prune"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, text := r.rest("POST", "/v1/schedules:apply", tt.body)
			var got []string
			for _, v := range readRefusal(t, text).violations() {
				got = append(got, v.Field)
			}
			if code != http.StatusBadRequest || !slices.Equal(got, tt.want) {
				t.Errorf("%d, fields %v, want %v: %s", code, got, tt.want, text)
			}
			if _, st, carried := grpcCall(t, r.conn, applyCall, tt.body); carried && st.Code() != codes.InvalidArgument {
				t.Errorf("gRPC: %v", st)
			}
		})
	}
	if code, _ := r.rest("GET", "/v1/schedules/ok", ""); code != http.StatusNotFound {
		t.Errorf("a part of a refused set was applied: %d", code)
	}
}

func TestApplyIsHeldToItsLimits(t *testing.T) {
	r := newRig(t)
	client := carillonv1.NewScheduleServiceClient(r.conn)
	some := func(n, inputBytes int) *carillonv1.ApplySchedulesRequest {
		req := &carillonv1.ApplySchedulesRequest{Set: "x", DryRun: true}
		expr := "@daily"
		for i := range n {
			req.Schedules = append(req.Schedules, &carillonv1.UpsertScheduleRequest{
				ScheduleId: fmt.Sprint("s", i), WorkflowId: "w", Version: 1, UserId: "u", CronExpr: &expr,
				Input: []byte(quote(strings.Repeat("x", inputBytes))),
			})
		}
		return req
	}
	if _, err := client.ApplySchedules(t.Context(), some(schedule.MaxApplied, 10)); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	if _, err := client.ApplySchedules(t.Context(), some(schedule.MaxApplied+1, 10)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("one more: %v", err)
	}
	if _, err := client.ApplySchedules(t.Context(), some(127, 65_000)); err != nil {
		t.Errorf("nearly 8 MiB: %v", err)
	}
	if _, err := client.ApplySchedules(t.Context(), some(131, 65_000)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("more than 8 MiB: %v", err)
	}
	large := some(1, 10).GetSchedules()[0]
	large.Labels = map[string]string{"a": strings.Repeat("x", schedule.MaxDAGBytes+64<<10)}
	if _, err := client.UpsertSchedule(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("another call of that size: %v", err)
	}
	code, text := r.rest("POST", "/v1/schedules:apply", `{"set":"x","schedules":[`+strings.Repeat(" ", schedule.MaxApplyBytes)+`]}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "body has more than 8388608 bytes") && !strings.Contains(text, "has more than 8388608 bytes") {
		t.Errorf("a larger body: %d %s", code, text)
	}
}

func TestARefusalOfMuchSaysThatThereIsMore(t *testing.T) {
	r := newRig(t)
	var bad []string
	for i := range 30 {
		bad = append(bad, upsert("schedule_id", fmt.Sprintf(`"s%d"`, i), "cron_expr", `"0 25 * * *"`))
	}
	code, text := r.rest("POST", "/v1/schedules:apply", `{"set":"x","schedules":[`+strings.Join(bad, ",")+`]}`)
	if code != 400 || !strings.Contains(text, "schedules[19].cron_expr") || strings.Contains(text, "schedules[20]") ||
		!strings.Contains(text, "more fields are invalid; these are the first 20") {
		t.Errorf("%d %s", code, text)
	}
}
