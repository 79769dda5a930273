package crontab_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestImportCrontab(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crontab")
	clitest.WriteFile(t, file, "MAILTO=ops\n# Every night.\n30 2 * * * /bin/backup\nCRON_TZ=Asia/Tokyo\n0 9 * * 1 report\n@reboot warm-up\n")
	f := clitest.NewAnsweringServer(t)
	f.Answer("ApplySchedules", &carillonv1.ApplySchedulesResponse{Changed: true})

	t.Run("as YAML", func(t *testing.T) {
		got := f.Run(t, "import", "crontab", file, "--print", "--tz", "Europe/Berlin")
		for _, part := range []string{"workflow_id: backup", "comment: Every night.", `cron_expr: 30 2 * * *`, "timezone: Europe/Berlin", "timezone: Asia/Tokyo", "workflow_id: report"} {
			if !strings.Contains(got.Out, part) {
				t.Errorf("no %q in\n%s", part, got.Out)
			}
		}
		if got.Code != command.ExitOK || !strings.Contains(got.ErrOut, "line 1: output is kept with the run, not mailed") || !strings.Contains(got.ErrOut, "line 6: Carillon does not see") {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
	t.Run("what it prints can be applied", func(t *testing.T) {
		printed := f.Run(t, "import", "crontab", file, "--print")
		yaml := filepath.Join(t.TempDir(), "crontab.yaml")
		clitest.WriteFile(t, yaml, printed.Out)
		if got := f.Run(t, "apply", "-f", yaml, "--user", "ada"); got.Code != command.ExitOK {
			t.Fatal(got.ErrOut)
		}
		req, _ := f.Requests()[len(f.Requests())-1].(*carillonv1.ApplySchedulesRequest)
		if len(req.GetWorkflows()) != 2 || req.GetWorkflows()[0].GetWorkflowId() != "backup" {
			t.Errorf("applied %v", req)
		}
	})
	t.Run("nothing where a command would be left behind", func(t *testing.T) {
		before := len(f.Requests())
		if got := f.Run(t, "import", "crontab", file, "--user", "ada"); got.Code != command.ExitFailed || len(f.Requests()) != before || !strings.Contains(got.ErrOut, "--partial") {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
	t.Run("the others with --partial", func(t *testing.T) {
		if got := f.Run(t, "import", "crontab", file, "--user", "ada", "--partial", "--set", "box"); got.Code != command.ExitOK {
			t.Fatal(got.ErrOut)
		}
		req, _ := f.Requests()[len(f.Requests())-1].(*carillonv1.ApplySchedulesRequest)
		if req.GetSet() != "box" || len(req.GetWorkflows()) != 2 || req.GetWorkflows()[1].GetUserId() != "ada" {
			t.Errorf("applied %v", req)
		}
	})
	t.Run("needs an owner", func(t *testing.T) {
		if got := f.Run(t, "import", "crontab", file); got.Code != command.ExitUsage {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
}
