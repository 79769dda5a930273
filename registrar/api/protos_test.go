package api_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func words[T ~string](set []T) (out []string) {
	for _, w := range set {
		out = append(out, string(w))
	}
	return out
}

// Where a proto lists a closed set, it is the domain's, whole and in order.
func TestClosedSetsAreTheDomains(t *testing.T) {
	sets := map[string][]string{
		"overlap_policy": words(schedule.OverlapPolicies), "catchup_policy": words(schedule.CatchupPolicies),
		"trigger": words(schedule.Triggers), "dst": words([]schedule.DST{schedule.DSTVixie, schedule.DSTLiteral}),
		"reason": words(schedule.Reasons), "status": words(schedule.Statuses),
		"state": words([]schedule.ScheduleState{schedule.StateActive, schedule.StatePaused, schedule.StateExhausted}),
	}
	// What an executor says of a run that it wants again later is no status of a run.
	snoozing := append(slices.Clone(sets["status"]), string(schedule.StatusSnooze))
	saysSnooze := []string{"ReportRunRequest.status", "ExecutorRunResponse.status", "ExecutorGetByKeyResponse.status"}
	// Reports and cancels accept a subset of the values.
	subsets := map[string]bool{
		"ReportRunRequest.status": true, "RunLauncherStartResponse.status": true, "RunLauncherCancelRequest.reason": true,
		"ExecutorRunResponse.status": true, "ExecutorCancelRequest.reason": true, "ExecutorGetByKeyResponse.status": true,
	}
	found := make(map[string]bool)
	for _, file := range []protoreflect.FileDescriptor{
		carillonv1.File_carillon_v1_schedule_proto, carillonv1.File_carillon_v1_run_proto,
		carillonv1.File_carillon_v1_launcher_proto, carillonv1.File_carillon_v1_executor_proto,
		carillonv1.File_carillon_v1_worker_proto, carillonv1.File_carillon_v1_forecast_proto, carillonv1.File_carillon_v1_simulate_proto,
	} {
		for i := range file.Messages().Len() {
			md := file.Messages().Get(i)
			for j := range md.Fields().Len() {
				fd := md.Fields().Get(j)
				want, closed := sets[string(fd.Name())]
				if !closed || fd.Kind() == protoreflect.BytesKind {
					continue
				}
				rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
				text := rules.GetString()
				if fd.IsList() {
					text = rules.GetRepeated().GetItems().GetString()
				}
				name := string(md.Name()) + "." + string(fd.Name())
				found[name] = true
				if slices.Contains(saysSnooze, name) {
					want = snoozing
				}
				if got := text.GetIn(); !slices.Equal(got, want) && !subsets[name] {
					t.Errorf("%s is one of %v, the domain has %v", name, got, want)
				} else if !contains(want, got) {
					t.Errorf("%s is one of %v, not all of them in %v", name, got, want)
				}
			}
		}
	}
	for name := range subsets {
		if !found[name] {
			t.Errorf("%s is gone", name)
		}
	}
}

func contains(set, all []string) bool {
	for _, w := range all {
		if !slices.Contains(set, w) {
			return false
		}
	}
	return len(all) > 0
}

// Every field of a definition that is sent is kept and shown.
func TestADefinitionComesBackWhole(t *testing.T) {
	r := newRig(t, func(o *registrar.Options) { o.Webhook = func(string) ([]string, bool) { return nil, true } })
	text := upsert("timezone", `"Europe/Berlin"`, "start_at", `"2030-01-01T00:00:00Z"`, "end_at", `"2031-01-01T00:00:00Z"`,
		"jitter_ms", "1500", "dst", `"literal"`, "overlap_policy", `"queue"`, "overlap_key", `"k"`, "max_queued", "7",
		"catchup_policy", `"latest"`, "catchup_window_ms", "60000", "run_timeout_ms", "5000", "launch_timeout_ms", "9000", "priority", "-3",
		"input", `{"a": 1}`, "execution_grant_id", `"g"`, "labels", `{"team":"x"}`, "managed_by", `"git:main"`,
		"expect", `{"start_within_ms":60000,"finish_within_ms":120000,"success_every_ms":7200000,"alert_after":2,"remind_every_ms":300000}`,
		"retry", `{"max_attempts":3,"backoff_ms":5000,"factor_percent":300,"max_backoff_ms":60000,"on":["logic","lost"]}`,
		"queue_id", `"q"`, "limits", `["customer=a7","gpu"]`, "webhook", `"billing"`, "max_run_ms", "60000", "expires_ms", "70000", "fair_key", `"a customer"`, "group", `"nightly"`)
	r.must("PUT", "/v1/queues/q", `{"user_id":"u"}`)
	r.must("PUT", "/v1/limits/gpu", `{"user_id":"u","max_in_flight":1}`)
	r.must("PUT", "/v1/limits/customer", `{"user_id":"u","max_in_flight":1,"keyed":true}`)
	r.must("POST", "/v1/grants", `{"grant_id":"g","user_id":"u","billing_account_id":"acme","scopes":["graph:execute:w"]}`)
	r.must("POST", "/v1/schedules", text)
	for _, only := range []string{`"interval_ms":60000`, `"once_at":"2090-01-01T00:00:00Z"`} {
		id := strings.Trim(strings.SplitN(only, ":", 2)[0], `"`)
		r.must("PUT", "/v1/schedules/"+id, strings.Replace(upsert("schedule_id", "-"), `"cron_expr":"*/5 * * * *"`, only, 1))
		if got := r.must("GET", "/v1/schedules/"+id, ""); !strings.Contains(got, only) {
			t.Errorf("%s came back as %s", only, got)
		}
	}
	const consumer = `"consume":{"topics":["orders.*","bills"],"max_events":7,"filter":{"data":{"n":[{"numeric":[">=",1.50]}],"s":["<a&b>"]}}}`
	r.must("PUT", "/v1/schedules/consumer", `{"user_id":"u","workflow_id":"w","version":1,`+consumer+`}`)
	for _, path := range []string{"/v1/schedules/consumer", "/v1/schedules/consumer/revisions"} {
		if got := r.must("GET", path, ""); !strings.Contains(got, consumer) {
			t.Errorf("consume came back as %s", got)
		}
	}

	sent := &carillonv1.UpsertScheduleRequest{}
	if err := rawjson.Unmarshal([]byte(text), sent); err != nil {
		t.Fatal(err)
	}
	shown, kept := &carillonv1.GetScheduleResponse{}, &carillonv1.ListRevisionsResponse{}
	for path, into := range map[string]proto.Message{"/v1/schedules/s1": shown, "/v1/schedules/s1/revisions": kept} {
		if err := rawjson.Unmarshal([]byte(r.must("GET", path, "")), into); err != nil {
			t.Fatalf("%s cannot be read back: %v", path, err)
		}
	}
	asked := sent.ProtoReflect()
	for i := range asked.Descriptor().Fields().Len() {
		fd := asked.Descriptor().Fields().Get(i)
		if slices.Contains([]string{"interval_ms", "once_at", "paused", "request_id", "grant", "adopt", "consume"}, string(fd.Name())) {
			continue
		}
		if !asked.Has(fd) {
			t.Errorf("this test does not send %s", fd.Name())
		}
		for _, m := range []protoreflect.Message{shown.GetSchedule().ProtoReflect(), kept.GetRevisions()[0].GetDefinition().ProtoReflect()} {
			back := m.Descriptor().Fields().ByName(fd.Name())
			if back == nil || !m.Get(back).Equal(asked.Get(fd)) {
				t.Errorf("%s was sent as %v, %s shows %v", fd.Name(), asked.Get(fd), m.Descriptor().Name(), back)
			}
		}
	}
}

// The OpenAPI document has every documented path.
func TestOpenAPIHasEveryPath(t *testing.T) {
	document, err := os.ReadFile("../../docs/openapi/carillon.swagger.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/schedules/upsert", "/schedules/pause", "/schedules/{schedule_id}", "/run-launcher/start",
		"/v1/schedules", "/v1/schedules/{schedule_id}", "/v1/schedules/{schedule_id}:pause", "/v1/schedules/{schedule_id}:resume",
		"/v1/schedules/{schedule_id}:trigger", "/v1/schedules:preview", "/v1/schedules/{schedule_id}:explain", "/v1/schedules/{schedule_id}/runs",
		"/v1/schedules/{schedule_id}/events", "/v1/schedules/{schedule_id}/revisions",
		"/v1/workflows/{workflow_id}/versions", "/v1/workflows/{workflow_id}/versions/{version}", "/v1/workflows/{workflow_id}:deploy",
		"/v1/runs", "/v1/runs:watch", "/v1/runs/{idempotency_key}", "/v1/runs/{idempotency_key}:report",
		"/v1/runs/{idempotency_key}:cancel", "/v1/runs/{idempotency_key}:retry", "/v1/runs:redrive", "/v1/runs:cancel", "/v1/queues/{filter.queue_id}:cancel", "/v1/workers", "/v1/workers:resign",
		"/v1/grants", "/v1/grants/{grant_id}", "/v1/grants/{grant_id}:revoke",
		"/v1/alerts", "/v1/alerts/{alert_id}", "/v1/alerts/{alert_id}:acknowledge", "/v1/alerts:test", "/v1/alert-deliveries", "/v1/alert-deliveries/{delivery_id}:redeliver",
	} {
		if !strings.Contains(string(document), `"`+path+`": {`) {
			t.Errorf("no %s", path)
		}
	}
}
