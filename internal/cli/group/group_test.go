package group_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestGroupFlagsBecomeRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte("{\"schedule_id\":\"s\"}\n{\"workflow_id\":\"w\",\"version\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := []*carillonv1.NewQueuedRun{{ScheduleId: "s"}, {WorkflowId: "w", Version: 2}}
	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "every flag of a group has its field",
			args: []string{
				"group", "create", "night", "--queue", "gpu", "--user", "ada", "--mode", "sequential", "--on-failure", "continue", "--sealed", "-f", file,
				"--on-complete", `{"schedule_id":"report"}`, "--webhook", "billing",
			},
			want: &carillonv1.CreateGroupRequest{
				GroupId: "night", QueueId: "gpu", UserId: "ada", Mode: clitest.Pointer("sequential"), OnFailure: clitest.Pointer("continue"), Sealed: true, Runs: runs,
				OnComplete: &carillonv1.NewQueuedRun{ScheduleId: "report"}, Webhook: "billing",
			},
		},
		{
			name: "members are added",
			args: []string{"group", "add", "night", "-f", file, "--request-id", "two"},
			want: &carillonv1.AddToGroupRequest{GroupId: "night", Runs: runs, RequestId: "two"},
		},
		{name: "a group is sealed", args: []string{"group", "seal", "night"}, want: &carillonv1.SealGroupRequest{GroupId: "night"}},
		{name: "a group is shown", args: []string{"group", "get", "night"}, want: &carillonv1.GetGroupRequest{GroupId: "night"}},
		{
			name: "a list is narrowed",
			args: []string{"groups", "list", "--queue", "gpu", "--user", "ada", "--state", "RUNNING", "--limit", "7"},
			want: &carillonv1.ListGroupsRequest{QueueId: "gpu", UserId: "ada", State: "RUNNING", PageSize: 7},
		},
		{name: "a group is cancelled", args: []string{"group", "cancel", "night"}, want: &carillonv1.CancelGroupRequest{GroupId: "night"}},
		{
			name: "a group is retried",
			args: []string{"group", "retry", "night", "night-2", "--renew"},
			want: &carillonv1.RetryGroupRequest{GroupId: "night", NewGroupId: "night-2", Renew: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}

func TestAGroupIsShownWithItsMembersCounted(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	got := f.Run(t, "group", "get", "night")
	for _, want := range []string{"RUNNING", "gpu", "members", "3"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("it does not say %q:\n%s", want, got.Out)
		}
	}
}
