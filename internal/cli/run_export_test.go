package cli

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAnExportIsOneRunALine(t *testing.T) {
	f := newFake(t)
	f.export = []*carillonv1.ExportRunsResponse{{Run: failedRun()}, {Run: &carillonv1.Run{IdempotencyKey: keyB, Status: "SUCCESS"}}}
	got := f.run(t, "run", "export", "--since", "2h", "--until", "2026-04-01T00:00:00Z", "--status", "failed,success", "--after", keyA)
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if got.code != 0 || got.errs != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"idempotency_key":`) || !strings.Contains(lines[1], keyB) {
		t.Errorf("exit %d %s\n%s", got.code, got.errs, got.out)
	}
	want := &carillonv1.ExportRunsRequest{
		From: at("2026-03-08T10:00:00Z"), To: at("2026-04-01T00:00:00Z"), Status: []string{"FAILED", "SUCCESS"}, After: keyA,
	}
	if asked := f.requests()[0]; !proto.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestAnExportThatBreaksOffSaysHowItGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name string
		runs []*carillonv1.ExportRunsResponse
		want string
	}{
		{name: "after the last run that came", runs: []*carillonv1.ExportRunsResponse{{Run: failedRun()}, {Run: &carillonv1.Run{IdempotencyKey: keyB}}}, want: "continue with --after " + keyB},
		{name: "as it was, when none has", want: "going down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.export, f.ended = tt.runs, status.Error(codes.Unavailable, "going down")
			got := f.run(t, "run", "export", "--after", keyA)
			if got.code != command.ExitFailed || !strings.Contains(got.errs, tt.want) || strings.Count(got.out, "\n") != len(tt.runs) {
				t.Errorf("exit %d %s\n%s", got.code, got.errs, got.out)
			}
			if len(tt.runs) == 0 && strings.Contains(got.errs, "--after") {
				t.Errorf("it names a place where it has not been: %s", got.errs)
			}
		})
	}
}

func TestAnExportHasNoYAML(t *testing.T) {
	if got := newFake(t).run(t, "run", "export", "-o", "yaml"); got.code != command.ExitUsage || !strings.Contains(got.errs, "JSON Lines") {
		t.Errorf("exit %d %s", got.code, got.errs)
	}
}
