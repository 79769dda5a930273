package cli_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// showing is a fake with something of everything to show.
func showing(t *testing.T) *clitest.Server {
	t.Helper()
	f := clitest.NewAnsweringServer(t)
	paused, byHand := clitest.Schedule(), clitest.Schedule()
	paused.ScheduleId, paused.Paused, paused.PauseNote, paused.PausedBy = "poll", true, "moving\nhouse \x1b[31m", "bob"
	paused.CronExpr, paused.IntervalMs, paused.NextRunAt, paused.PausedUntil = "", 90_000, nil, clitest.Time("2026-03-10T12:00:00Z")
	byHand.ScheduleId, byHand.CronExpr, byHand.NextRunAt, byHand.LastRunAt = "once", "", nil, nil
	running := clitest.FailedRun()
	running.IdempotencyKey, running.Status, running.Reason, running.CompletedAt = clitest.KeyB, "STARTED", "", nil
	fires := []*carillonv1.Fire{
		{RunAt: clitest.Time("2026-03-09T06:30:00Z"), FireAt: clitest.Time("2026-03-09T06:30:01.25Z"), Local: "2026-03-09T02:30:00-04:00 EDT"},
		{RunAt: clitest.Time("2026-03-10T06:30:00Z"), FireAt: clitest.Time("2026-03-10T06:29:58Z"), Local: "2026-03-10T02:30:00-04:00 EDT", Note: clitest.Pointer("a note")},
	}
	f.Answer("GetSchedule", &carillonv1.GetScheduleResponse{Schedule: clitest.Schedule(), Preview: fires})
	f.Answer("ListSchedules", &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{clitest.Schedule(), paused, byHand}, NextPageToken: "more"})
	f.Answer("PauseSchedule", &carillonv1.PauseScheduleResponse{Schedule: paused})
	f.Answer("PreviewSchedule", &carillonv1.PreviewScheduleResponse{Fires: fires})
	f.Answer("ListRuns", &carillonv1.ListRunsResponse{Runs: []*carillonv1.Run{clitest.FailedRun(), running}})
	f.Answer("ReportRun", &carillonv1.ReportRunResponse{Run: clitest.FailedRun()})
	f.Answer("ListScheduleEvents", &carillonv1.ListScheduleEventsResponse{Events: []*carillonv1.ScheduleEvent{
		{Time: clitest.Time("2026-03-08T11:00:00Z"), Kind: "missed", From: clitest.Time("2026-03-08T07:00:00Z"), To: clitest.Time("2026-03-08T09:00:00Z"), Count: 3, Reason: "missed", Revision: 4},
		{Time: clitest.Time("2026-03-08T10:00:00Z"), Kind: "paused", Actor: "bob", Note: "moving", Revision: 4},
	}})
	f.Answer("ListRevisions", &carillonv1.ListRevisionsResponse{Revisions: []*carillonv1.ScheduleRevision{
		{Revision: 4, CreatedAt: clitest.Time("2026-03-01T09:00:00Z"), ChangedBy: "ada", Definition: &carillonv1.ScheduleDefinition{
			ScheduleId: "nightly", WorkflowId: "report", Version: 3, CronExpr: "30 2 * * *", Timezone: "UTC", OverlapPolicy: "skip", CatchupPolicy: "none",
		}},
	}})
	stored := &carillonv1.WorkflowVersion{
		WorkflowId: "report", Version: 3, Sha256: strings.Repeat("ab", 32), CreatedAt: clitest.Time("2026-03-01T09:00:00Z"),
		Dag: []byte(`{"version": 3, "workflow_id": "report", "big": 12345678901234567890}`),
	}
	f.Answer("GetWorkflowVersion", &carillonv1.GetWorkflowVersionResponse{WorkflowVersion: stored})
	listed := proto.CloneOf(stored)
	listed.Dag = nil
	f.Answer("PutWorkflowVersion", &carillonv1.PutWorkflowVersionResponse{WorkflowVersion: listed})
	own := proto.CloneOf(listed)
	own.UserId = "ada"
	f.Answer("ListWorkflowVersions", &carillonv1.ListWorkflowVersionsResponse{WorkflowVersions: []*carillonv1.WorkflowVersion{own, listed}})
	f.Answer("ShareWorkflow", &carillonv1.ShareWorkflowResponse{Share: &carillonv1.WorkflowShare{WorkflowId: "report", UserId: "ada"}})
	f.Answer("UnshareWorkflow", &carillonv1.UnshareWorkflowResponse{SharedWithAllOwners: true})
	f.Answer("ListWorkflowShares", &carillonv1.ListWorkflowSharesResponse{Shares: []*carillonv1.WorkflowShare{
		{WorkflowId: "report", AllOwners: true, GivenBy: "carillon migrate", GivenAt: clitest.Time("2026-03-01T09:00:00Z")},
		{WorkflowId: "report", UserId: "ada", GivenBy: "ci", GivenAt: clitest.Time("2026-03-01T09:00:00Z")},
	}})
	led := []*carillonv1.Leadership{
		{Shard: 0, WorkerId: "wa", Epoch: 17, ExpiresAt: clitest.Time("2026-03-08T12:00:08Z"), LockHeld: true},
		{Shard: 1, WorkerId: "wb", Epoch: 12, ExpiresAt: clitest.Time("2026-03-08T12:00:09Z"), AskedToResign: true},
		{Shard: 2, WorkerId: "wc", Epoch: 9, ExpiresAt: clitest.Time("2026-03-08T12:00:03Z"), LockHeld: true},
		{Shard: 3, Epoch: 16, ExpiresAt: clitest.Time("2026-03-08T11:59:00Z"), Expired: true},
	}
	f.Answer("ListWorkers", &carillonv1.ListWorkersResponse{Shards: 4, Leaderships: led, Workers: []*carillonv1.Worker{
		{WorkerId: "wa", Host: "db1:4711", StartedAt: clitest.Time("2026-03-08T10:00:00Z"), SeenAt: clitest.Time("2026-03-08T12:00:00Z"), Leads: led[:1], Version: "v1.2.0", Roles: "worker,launcher"},
		{WorkerId: "wb", Host: "db2:17", Version: "v1.2.0", Roles: "worker", Unhealthy: "the launcher at 10.0.0.5:9090 does not answer", StartedAt: clitest.Time("2026-03-07T12:00:00Z"), SeenAt: clitest.Time("2026-03-08T11:59:30Z"), Leads: led[1:2]},
	}})
	f.Answer("ListProcesses", &carillonv1.ListProcessesResponse{Processes: []*carillonv1.Process{
		{ProcessId: "pl", Host: "db3:99", Version: "v1.3.0", Roles: "registrar", StartedAt: clitest.Time("2026-03-08T11:00:00Z"), SeenAt: clitest.Time("2026-03-08T11:59:55Z")},
		{ProcessId: "pm", Host: "db3:100", Version: "v1.2.0", Roles: "launcher", StartedAt: clitest.Time("2026-03-08T11:00:00Z"), SeenAt: clitest.Time("2026-03-08T11:59:59Z"), Unhealthy: "cannot take the presence lock: too many connections"},
		{ProcessId: "wa", Host: "db1:4711", Version: "v1.2.0", Roles: "worker,launcher", StartedAt: clitest.Time("2026-03-08T10:00:00Z"), SeenAt: clitest.Time("2026-03-08T12:00:00Z")},
	}})
	f.Answer("ListLeaderTerms", &carillonv1.ListLeaderTermsResponse{Terms: []*carillonv1.LeaderTerm{
		{Shard: 0, Epoch: 17, WorkerId: "wa", Host: "db1:4711", StartedAt: clitest.Time("2026-03-08T11:50:43Z"), RenewedAt: clitest.Time("2026-03-08T12:00:00Z")},
		{Shard: 3, Epoch: 16, WorkerId: "wc", Host: "db2:18", StartedAt: clitest.Time("2026-03-08T11:00:00Z"), RenewedAt: clitest.Time("2026-03-08T11:58:50Z"), Expired: true},
		{Shard: 0, Epoch: 15, WorkerId: "wb", Host: "db2:17", StartedAt: clitest.Time("2026-03-08T10:00:00Z"), EndedAt: clitest.Time("2026-03-08T11:50:32Z"), EndReason: "database_unreachable", EndDetail: "connection refused"},
		{Shard: 0, Epoch: 14, WorkerId: "wa", Host: "db1:4711", StartedAt: clitest.Time("2026-03-08T09:00:00Z"), EndedAt: clitest.Time("2026-03-08T09:59:59.9Z"), EndReason: "stopped"},
	}})
	f.Changes = []*carillonv1.WatchRunsResponse{{Run: running}, {Run: clitest.FailedRun()}}
	return f
}

func TestWhatPeopleSee(t *testing.T) {
	dag := filepath.Join(t.TempDir(), "dag.json")
	clitest.WriteFile(t, dag, `{}`)
	for _, args := range [][]string{
		{"schedule", "upsert"},
		{"schedule", "get", "nightly"},
		{"schedule", "list", "--limit", "3"},
		{"schedule", "pause", "poll"},
		{"schedule", "resume", "nightly"},
		{"schedule", "delete", "nightly"},
		{"schedule", "trigger", "nightly"},
		{"grant", "create", "--id", "ada-reports"},
		{"grant", "get", "ada-reports"},
		{"grant", "list"},
		{"grant", "revoke", "ada-reports"},
		{"schedule", "events", "nightly"},
		{"schedule", "revisions", "nightly"},
		{"workflow", "put", "report", "3", "-f", dag},
		{"workflow", "get", "report", "3"},
		{"workflow", "list", "report"},
		{"workflow", "share", "report", "--user", "ada"},
		{"workflow", "unshare", "report", "--user", "ada"},
		{"workflow", "shares", "report"},
		{"run", "list"},
		{"run", "get", clitest.KeyA},
		{"run", "watch"},
		{"run", "report", clitest.KeyA, "SUCCESS"},
		{"run", "cancel", clitest.KeyA},
		{"preview", "--schedule", "nightly"},
		{"worker", "list"},
		{"worker", "processes"},
		{"worker", "terms"},
		{"worker", "resign", "--shard", "3"},
	} {
		name := args[0] + "_" + strings.TrimLeft(args[1], "-")
		t.Run(name, func(t *testing.T) {
			f := showing(t)
			got := f.Run(t, args...)
			if got.Code != command.ExitOK || got.ErrOut != "" {
				t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
			}
			clitest.Golden(t, name, got.Out)
		})
	}
}

func TestWhatProgramsSee(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{name: "schedule_get_json", args: []string{"schedule", "get", "nightly", "-o", "json"}},
		{name: "schedule_get_yaml", args: []string{"schedule", "get", "nightly", "-o", "yaml"}},
		{name: "schedule_upsert_json", args: []string{"schedule", "upsert", "-o", "json"}},
		{name: "workflow_get_json", args: []string{"workflow", "get", "report", "3", "-o", "json"}},
		{name: "run_watch_json", args: []string{"run", "watch", "-o", "json"}},
		{name: "preview_schedule_json", args: []string{"preview", "--schedule", "nightly", "-o", "json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := showing(t).Run(t, tt.args...)
			if got.Code != command.ExitOK || got.ErrOut != "" {
				t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
			}
			clitest.Golden(t, tt.name, got.Out)
		})
	}
}

func TestDAGComesOutByteForByte(t *testing.T) {
	got := showing(t).Run(t, "workflow", "get", "report", "3", "--dag")
	if want := `{"version": 3, "workflow_id": "report", "big": 12345678901234567890}`; got.Out != want {
		t.Errorf("got %q", got.Out)
	}
}

func TestColoursOnlyWhereTheyAreWanted(t *testing.T) {
	t.Setenv("FORCE_COLOR", "")
	f := showing(t)
	for _, args := range [][]string{{"schedule", "list", "--limit", "3"}, {"run", "list"}, {"run", "watch"}} {
		args = append(args, "--server", f.Address)
		plain, coloured := clitest.Run(t, clitest.Env{}, args...), clitest.Run(t, clitest.Env{Color: true}, args...)
		if strings.Contains(plain.Out, "\x1b") {
			t.Errorf("%v: colours without a terminal: %q", args, plain.Out)
		}
		if !strings.Contains(coloured.Out, "\x1b[") {
			t.Errorf("%v: no colours on a terminal: %q", args, coloured.Out)
		}
		if strings.Contains(coloured.Out, "\x1b[31mm") || strings.Contains(plain.Out, "house \x1b") {
			t.Errorf("%v: a note steers the terminal: %q", args, coloured.Out)
		}
	}
}

func TestListsFollowPagesUpToTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name      string
		stored    int
		args      []string
		want      int
		wantSizes []uint32
		wantMore  bool
	}{
		{name: "all of them", stored: 450, args: []string{"--limit", "0"}, want: 450, wantSizes: []uint32{200, 200, 200}},
		{name: "fifty by default", stored: 120, want: 50, wantSizes: []uint32{50}, wantMore: true},
		{name: "a limit over several pages", stored: 450, args: []string{"--limit", "201"}, want: 201, wantSizes: []uint32{200, 1}, wantMore: true},
		{name: "fewer than the limit", stored: 3, want: 3, wantSizes: []uint32{50}},
		{name: "none", stored: 0, want: 0, wantSizes: []uint32{50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			f.Answers["ListSchedules"] = func(m proto.Message) (proto.Message, error) {
				req, resp := m.(*carillonv1.ListSchedulesRequest), &carillonv1.ListSchedulesResponse{}
				var from int
				if token := req.GetPageToken(); token != "" {
					if _, err := fmt.Sscanf(token, "after-%d", &from); err != nil {
						return nil, err
					}
				}
				for i := from; i < min(from+int(req.GetPageSize()), tt.stored); i++ {
					resp.Schedules = append(resp.Schedules, &carillonv1.Schedule{ScheduleId: fmt.Sprintf("s%04d", i)})
				}
				if end := from + len(resp.GetSchedules()); end < tt.stored {
					resp.NextPageToken = fmt.Sprintf("after-%d", end)
				}
				return resp, nil
			}
			got := f.Run(t, append([]string{"schedule", "list", "-o", "json"}, tt.args...)...)
			var document struct {
				Schedules []struct {
					ID string `json:"schedule_id"`
				} `json:"schedules"`
				Next string `json:"next_page_token"`
			}
			if err := json.Unmarshal([]byte(got.Out), &document); err != nil {
				t.Fatalf("%v in %s%s", err, got.Out, got.ErrOut)
			}
			for i, s := range document.Schedules {
				if want := fmt.Sprintf("s%04d", i); s.ID != want {
					t.Fatalf("entry %d is %s, want %s", i, s.ID, want)
				}
			}
			var sizes []uint32
			for _, req := range f.Requests() {
				sizes = append(sizes, req.(*carillonv1.ListSchedulesRequest).GetPageSize())
			}
			if len(document.Schedules) != tt.want || (document.Next != "") != tt.wantMore {
				t.Errorf("%d entries, want %d; next %q", len(document.Schedules), tt.want, document.Next)
			}
			if diff := cmp.Diff(tt.wantSizes, sizes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEndOfAStreamIsSaid(t *testing.T) {
	f := showing(t)
	f.StreamError = status.Error(codes.Unavailable, "the server is going down")
	got := f.Run(t, "run", "watch", "-o", "json")
	if lines := strings.Count(got.Out, "\n"); got.Code != command.ExitFailed || lines != 2 || got.ErrOut != "carillon: the server is going down\n" {
		t.Errorf("exit %d, %d lines, %s", got.Code, lines, got.ErrOut)
	}
}

func TestWideTablesHaveMoreColumns(t *testing.T) {
	f := showing(t)
	for _, tt := range []struct {
		args []string
		more string
	}{
		{[]string{"schedule", "list", "--limit", "3"}, "MANAGED BY"},
		{[]string{"run", "list"}, clitest.KeyB},
		{[]string{"schedule", "revisions", "nightly"}, "RUN TIMEOUT"},
		{[]string{"worker", "list"}, "UNHEALTHY"},
		{[]string{"grant", "list"}, "REVOKE NOTE"},
		{[]string{"schedule", "events", "nightly"}, "COUNT"},
		{[]string{"workflow", "list", "report"}, strings.Repeat("ab", 32)},
		{[]string{"audit", "list"}, "OWNER"},
		{[]string{"backfill", "list"}, "STATE NOTE"},
		{[]string{"alert", "list"}, "DEADLINE"},
		{[]string{"alert", "deliveries"}, "ANSWER"},
		{[]string{"simulate", "--every", "1m"}, "FIRES AT"},
	} {
		f.Answer("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{{GrantId: "g"}}})
		f.Answer("ListAudit", &carillonv1.ListAuditResponse{Entries: []*carillonv1.AuditEntry{{Subject: "ada"}}})
		f.Answer("ListBackfills", &carillonv1.ListBackfillsResponse{Backfills: []*carillonv1.Backfill{{BackfillId: "b"}}})
		f.Answer("ListAlerts", &carillonv1.ListAlertsResponse{Alerts: []*carillonv1.Alert{{AlertId: "a"}}})
		f.Answer("ListAlertDeliveries", &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{{DeliveryId: "d"}}})
		f.Answer("SimulateSchedules", &carillonv1.SimulateSchedulesResponse{Slots: []*carillonv1.SimulatedSlot{{Status: "SUCCESS"}}})
		narrow, wide := f.Run(t, tt.args...), f.Run(t, append(tt.args, "-o", "wide")...)
		if strings.Contains(narrow.Out, tt.more) || !strings.Contains(wide.Out, tt.more) {
			t.Errorf("%v: %q is to be in the wide table alone:\n%s\n%s", tt.args, tt.more, narrow.Out, wide.Out)
		}
	}
}
