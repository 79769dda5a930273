package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestFlagsBecomeRequests(t *testing.T) {
	dir := t.TempDir()
	input, dag := filepath.Join(dir, "input.json"), filepath.Join(dir, "dag.json")
	clitest.WriteFile(t, input, "{\"z\":1, \"a\":[2]}\n")
	clitest.WriteFile(t, dag, `{"workflow_id":"report","version":3,"triggers":[]}`)

	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "an upsert without options sets nothing but what it must",
			args: []string{"schedule", "upsert", "--id", "nightly", "--workflow", "report", "--version", "3", "--user", "ada", "--cron", "@daily"},
			want: &carillonv1.UpsertScheduleRequest{ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada", CronExpr: clitest.Pointer("@daily")},
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
				ScheduleId: "a", WorkflowId: "w", Version: 1, UserId: "u", IntervalMs: clitest.Pointer[uint32](90_000), Timezone: clitest.Pointer("Asia/Tokyo"),
				StartAt: clitest.Time("2026-03-31T22:00:00Z"), EndAt: clitest.Time("2026-05-01T00:00:00Z"), JitterMs: clitest.Pointer[uint32](1500), Dst: clitest.Pointer("literal"),
				OverlapPolicy: clitest.Pointer("queue"), OverlapKey: clitest.Pointer("k"), MaxQueued: clitest.Pointer[uint32](7),
				CatchupPolicy: clitest.Pointer("spread"), CatchupWindowMs: clitest.Pointer[uint32](172_800_000),
				RunTimeoutMs: clitest.Pointer[uint32](7_200_000), Priority: clitest.Pointer[int32](-5), Input: []byte("{\"z\":1, \"a\":[2]}"),
				Labels: map[string]string{"a": "1", "b": "x=y"}, Paused: clitest.Pointer(true),
				ExecutionGrantId: "g", ManagedBy: "m", Adopt: true, RequestId: "r",
			},
		},
		{
			name: "the run timeout answers to its other spelling, and --paused=false is said",
			args: []string{"schedule", "upsert", "--at", "2026-04-01T00:00:00Z", "--timeout-run", "1m", "--paused=false", "--timeout", "3s"},
			want: &carillonv1.UpsertScheduleRequest{OnceAt: clitest.Time("2026-04-01T00:00:00Z"), RunTimeoutMs: clitest.Pointer[uint32](60_000), Paused: clitest.Pointer(false)},
		},
		{
			name: "a consumer with a filter",
			args: []string{"schedule", "upsert", "--id", "c", "--consume", "orders", "--consume", "bills.*", "--max-events", "7", "--filter", `{"type": ["a"]}`},
			want: &carillonv1.UpsertScheduleRequest{ScheduleId: "c", Consume: &carillonv1.Consume{Topics: []string{"orders", "bills.*"}, MaxEvents: 7, Filter: []byte(`{"type": ["a"]}`)}},
		},
		{
			name: "list takes all filters",
			args: []string{"schedule", "list", "--workflow", "w", "--user", "u", "--label", "k=v", "--state", "paused", "--managed-by", "m", "--limit", "7"},
			want: &carillonv1.ListSchedulesRequest{WorkflowId: "w", UserId: "u", Label: "k=v", State: clitest.Pointer("paused"), ManagedBy: "m", PageSize: 7},
		},
		{
			name: "a pause ends at a time",
			args: []string{"schedule", "pause", "nightly", "--note", "why", "--until", "2026-03-09T00:00:00Z"},
			want: &carillonv1.PauseScheduleRequest{ScheduleId: "nightly", Note: "why", Until: clitest.Time("2026-03-09T00:00:00Z")},
		},
		{
			name: "a pause ends after a duration",
			args: []string{"schedule", "pause", "nightly", "--until", "2h"},
			want: &carillonv1.PauseScheduleRequest{ScheduleId: "nightly", Until: clitest.Time("2026-03-08T14:00:00Z")},
		},
		{
			name: "resume says why",
			args: []string{"schedule", "resume", "nightly", "--note", "done"},
			want: &carillonv1.ResumeScheduleRequest{ScheduleId: "nightly", Note: "done"},
		},
		{
			name: "trigger has input, policy and id of its own",
			args: []string{"schedule", "trigger", "nightly", "--input", `{"a":1}`, "--overlap", "allow", "--request-id", "r1"},
			want: &carillonv1.TriggerScheduleRequest{ScheduleId: "nightly", Input: []byte(`{"a":1}`), OverlapPolicy: clitest.Pointer("allow"), RequestId: "r1"},
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
			want: &carillonv1.PreviewScheduleRequest{ScheduleId: "nightly", PageSize: 9, From: clitest.Time("2026-01-01T00:00:00Z"), To: clitest.Time("2026-02-01T00:00:00Z")},
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
				ScheduleId: "s", WorkflowId: "w", UserId: "u", Status: []string{"FAILED", "SKIPPED"}, Reason: clitest.Pointer("overlap"),
				Trigger: clitest.Pointer("manual"), From: clitest.Time("2026-03-08T10:00:00Z"), To: clitest.Time("2026-03-08T11:00:00Z"), PageSize: 200,
			},
		},
		{
			name: "watch takes the same filters",
			args: []string{"run", "watch", "--schedule", "s", "--status", "failed", "--trigger", "retry"},
			want: &carillonv1.WatchRunsRequest{ScheduleId: "s", Status: []string{"FAILED"}, Trigger: clitest.Pointer("retry")},
		},
		{
			name: "a report says how it went",
			args: []string{"run", "report", clitest.KeyA, "failed", "--run-id", "r", "--error-code", "E", "--error-message", "m"},
			want: &carillonv1.ReportRunRequest{IdempotencyKey: clitest.KeyA, Status: "FAILED", RunId: "r", ErrorCode: "E", ErrorMessage: "m"},
		},
		{
			name: "cancel says why",
			args: []string{"run", "cancel", clitest.KeyA, "--note", "wrong"},
			want: &carillonv1.CancelRunRequest{IdempotencyKey: clitest.KeyA, Note: "wrong"},
		},
		{
			name: "a cancel of many takes its filter from flags and keys",
			args: []string{
				"run", "cancel", clitest.KeyA, clitest.KeyA, clitest.KeyB, "--schedule", "s", "--workflow", "w", "--user", "u",
				"--since", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z", "--note", "wrong",
			},
			want: &carillonv1.CancelRunsRequest{
				Filter: &carillonv1.OpenRunFilter{
					ScheduleId: "s", WorkflowId: "w", UserId: "u", From: clitest.Time("2026-03-01T00:00:00Z"), To: clitest.Time("2026-03-02T00:00:00Z"), Keys: []string{clitest.KeyA, clitest.KeyB},
				},
				Note: "wrong",
			},
		},
		{
			name: "a cancel of a queue names it",
			args: []string{"queue", "cancel", "gpu", "--note", "wrong"},
			want: &carillonv1.CancelRunsRequest{Filter: &carillonv1.OpenRunFilter{QueueId: "gpu"}, Note: "wrong"},
		},
		{
			name: "a pause may cancel what waits",
			args: []string{"queue", "pause", "gpu", "--cancel-waiting"},
			want: &carillonv1.PauseQueueRequest{QueueId: "gpu", CancelWaiting: true},
		},
		{
			name: "a redrive takes its filter from flags and keys",
			args: []string{
				"run", "redrive", clitest.KeyA, clitest.KeyA, clitest.KeyB, "--schedule", "s", "--workflow", "w", "--user", "u", "--reason", "timeout", "--error-code", "E", "--failure-class", "timeout",
				"--since", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z", "--renew", "--rate", "60", "--request-id", "r",
			},
			want: &carillonv1.RedriveRunsRequest{
				Filter: &carillonv1.DeadRunFilter{
					ScheduleId: "s", WorkflowId: "w", UserId: "u", Reason: clitest.Pointer("timeout"), ErrorCode: "E", FailureClass: clitest.Pointer("timeout"),
					From: clitest.Time("2026-03-01T00:00:00Z"), To: clitest.Time("2026-03-02T00:00:00Z"), Keys: []string{clitest.KeyA, clitest.KeyB},
				},
				Renew: true, RatePerMinute: clitest.Pointer[uint32](60), RequestId: "r",
			},
		},
		{
			name: "dead runs are listed by their error code and class",
			args: []string{"run", "list", "--dead", "--error-code", "E", "--failure-class", "logic", "--limit", "7"},
			want: &carillonv1.ListRunsRequest{Dead: clitest.Pointer(true), ErrorCode: "E", FailureClass: clitest.Pointer("logic"), PageSize: 7},
		},
		{
			name: "retry names its attempt",
			args: []string{"run", "retry", clitest.KeyA, "--request-id", "r2"},
			want: &carillonv1.RetryRunRequest{IdempotencyKey: clitest.KeyA, RequestId: "r2"},
		},
		{
			name: "retry takes an overlap policy of its own",
			args: []string{"run", "retry", clitest.KeyA, "--overlap", "queue"},
			want: &carillonv1.RetryRunRequest{IdempotencyKey: clitest.KeyA, OverlapPolicy: clitest.Pointer("queue")},
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
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}

func TestReportTokenComesFromFlagOrEnvironment(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	f.Run(t, "run", "report", clitest.KeyA, "STARTED")
	f.Run(t, "run", "report", clitest.KeyA, "STARTED", "--token", "t1")
	clitest.Run(t, clitest.Env{Vars: map[string]string{"CARILLON_SERVER": f.Address, "CARILLON_REPORT_TOKEN": "t2"}}, "run", "report", clitest.KeyA, "STARTED")
	var got []string
	for _, header := range f.Headers {
		got = append(got, header.Get("authorization")...)
	}
	if diff := cmp.Diff([]string{"Bearer t1", "Bearer t2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefinitionFiles(t *testing.T) {
	want := &carillonv1.UpsertScheduleRequest{
		ScheduleId: "nightly", WorkflowId: "report", Version: 3, UserId: "ada", CronExpr: clitest.Pointer("30 2 * * *"),
		OnceAt: nil, StartAt: clitest.Time("2026-04-01T00:00:00Z"), Priority: clitest.Pointer[int32](2), Labels: map[string]string{"team": "billing"},
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
			f := clitest.NewAnsweringServer(t)
			got := clitest.Run(t, clitest.Env{In: tt.file, Vars: map[string]string{"CARILLON_SERVER": f.Address}}, "schedule", "upsert", "-f", "-")
			if got.Code != command.ExitOK {
				t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
			}
			if diff := cmp.Diff(want, f.Requests()[0], protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("flags replace single fields of the file", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		path := filepath.Join(t.TempDir(), "s.yml")
		clitest.WriteFile(t, path, "schedule_id: nightly\nversion: 3\nlabels: {a: b}\n")
		f.Run(t, "schedule", "upsert", "-f", path, "--version", "4", "--label", "c=d", "--input", "[1]")
		want := &carillonv1.UpsertScheduleRequest{ScheduleId: "nightly", Version: 4, Labels: map[string]string{"a": "b", "c": "d"}, Input: []byte("[1]")}
		if diff := cmp.Diff(want, f.Requests()[0], protocmp.Transform()); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
}
