package overlap_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestOverlapFlagsBecomeRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "a group is asked for by its key and owner",
			args: []string{"overlap", "get", "wf", "--user", "ada"},
			want: &carillonv1.GetOverlapGroupRequest{OverlapKey: "wf", UserId: "ada"},
		},
		{
			name: "a list may be of one owner",
			args: []string{"overlap", "list", "--user", "ada", "--limit", "7"},
			want: &carillonv1.ListOverlapGroupsRequest{UserId: "ada", PageSize: 7},
		},
		{
			name: "a start may be repeated",
			args: []string{"overlap", "run", "wf", "--user", "ada", "--request-id", "r"},
			want: &carillonv1.RunOverlapGroupRequest{OverlapKey: "wf", UserId: "ada", RequestId: "r"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}

func TestAnOverlapGroupIsShown(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	group := &carillonv1.OverlapGroup{
		OverlapKey: "wf", UserId: "ada", WorkflowId: "sheet", Status: "running", Issue: "poll fails",
		Schedules: []*carillonv1.OverlapSchedule{{ScheduleId: "poll", Words: "every 5 minutes", OverlapPolicy: "coalesce", Paused: true}},
		Running:   []*carillonv1.Run{{IdempotencyKey: clitest.KeyA, ScheduleId: "poll", Status: "STARTED"}},
		Waiting:   []*carillonv1.WaitingOverlapRun{{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyB, ScheduleId: "chat"}, Why: "after the poll"}},
		Recent:    []*carillonv1.OverlapActivity{{ScheduleId: "poll", IdempotencyKey: clitest.KeyB, Status: "FAILED", Reason: "timeout"}},
		Pending:   &carillonv1.OverlapPending{Runs: 1},
	}
	f.Answer("GetOverlapGroup", &carillonv1.GetOverlapGroupResponse{Group: group})
	f.Answer("ListOverlapGroups", &carillonv1.ListOverlapGroupsResponse{Groups: []*carillonv1.OverlapGroup{group}})
	f.Answer("RunOverlapGroup", &carillonv1.RunOverlapGroupResponse{Runs: group.GetRunning(), Repeated: true})
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"overlap", "get", "wf", "--user", "ada"}, []string{"running", "poll fails", "every 5 minutes", "paused", clitest.KeyA[:8], "after the poll", "FAILED (timeout)"}},
		{[]string{"overlap", "list"}, []string{"wf", "ada", "running"}},
		{[]string{"overlap", "list", "-o", "wide"}, []string{"sheet", "poll fails"}},
		{[]string{"overlap", "run", "wf", "--user", "ada"}, []string{"requested before", "poll: run " + clitest.KeyA}},
	} {
		got := f.Run(t, c.args...)
		for _, want := range c.want {
			if got.Code != command.ExitOK || !strings.Contains(got.Out, want) {
				t.Errorf("%v: exit %d, %q is missing in %s%s", c.args, got.Code, want, got.Out, got.ErrOut)
			}
		}
	}
}
