package run_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
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
		{name: "to be shown", args: []string{"run", "get", clitest.KeyA[:4]}, want: []string{clitest.KeyA[:4]}},
		{name: "to be cancelled", args: []string{"run", "cancel", clitest.KeyA[:12]}, want: []string{clitest.KeyA[:12]}},
		{name: "to be retried", args: []string{"run", "retry", clitest.KeyA[:12]}, want: []string{clitest.KeyA[:12]}},
		{name: "for a report", args: []string{"run", "report", clitest.KeyA[:12], "SUCCESS"}, want: []string{clitest.KeyA[:12], clitest.KeyA}},
		{name: "for a report, whole", args: []string{"run", "report", clitest.KeyA, "SUCCESS"}, want: []string{clitest.KeyA}},
		{name: "not a key at all is for the server to refuse", args: []string{"run", "get", "nightly!"}, want: []string{"nightly!"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewAnsweringServer(t)
			f.Answers["GetRun"] = func(proto.Message) (proto.Message, error) {
				return &carillonv1.GetRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA}}, nil
			}
			if got := f.Run(t, tt.args...); got.Code != tt.code {
				t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
			}
			var asked []string
			for _, req := range f.Requests() {
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

func TestTheErrorOfARunIsItsCodeAndItsMessage(t *testing.T) {
	for _, tt := range []struct{ code, message, want string }{
		{"E_DISK", "disk full", "E_DISK: disk full"},
		{"E_DISK", "", "E_DISK"},
		{"", "it was to start by noon", "it was to start by noon"},
	} {
		f := clitest.NewAnsweringServer(t)
		f.Answer("GetRun", &carillonv1.GetRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, ErrorCode: tt.code, ErrorMessage: tt.message}})
		got := f.Run(t, "run", "get", clitest.KeyA)
		line := ""
		for text := range strings.Lines(got.Out) {
			if rest, ok := strings.CutPrefix(text, "error "); ok {
				line = strings.TrimSpace(rest)
			}
		}
		if line != tt.want {
			t.Errorf("%+v is shown as %q", tt, line)
		}
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
			end: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "SUCCESS"},
		},
		{
			name: "that fails", args: []string{"schedule", "trigger", "nightly", "--wait"},
			end:  &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "FAILED", Reason: "workflow_failed", ErrorMessage: "exit 3"},
			code: command.ExitRunFailed, errs: "carillon: run 5f0c5a3d9b1e ended FAILED (workflow_failed): exit 3\n",
		},
		{
			name: "that is skipped", args: []string{"schedule", "trigger", "nightly", "--wait=1h"},
			end:  &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "SKIPPED", Reason: "expired"},
			code: command.ExitRunSkipped, errs: "carillon: run 5f0c5a3d9b1e ended SKIPPED (expired)\n",
		},
		{
			name: "that is cancelled, after a retry", args: []string{"run", "retry", clitest.KeyB, "--wait"},
			end:  &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "CANCELLED", Reason: "cancelled"},
			code: command.ExitRunCancelled, errs: "carillon: run 5f0c5a3d9b1e ended CANCELLED (cancelled)\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			typed := &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "PLANNED"}
			f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: typed})
			f.Answer("RetryRun", &carillonv1.RetryRunResponse{Run: typed})
			asked := 0
			f.Answers["GetRun"] = func(proto.Message) (proto.Message, error) {
				switch asked++; asked {
				case 1:
					return &carillonv1.GetRunResponse{Run: typed}, nil
				case 2: // a deploy: the wait goes on
					return nil, status.Error(codes.Unavailable, "going down")
				}
				return &carillonv1.GetRunResponse{Run: tt.end}, nil
			}
			got := f.Run(t, tt.args...)
			if got.Code != tt.code || got.ErrOut != tt.errs || !strings.Contains(got.Out, tt.end.GetStatus()) {
				t.Errorf("exit %d\n%s%s", got.Code, got.Out, got.ErrOut)
			}
			if asked != 3 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
	t.Run("that is lost", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "PLANNED"}})
		f.Refuse("GetRun", status.Error(codes.NotFound, "not found: no such run"))
		if got := f.Run(t, "schedule", "trigger", "nightly", "--wait"); got.Code != command.ExitNotFound {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
}
