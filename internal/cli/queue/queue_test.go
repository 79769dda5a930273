package queue_test

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestQueueFlagsBecomeRequests(t *testing.T) {
	dir := t.TempDir()
	definition, job, jobs := filepath.Join(dir, "gpu.yaml"), filepath.Join(dir, "job.json"), filepath.Join(dir, "jobs.jsonl")
	clitest.WriteFile(t, definition, "queue_id: gpu\nuser_id: ada\nmax_in_flight: 7\n")
	clitest.WriteFile(t, job, `{"workflow_id": "resize", "version": 3, "input": {"z":1, "a":[2]}}`)
	unique := filepath.Join(dir, "unique.json")
	clitest.WriteFile(t, unique, `{"schedule_id": "nightly", "unique": {"key": "doc 7", "scope": "waiting"}}`)
	clitest.WriteFile(t, jobs, `{"workflow_id": "resize", "version": 3, "input": {"n":1}}
{"schedule_id": "nightly", "priority": 4}
`)
	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "every flag of a queue has its field",
			args: []string{
				"queue", "upsert", "gpu", "--user", "ada", "--shared", "--max-in-flight", "2", "--max-waiting", "0", "--run-timeout", "2h",
				"--backpressure", "run", "--label", "team=x", "--managed-by", "git",
				"--webhook", "billing", "--webhook-event", "run.failed", "--webhook-event", "run.retrying",
			},
			want: &carillonv1.UpsertQueueRequest{
				QueueId: "gpu", UserId: "ada", Shared: true, MaxInFlight: clitest.Pointer[uint32](2), MaxWaiting: clitest.Pointer[uint32](0), RunTimeoutMs: 7_200_000,
				Backpressure: clitest.Pointer("run"), Labels: map[string]string{"team": "x"}, ManagedBy: "git",
				Webhook: "billing", WebhookEvents: []string{"run.failed", "run.retrying"},
			},
		},
		{
			name: "flags replace fields of a definition file",
			args: []string{"queue", "upsert", "-f", definition, "--max-in-flight", "3"},
			want: &carillonv1.UpsertQueueRequest{QueueId: "gpu", UserId: "ada", MaxInFlight: clitest.Pointer[uint32](3)},
		},
		{
			name: "every flag of a simulation has its field",
			args: []string{
				"queue", "simulate", "gpu", "--max-in-flight", "2", "--rate", "5/1m", "--promote-after", "1h", "--resumed", "--limit", "gpu:3", "--limit", "customer=a:b:0",
				"--backlog", "none", "--arrive-every", "30s", "--arrive-runs", "2", "--arrive-random", "--arrive-limit", "customer=x", "--duration", "2m", "--p95", "10m", "--for", "8h", "--seed", "7",
			},
			want: &carillonv1.SimulateQueueRequest{
				QueueId: "gpu", Backlog: "none", ForMs: clitest.Pointer[uint32](28_800_000), Seed: 7, Compare: true,
				Definition: &carillonv1.ProposedQueue{
					MaxInFlight: clitest.Pointer[uint32](2), Rate: &carillonv1.Rate{Starts: 5, PerMs: 60_000}, PromoteAfterMs: clitest.Pointer[uint32](3_600_000), Resumed: true,
				},
				Limits:    []*carillonv1.ProposedLimit{{Limit: "gpu", MaxInFlight: clitest.Pointer[uint32](3)}, {Limit: "customer=a:b", MaxInFlight: clitest.Pointer[uint32](0)}},
				Arrivals:  []*carillonv1.SimulatedArrivals{{EveryMs: 30_000, Runs: clitest.Pointer[uint32](2), Random: true, Limits: []string{"customer=x"}}},
				Durations: []*carillonv1.SimulatedDuration{{Run: &carillonv1.AssumedRun{DurationMs: clitest.Pointer[uint32](120_000), P95Ms: 600_000}}},
			},
		},
		{
			name: "a simulation of a queue as it is compares nothing",
			args: []string{"queue", "simulate", "gpu"},
			want: &carillonv1.SimulateQueueRequest{QueueId: "gpu"},
		},
		{
			name: "a queue is asked for by its id",
			args: []string{"queue", "get", "gpu"},
			want: &carillonv1.GetQueueRequest{QueueId: "gpu"},
		},
		{
			name: "a list may be of one owner",
			args: []string{"queues", "list", "--user", "ada", "--limit", "7"},
			want: &carillonv1.ListQueuesRequest{UserId: "ada", PageSize: 7},
		},
		{
			name: "a pause has a note and an end",
			args: []string{"queue", "pause", "gpu", "--note", "driver", "--until", "2h"},
			want: &carillonv1.PauseQueueRequest{QueueId: "gpu", Note: "driver", Until: clitest.Time("2026-03-08T14:00:00Z")},
		},
		{
			name: "a queue is resumed",
			args: []string{"queue", "resume", "gpu", "--note", "done"},
			want: &carillonv1.ResumeQueueRequest{QueueId: "gpu", Note: "done"},
		},
		{
			name: "a queue is closed",
			args: []string{"queue", "close", "gpu", "--note", "moving"},
			want: &carillonv1.CloseQueueRequest{QueueId: "gpu", Note: "moving"},
		},
		{
			name: "a queue is opened",
			args: []string{"queue", "open", "gpu"},
			want: &carillonv1.OpenQueueRequest{QueueId: "gpu"},
		},
		{
			name: "a deletion may be forced",
			args: []string{"queue", "delete", "gpu", "--force", "--note", "wrong"},
			want: &carillonv1.DeleteQueueRequest{QueueId: "gpu", Force: true, Note: "wrong"},
		},
		{
			name: "the log is read",
			args: []string{"queue", "events", "gpu", "--limit", "3"},
			want: &carillonv1.ListQueueEventsRequest{QueueId: "gpu", PageSize: 3},
		},
		{
			name: "waiting runs are read",
			args: []string{"queue", "waiting", "gpu"},
			want: &carillonv1.ListWaitingRequest{QueueId: "gpu", PageSize: 50},
		},
		{
			name: "every flag of an entry has its field",
			args: []string{
				"enqueue", "gpu", "--workflow", "resize", "--version", "3", "--grant", "g", "--user", "ada", "--input", `{"n":1}`, "--priority", "-5", "--position", "2",
				"--at", "2026-04-01T00:00:00Z", "--max-attempts", "4", "--request-id", "r", "--webhook", "billing",
			},
			want: &carillonv1.EnqueueRunRequest{
				QueueId: "gpu", WorkflowId: "resize", Version: 3, ExecutionGrantId: "g", UserId: "ada", Input: []byte(`{"n":1}`), Priority: clitest.Pointer[int32](-5),
				Position: clitest.Pointer[uint32](2), RunAt: clitest.Time("2026-04-01T00:00:00Z"), MaxAttempts: clitest.Pointer[uint32](4), RequestId: "r", Webhook: "billing",
			},
		},
		{
			name: "every flag of a unique key has its field",
			args: []string{
				"enqueue", "gpu", "--schedule", "nightly", "--unique", "doc 7", "--unique-scope", "period", "--unique-period", "1h", "--on-duplicate", "replace",
				"--debounce", "5s", "--debounce-max", "1m",
			},
			want: &carillonv1.EnqueueRunRequest{QueueId: "gpu", ScheduleId: "nightly", Unique: &carillonv1.UniqueKey{
				Key: "doc 7", Scope: clitest.Pointer("period"), PeriodMs: 3_600_000, OnDuplicate: clitest.Pointer("replace"),
				Debounce: &carillonv1.Debounce{QuietMs: 5000, MaxMs: 60_000},
			}},
		},
		{
			name: "flags replace fields of the unique key in a file",
			args: []string{"enqueue", "gpu", "-f", unique, "--on-duplicate", "refuse"},
			want: &carillonv1.EnqueueRunRequest{QueueId: "gpu", ScheduleId: "nightly", Unique: &carillonv1.UniqueKey{
				Key: "doc 7", Scope: clitest.Pointer("waiting"), OnDuplicate: clitest.Pointer("refuse"),
			}},
		},
		{
			name: "an entry of a schedule goes next, after a delay",
			args: []string{"enqueue", "gpu", "--schedule", "nightly", "--next", "--in", "90s"},
			want: &carillonv1.EnqueueRunRequest{QueueId: "gpu", ScheduleId: "nightly", Next: true, DelayMs: clitest.Pointer[uint32](90_000)},
		},
		{
			name: "flags replace fields of a job in a file",
			args: []string{"enqueue", "gpu", "-f", job, "--version", "4"},
			want: &carillonv1.EnqueueRunRequest{QueueId: "gpu", WorkflowId: "resize", Version: 4, Input: []byte(`{"z":1, "a":[2]}`)},
		},
		{
			name: "several jobs in a file are a batch",
			args: []string{"enqueue", "gpu", "-f", jobs, "--user", "ada", "--request-id", "r", "--max-attempts", "2", "--expires", "1h"},
			want: &carillonv1.EnqueueRunsRequest{QueueId: "gpu", UserId: "ada", RequestId: "r", Runs: []*carillonv1.NewQueuedRun{
				{WorkflowId: "resize", Version: 3, Input: []byte(`{"n":1}`), MaxAttempts: clitest.Pointer[uint32](2), ExpiresMs: clitest.Pointer[uint32](3_600_000)},
				{ScheduleId: "nightly", Priority: clitest.Pointer[int32](4), MaxAttempts: clitest.Pointer[uint32](2), ExpiresMs: clitest.Pointer[uint32](3_600_000)},
			}},
		},
		{
			name: "a waiting run is changed",
			args: []string{"run", "update", "5f0c5a3d", "--input", `{}`, "--priority", "9", "--at", "2h"},
			want: &carillonv1.UpdateRunRequest{IdempotencyKey: "5f0c5a3d", Input: []byte(`{}`), Priority: clitest.Pointer[int32](9), RunAt: clitest.Time("2026-03-08T14:00:00Z")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}

func TestAQueueIsShownWithItsRuns(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	q := &carillonv1.Queue{
		QueueId: "gpu", UserId: "ada", MaxInFlight: 2, InFlight: 1, Waiting: 3, Delayed: 4, Revision: 5, Paused: true, PauseNote: "driver", Closed: true,
		OldestEnqueuedAt: clitest.Time("2026-03-08T11:59:00Z"),
	}
	f.Answer("GetQueue", &carillonv1.GetQueueResponse{Queue: q})
	f.Answer("ListQueues", &carillonv1.ListQueuesResponse{Queues: []*carillonv1.Queue{q}})
	f.Answer("ListWaiting", &carillonv1.ListWaitingResponse{Runs: []*carillonv1.Run{
		{IdempotencyKey: clitest.KeyA, WorkflowId: "resize", UserId: "ada", QueueState: "waiting", Position: 1, Priority: 7},
		{IdempotencyKey: clitest.KeyB, WorkflowId: "resize", UserId: "ada", QueueState: "delayed", FireAt: clitest.Time("2026-03-08T13:00:00Z")},
	}})
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"queue", "get", "gpu"}, []string{"paused, closed", "1 of 2", "driver", "any number", "1m ago"}},
		{[]string{"queue", "list"}, []string{"gpu", "ada", "paused, closed", "1 of 2"}},
		{[]string{"queue", "waiting", "gpu"}, []string{clitest.KeyA[:8], "in turn", "in 1h"}},
	} {
		got := f.Run(t, c.args...)
		for _, want := range c.want {
			if !strings.Contains(got.Out, want) {
				t.Errorf("%v shows no %q:\n%s%s", c.args, want, got.Out, got.ErrOut)
			}
		}
	}
}
