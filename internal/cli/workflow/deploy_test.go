package workflow_test

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestDeploy(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteFile(t, filepath.Join(dir, "b.json"), `{"workflow_id":"b","version":2}`)
	clitest.WriteFile(t, filepath.Join(dir, "a.json"), `{"workflow_id":"a","version":1}`)
	clitest.WriteFile(t, filepath.Join(dir, "c.json"), `{"workflow_id":"c","version":1}`)
	clitest.WriteFile(t, filepath.Join(dir, "notes.txt"), `not a workflow`)
	nameless := filepath.Join(t.TempDir(), "nameless.json")
	clitest.WriteFile(t, nameless, `{"version":2}`)

	deploying := func(t *testing.T) *clitest.Server {
		f := clitest.NewServer(t)
		f.Answers["DeployWorkflow"] = func(m proto.Message) (proto.Message, error) {
			switch req := m.(*carillonv1.DeployWorkflowRequest); req.GetWorkflowId() {
			case "a":
				return &carillonv1.DeployWorkflowResponse{Schedules: []*carillonv1.DeployedSchedule{
					{ScheduleId: "a.nightly", Created: true, NextRunAt: clitest.Time("2026-03-09T02:30:00Z")},
					{ScheduleId: "a.hourly", Changed: true},
					{ScheduleId: "a.2"},
				}}, nil
			case "b":
				return nil, status.Error(codes.AlreadyExists, "already exists: version 2 of b holds another DAG")
			}
			return &carillonv1.DeployWorkflowResponse{}, nil
		}
		return f
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{name: "deploy_folder", args: []string{"-f", dir}, code: command.ExitFailed, errs: "carillon: " + filepath.Join(dir, "b.json") + ": already exists: version 2 of b holds another DAG\n"},
		{name: "deploy_files", args: []string{"-f", filepath.Join(dir, "a.json"), filepath.Join(dir, "c.json")}},
		{name: "deploy_json", args: []string{"-f", filepath.Join(dir, "a.json"), filepath.Join(dir, "c.json"), "-o", "json"}},
		{name: "deploy_nothing", args: []string{"-f", nameless}, code: command.ExitFailed, errs: "carillon: " + nameless + ": the DAG does not name its workflow_id and version\n"},
		{name: "deploy_two_errors", args: []string{"-f", nameless, filepath.Join(dir, "b.json")}, code: command.ExitFailed, errs: "carillon: " + nameless +
			": the DAG does not name its workflow_id and version\ncarillon: " + filepath.Join(dir, "b.json") + ": already exists: version 2 of b holds another DAG\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := deploying(t).Run(t, append([]string{"workflow", "deploy", "--user", "ada"}, tt.args...)...)
			if got.Code != tt.code || got.ErrOut != tt.errs {
				t.Errorf("exit %d: %s", got.Code, got.ErrOut)
			}
			clitest.Golden(t, tt.name, got.Out)
		})
	}
	t.Run("a folder without a workflow", func(t *testing.T) {
		empty := t.TempDir()
		if got := deploying(t).Run(t, "workflow", "deploy", "--user", "ada", "-f", empty); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "no *.json in the folder") {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
}
