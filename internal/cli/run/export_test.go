package run_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAnExportIsOneRunALine(t *testing.T) {
	f := clitest.NewServer(t)
	f.Exported = []*carillonv1.ExportRunsResponse{{Run: clitest.FailedRun()}, {Run: &carillonv1.Run{IdempotencyKey: clitest.KeyB, Status: "SUCCESS"}}}
	got := f.Run(t, "run", "export", "--since", "2h", "--until", "2026-04-01T00:00:00Z", "--status", "failed,success", "--after", clitest.KeyA)
	lines := strings.Split(strings.TrimSuffix(got.Out, "\n"), "\n")
	if got.Code != 0 || got.ErrOut != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"idempotency_key":`) || !strings.Contains(lines[1], clitest.KeyB) {
		t.Errorf("exit %d %s\n%s", got.Code, got.ErrOut, got.Out)
	}
	want := &carillonv1.ExportRunsRequest{
		From: clitest.Time("2026-03-08T10:00:00Z"), To: clitest.Time("2026-04-01T00:00:00Z"), Status: []string{"FAILED", "SUCCESS"}, After: clitest.KeyA,
	}
	if asked := f.Requests()[0]; !proto.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestAnExportThatBreaksOffSaysHowItGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name string
		runs []*carillonv1.ExportRunsResponse
		want string
	}{
		{name: "after the last run that came", runs: []*carillonv1.ExportRunsResponse{{Run: clitest.FailedRun()}, {Run: &carillonv1.Run{IdempotencyKey: clitest.KeyB}}}, want: "continue with --after " + clitest.KeyB},
		{name: "as it was, when none has", want: "going down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			f.Exported, f.StreamError = tt.runs, status.Error(codes.Unavailable, "going down")
			got := f.Run(t, "run", "export", "--after", clitest.KeyA)
			if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, tt.want) || strings.Count(got.Out, "\n") != len(tt.runs) {
				t.Errorf("exit %d %s\n%s", got.Code, got.ErrOut, got.Out)
			}
			if len(tt.runs) == 0 && strings.Contains(got.ErrOut, "--after") {
				t.Errorf("it names a place where it has not been: %s", got.ErrOut)
			}
		})
	}
}

func TestAnExportHasNoYAML(t *testing.T) {
	if got := clitest.NewServer(t).Run(t, "run", "export", "-o", "yaml"); got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "JSON Lines") {
		t.Errorf("exit %d %s", got.Code, got.ErrOut)
	}
}
