package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// answering is a fake that has an answer to every call.
func answering(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	run := failedRun()
	f.always("UpsertSchedule", &carillonv1.UpsertScheduleResponse{ScheduleId: "nightly", NextRunAt: at("2026-03-09T06:30:00Z")})
	f.always("GetSchedule", &carillonv1.GetScheduleResponse{Schedule: nightly()})
	f.always("ListSchedules", &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{nightly()}})
	f.always("PauseSchedule", &carillonv1.PauseScheduleResponse{Schedule: nightly()})
	f.always("ResumeSchedule", &carillonv1.ResumeScheduleResponse{Schedule: nightly()})
	f.always("DeleteSchedule", &carillonv1.DeleteScheduleResponse{})
	f.always("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: run})
	f.always("PreviewSchedule", &carillonv1.PreviewScheduleResponse{})
	f.always("SimulateSchedules", &carillonv1.SimulateSchedulesResponse{})
	f.always("ForecastLaunches", &carillonv1.ForecastLaunchesResponse{})
	f.always("ListScheduleEvents", &carillonv1.ListScheduleEventsResponse{})
	f.always("ListRevisions", &carillonv1.ListRevisionsResponse{})
	f.always("PutWorkflowVersion", &carillonv1.PutWorkflowVersionResponse{})
	f.always("GetWorkflowVersion", &carillonv1.GetWorkflowVersionResponse{WorkflowVersion: &carillonv1.WorkflowVersion{Dag: []byte("{}")}})
	f.always("ListWorkflowVersions", &carillonv1.ListWorkflowVersionsResponse{WorkflowVersions: []*carillonv1.WorkflowVersion{{WorkflowId: "report", Version: 3}}})
	f.always("DeployWorkflow", &carillonv1.DeployWorkflowResponse{})
	f.always("ShareWorkflow", &carillonv1.ShareWorkflowResponse{Share: &carillonv1.WorkflowShare{}})
	f.always("UnshareWorkflow", &carillonv1.UnshareWorkflowResponse{})
	f.always("ListWorkflowShares", &carillonv1.ListWorkflowSharesResponse{})
	f.always("CreateGrant", &carillonv1.CreateGrantResponse{Grant: adasGrant()})
	f.always("GetGrant", &carillonv1.GetGrantResponse{Grant: adasGrant()})
	f.always("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{adasGrant()}})
	f.always("RevokeGrant", &carillonv1.RevokeGrantResponse{Grant: adasGrant()})
	f.always("GetRun", &carillonv1.GetRunResponse{Run: run})
	f.always("ListRuns", &carillonv1.ListRunsResponse{Runs: []*carillonv1.Run{run}})
	f.always("ReportRun", &carillonv1.ReportRunResponse{Run: run})
	f.always("CancelRun", &carillonv1.CancelRunResponse{Run: run, Effect: "What happens next."})
	f.always("RetryRun", &carillonv1.RetryRunResponse{Run: run})
	f.always("ListWorkers", &carillonv1.ListWorkersResponse{})
	f.always("Resign", &carillonv1.ResignResponse{Leadership: &carillonv1.Leadership{Shard: 3, WorkerId: "wa", Epoch: 17}})
	return f
}

func pointer[T any](v T) *T { return &v }

func TestFlagsBecomeRequests(t *testing.T) {
	dir := t.TempDir()
	input, dag := filepath.Join(dir, "input.json"), filepath.Join(dir, "dag.json")
	writeFile(t, input, "{\"z\":1, \"a\":[2]}\n")
	writeFile(t, dag, `{"workflow_id":"report","version":3,"triggers":[]}`)

	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "an upsert without options sets nothing but what it must",
			args: []string{"schedule", "upsert", "--id", "nightly", "--workflow", "report", "--version", "3", "--user", "ada", "--cron", "@daily"},
			want: &carillonv1.UpsertScheduleRequest{ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada", CronExpr: pointer("@daily")},
		},
		{
			name: "every flag of an upsert has its field",
			args: []string{
				"schedule", "upsert", "--id", "a", "--workflow", "w", "--version", "1", "--user", "u", "--every", "90s", "--tz", "Asia/Tokyo",
				"--start-at", "2026-04-01T00:00:00+02:00", "--end-at", "2026-05-01T00:00:00Z", "--jitter", "1500ms", "--dst", "literal",
				"--overlap", "queue", "--overlap-key", "k", "--max-queued", "7", "--catchup", "spread", "--catchup-window", "2d",
				"--run-timeout", "2h", "--priority", "-5", "--input", "@" + input, "--label", "a=1", "--label", "b=x=y", "--paused",
				"--grant", "g", "--managed-by", "m", "--adopt", "--request-id", "r",
			},
			want: &carillonv1.UpsertScheduleRequest{
				ScheduleId: "a", WorkflowId: "w", Version: 1, UserId: "u", IntervalMs: pointer[uint32](90_000), Timezone: pointer("Asia/Tokyo"),
				StartAt: at("2026-03-31T22:00:00Z"), EndAt: at("2026-05-01T00:00:00Z"), JitterMs: pointer[uint32](1500), Dst: pointer("literal"),
				OverlapPolicy: pointer("queue"), OverlapKey: pointer("k"), MaxQueued: pointer[uint32](7),
				CatchupPolicy: pointer("spread"), CatchupWindowMs: pointer[uint32](172_800_000),
				RunTimeoutMs: pointer[uint32](7_200_000), Priority: pointer[int32](-5), Input: []byte("{\"z\":1, \"a\":[2]}"),
				Labels: map[string]string{"a": "1", "b": "x=y"}, Paused: pointer(true),
				ExecutionGrantId: "g", ManagedBy: "m", Adopt: true, RequestId: "r",
			},
		},
		{
			name: "the run timeout answers to its other spelling, and --paused=false is said",
			args: []string{"schedule", "upsert", "--at", "2026-04-01T00:00:00Z", "--timeout-run", "1m", "--paused=false", "--timeout", "3s"},
			want: &carillonv1.UpsertScheduleRequest{OnceAt: at("2026-04-01T00:00:00Z"), RunTimeoutMs: pointer[uint32](60_000), Paused: pointer(false)},
		},
		{
			name: "list takes all filters",
			args: []string{"schedule", "list", "--workflow", "w", "--user", "u", "--label", "k=v", "--state", "paused", "--managed-by", "m", "--limit", "7"},
			want: &carillonv1.ListSchedulesRequest{WorkflowId: "w", UserId: "u", Label: "k=v", State: pointer("paused"), ManagedBy: "m", PageSize: 7},
		},
		{
			name: "a pause ends at a time",
			args: []string{"schedule", "pause", "nightly", "--note", "why", "--until", "2026-03-09T00:00:00Z"},
			want: &carillonv1.PauseScheduleRequest{ScheduleId: "nightly", Note: "why", Until: at("2026-03-09T00:00:00Z")},
		},
		{
			name: "a pause ends after a duration",
			args: []string{"schedule", "pause", "nightly", "--until", "2h"},
			want: &carillonv1.PauseScheduleRequest{ScheduleId: "nightly", Until: at("2026-03-08T14:00:00Z")},
		},
		{
			name: "resume says why",
			args: []string{"schedule", "resume", "nightly", "--note", "done"},
			want: &carillonv1.ResumeScheduleRequest{ScheduleId: "nightly", Note: "done"},
		},
		{
			name: "trigger has input, policy and id of its own",
			args: []string{"schedule", "trigger", "nightly", "--input", `{"a":1}`, "--overlap", "allow", "--request-id", "r1"},
			want: &carillonv1.TriggerScheduleRequest{ScheduleId: "nightly", Input: []byte(`{"a":1}`), OverlapPolicy: pointer("allow"), RequestId: "r1"},
		},
		{
			name: "delete names the schedule",
			args: []string{"schedule", "delete", "nightly"},
			want: &carillonv1.DeleteScheduleRequest{ScheduleId: "nightly"},
		},
		{
			name: "events are asked for in pages",
			args: []string{"schedule", "events", "nightly", "--limit", "0"},
			want: &carillonv1.ListScheduleEventsRequest{ScheduleId: "nightly", PageSize: 200},
		},
		{
			name: "revisions are asked for in pages",
			args: []string{"schedule", "revisions", "nightly"},
			want: &carillonv1.ListRevisionsRequest{ScheduleId: "nightly", PageSize: 50},
		},
		{
			name: "a preview of a saved schedule has its window",
			args: []string{"preview", "--schedule", "nightly", "-n", "9", "--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z"},
			want: &carillonv1.PreviewScheduleRequest{ScheduleId: "nightly", PageSize: 9, From: at("2026-01-01T00:00:00Z"), To: at("2026-02-01T00:00:00Z")},
		},
		{
			name: "put sends the DAG byte for byte",
			args: []string{"workflow", "put", "report", "3", "-f", dag},
			want: &carillonv1.PutWorkflowVersionRequest{WorkflowId: "report", Version: 3, Dag: []byte(`{"workflow_id":"report","version":3,"triggers":[]}`)},
		},
		{
			name: "get asks for one version",
			args: []string{"workflow", "get", "report", "3"},
			want: &carillonv1.GetWorkflowVersionRequest{WorkflowId: "report", Version: 3},
		},
		{
			name: "get without a version lists them",
			args: []string{"workflow", "get", "report"},
			want: &carillonv1.ListWorkflowVersionsRequest{WorkflowId: "report", PageSize: 50},
		},
		{
			name: "put for one owner",
			args: []string{"workflow", "put", "report", "3", "-f", dag, "--user", "ada"},
			want: &carillonv1.PutWorkflowVersionRequest{WorkflowId: "report", Version: 3, UserId: "ada", Dag: []byte(`{"workflow_id":"report","version":3,"triggers":[]}`)},
		},
		{
			name: "get what an owner's runs load",
			args: []string{"workflow", "get", "report", "3", "--user", "ada"},
			want: &carillonv1.GetWorkflowVersionRequest{WorkflowId: "report", Version: 3, UserId: "ada"},
		},
		{
			name: "list what an owner's runs load",
			args: []string{"workflow", "list", "report", "--user", "ada"},
			want: &carillonv1.ListWorkflowVersionsRequest{WorkflowId: "report", UserId: "ada", PageSize: 50},
		},
		{
			name: "share with one owner",
			args: []string{"workflow", "share", "report", "--user", "ada"},
			want: &carillonv1.ShareWorkflowRequest{WorkflowId: "report", UserId: "ada"},
		},
		{
			name: "share with all owners",
			args: []string{"workflow", "share", "report", "--all-owners"},
			want: &carillonv1.ShareWorkflowRequest{WorkflowId: "report", AllOwners: true},
		},
		{
			name: "unshare",
			args: []string{"workflow", "unshare", "report", "--user", "ada"},
			want: &carillonv1.UnshareWorkflowRequest{WorkflowId: "report", UserId: "ada"},
		},
		{
			name: "shares",
			args: []string{"workflow", "shares", "report"},
			want: &carillonv1.ListWorkflowSharesRequest{WorkflowId: "report", PageSize: 50},
		},
		{
			name: "deploy reads workflow and version from the DAG",
			args: []string{"workflow", "deploy", "-f", dag, "--user", "ada"},
			want: &carillonv1.DeployWorkflowRequest{WorkflowId: "report", Version: 3, UserId: "ada", Dag: []byte(`{"workflow_id":"report","version":3,"triggers":[]}`)},
		},
		{
			name: "runs are filtered by everything, and back from now",
			args: []string{
				"run", "list", "--schedule", "s", "--workflow", "w", "--user", "u", "--status", "failed,SKIPPED", "--reason", "overlap",
				"--trigger", "manual", "--since", "2h", "--until", "2026-03-08T11:00:00Z", "--limit", "300",
			},
			want: &carillonv1.ListRunsRequest{
				ScheduleId: "s", WorkflowId: "w", UserId: "u", Status: []string{"FAILED", "SKIPPED"}, Reason: pointer("overlap"),
				Trigger: pointer("manual"), From: at("2026-03-08T10:00:00Z"), To: at("2026-03-08T11:00:00Z"), PageSize: 200,
			},
		},
		{
			name: "watch takes the same filters",
			args: []string{"run", "watch", "--schedule", "s", "--status", "failed", "--trigger", "retry"},
			want: &carillonv1.WatchRunsRequest{ScheduleId: "s", Status: []string{"FAILED"}, Trigger: pointer("retry")},
		},
		{
			name: "a report says how it went",
			args: []string{"run", "report", keyA, "failed", "--run-id", "r", "--error-code", "E", "--error-message", "m"},
			want: &carillonv1.ReportRunRequest{IdempotencyKey: keyA, Status: "FAILED", RunId: "r", ErrorCode: "E", ErrorMessage: "m"},
		},
		{
			name: "cancel says why",
			args: []string{"run", "cancel", keyA, "--note", "wrong"},
			want: &carillonv1.CancelRunRequest{IdempotencyKey: keyA, Note: "wrong"},
		},
		{
			name: "retry names its attempt",
			args: []string{"run", "retry", keyA, "--request-id", "r2"},
			want: &carillonv1.RetryRunRequest{IdempotencyKey: keyA, RequestId: "r2"},
		},
		{
			name: "retry takes an overlap policy of its own",
			args: []string{"run", "retry", keyA, "--overlap", "queue"},
			want: &carillonv1.RetryRunRequest{IdempotencyKey: keyA, OverlapPolicy: pointer("queue")},
		},
		{
			name: "resign is of the only shard, unless another is named",
			args: []string{"worker", "resign"},
			want: &carillonv1.ResignRequest{},
		},
		{
			name: "resign names a shard",
			args: []string{"worker", "resign", "--shard", "3"},
			want: &carillonv1.ResignRequest{Shard: 3},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := answering(t)
			got := f.run(t, tt.args...)
			if got.code != command.ExitOK {
				t.Fatalf("exit %d: %s", got.code, got.errs)
			}
			if got.errs != "" {
				t.Errorf("stderr: %s", got.errs)
			}
			if diff := cmp.Diff(tt.want, f.requests()[0], protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportTokenComesFromFlagOrEnvironment(t *testing.T) {
	f := answering(t)
	f.run(t, "run", "report", keyA, "STARTED")
	f.run(t, "run", "report", keyA, "STARTED", "--token", "t1")
	execute(t, surroundings{env: map[string]string{"CARILLON_SERVER": f.address, "CARILLON_REPORT_TOKEN": "t2"}}, "run", "report", keyA, "STARTED")
	var got []string
	for _, header := range f.headers {
		got = append(got, header.Get("authorization")...)
	}
	if diff := cmp.Diff([]string{"Bearer t1", "Bearer t2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefinitionFiles(t *testing.T) {
	want := &carillonv1.UpsertScheduleRequest{
		ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada", CronExpr: pointer("30 2 * * *"),
		OnceAt: nil, StartAt: at("2026-04-01T00:00:00Z"), Priority: pointer[int32](2), Labels: map[string]string{"team": "billing"},
		Input: []byte(`{"z":1,"a":12345678901234567890,"list":[1.50,"on",null,true]}`),
	}
	for _, tt := range []struct {
		name, file string
	}{
		{name: "JSON keeps its input raw", file: `{"schedule_id":"nightly","workflow_id":"report","version":3,"user_id":"ada","cron_expr":"30 2 * * *",
			"start_at":"2026-04-01T00:00:00Z","priority":2,"labels":{"team":"billing"},"input":{"z":1,"a":12345678901234567890,"list":[1.50,"on",null,true]}}`},
		{name: "YAML keeps order and digits", file: `
# the nightly report
schedule_id: nightly
workflow_id: report
version: 3
user_id: ada
cron_expr: 30 2 * * *
start_at: 2026-04-01T00:00:00Z
priority: 0x2
labels: {team: billing}
input:
  z: 1
  a: 12345678901234567890
  list: [1.50, "on", ~, true]
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := answering(t)
			got := execute(t, surroundings{in: tt.file, env: map[string]string{"CARILLON_SERVER": f.address}}, "schedule", "upsert", "-f", "-")
			if got.code != command.ExitOK {
				t.Fatalf("exit %d: %s", got.code, got.errs)
			}
			if diff := cmp.Diff(want, f.requests()[0], protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("flags replace single fields of the file", func(t *testing.T) {
		f := answering(t)
		path := filepath.Join(t.TempDir(), "s.yml")
		writeFile(t, path, "schedule_id: nightly\nversion: 3\nlabels: {a: b}\n")
		f.run(t, "schedule", "upsert", "-f", path, "--version", "4", "--label", "c=d", "--input", "[1]")
		want := &carillonv1.UpsertScheduleRequest{ScheduleId: "nightly", Version: 4, Labels: map[string]string{"a": "b", "c": "d"}, Input: []byte("[1]")}
		if diff := cmp.Diff(want, f.requests()[0], protocmp.Transform()); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
