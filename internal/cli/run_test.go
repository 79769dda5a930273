package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// The server completes a key. A report needs the whole one, which a token is made
// for, and so is asked for first.
func TestKeysMayBeShortened(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string // keys of the calls
		code int
	}{
		{name: "to be shown", args: []string{"run", "get", keyA[:4]}, want: []string{keyA[:4]}},
		{name: "to be cancelled", args: []string{"run", "cancel", keyA[:12]}, want: []string{keyA[:12]}},
		{name: "to be retried", args: []string{"run", "retry", keyA[:12]}, want: []string{keyA[:12]}},
		{name: "for a report", args: []string{"run", "report", keyA[:12], "SUCCESS"}, want: []string{keyA[:12], keyA}},
		{name: "for a report, whole", args: []string{"run", "report", keyA, "SUCCESS"}, want: []string{keyA}},
		{name: "not a key at all is for the server to refuse", args: []string{"run", "get", "nightly!"}, want: []string{"nightly!"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := answering(t)
			f.answers["GetRun"] = func(proto.Message) (proto.Message, error) {
				return &carillonv1.GetRunResponse{Run: &carillonv1.Run{IdempotencyKey: keyA}}, nil
			}
			if got := f.run(t, tt.args...); got.code != tt.code {
				t.Fatalf("exit %d: %s", got.code, got.errs)
			}
			var asked []string
			for _, req := range f.requests() {
				if keyed, ok := req.(interface{ GetIdempotencyKey() string }); ok {
					asked = append(asked, keyed.GetIdempotencyKey())
				}
			}
			if !slices.Equal(asked, tt.want) {
				t.Errorf("asked for %q, want %q", asked, tt.want)
			}
		})
	}
}

func TestWaitingForARun(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		end  *carillonv1.Run
		code int
		errs string
	}{
		{
			name: "that succeeds", args: []string{"schedule", "trigger", "nightly", "--wait"},
			end: &carillonv1.Run{IdempotencyKey: keyA, Status: "SUCCESS"},
		},
		{
			name: "that fails", args: []string{"schedule", "trigger", "nightly", "--wait"},
			end:  &carillonv1.Run{IdempotencyKey: keyA, Status: "FAILED", Reason: "workflow_failed", ErrorMessage: "exit 3"},
			code: command.ExitFailed, errs: "carillon: run 5f0c5a3d9b1e ended FAILED (workflow_failed): exit 3\n",
		},
		{
			name: "that is cancelled, after a retry", args: []string{"run", "retry", keyB, "--wait"},
			end:  &carillonv1.Run{IdempotencyKey: keyA, Status: "CANCELLED", Reason: "cancelled"},
			code: command.ExitFailed, errs: "carillon: run 5f0c5a3d9b1e ended CANCELLED (cancelled)\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			begun := &carillonv1.Run{IdempotencyKey: keyA, Status: "PLANNED"}
			f.always("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: begun})
			f.always("RetryRun", &carillonv1.RetryRunResponse{Run: begun})
			asked := 0
			f.answers["GetRun"] = func(proto.Message) (proto.Message, error) {
				switch asked++; asked {
				case 1:
					return &carillonv1.GetRunResponse{Run: begun}, nil
				case 2: // a deploy: the wait goes on
					return nil, status.Error(codes.Unavailable, "going down")
				}
				return &carillonv1.GetRunResponse{Run: tt.end}, nil
			}
			got := f.run(t, tt.args...)
			if got.code != tt.code || got.errs != tt.errs || !strings.Contains(got.out, tt.end.GetStatus()) {
				t.Errorf("exit %d\n%s%s", got.code, got.out, got.errs)
			}
			if asked != 3 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
	t.Run("that is lost", func(t *testing.T) {
		f := answering(t)
		f.always("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: &carillonv1.Run{IdempotencyKey: keyA, Status: "PLANNED"}})
		f.refuses("GetRun", status.Error(codes.NotFound, "not found: no such run"))
		if got := f.run(t, "schedule", "trigger", "nightly", "--wait"); got.code != command.ExitNotFound {
			t.Errorf("exit %d: %s", got.code, got.errs)
		}
	})
}

func TestDeploy(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "b.json"), `{"workflow_id":"b","version":2}`)
	writeFile(t, filepath.Join(dir, "a.json"), `{"workflow_id":"a","version":1}`)
	writeFile(t, filepath.Join(dir, "c.json"), `{"workflow_id":"c","version":1}`)
	writeFile(t, filepath.Join(dir, "notes.txt"), `not a workflow`)
	nameless := filepath.Join(t.TempDir(), "nameless.json")
	writeFile(t, nameless, `{"version":2}`)

	deploying := func(t *testing.T) *fake {
		f := newFake(t)
		f.answers["DeployWorkflow"] = func(m proto.Message) (proto.Message, error) {
			switch req := m.(*carillonv1.DeployWorkflowRequest); req.GetWorkflowId() {
			case "a":
				return &carillonv1.DeployWorkflowResponse{Schedules: []*carillonv1.DeployedSchedule{
					{ScheduleId: "a.nightly", Created: true, NextRunAt: at("2026-03-09T02:30:00Z")},
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
			got := deploying(t).run(t, append([]string{"workflow", "deploy", "--user", "ada"}, tt.args...)...)
			if got.code != tt.code || got.errs != tt.errs {
				t.Errorf("exit %d: %s", got.code, got.errs)
			}
			golden(t, tt.name, got.out)
		})
	}
	t.Run("a folder without a workflow", func(t *testing.T) {
		empty := t.TempDir()
		if got := deploying(t).run(t, "workflow", "deploy", "--user", "ada", "-f", empty); got.code != command.ExitFailed || !strings.Contains(got.errs, "no *.json in the folder") {
			t.Errorf("exit %d: %s", got.code, got.errs)
		}
	})
}
