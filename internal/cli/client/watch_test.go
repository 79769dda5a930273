package client_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

var errEnough = errors.New("enough")

// watching runs a command line for so many rounds.
func watching(t *testing.T, f *clitest.Server, terminal bool, rounds int, args ...string) clitest.Result {
	t.Helper()
	var out, errs bytes.Buffer
	c := &command.CLI{
		In: strings.NewReader(""), Out: &out, ErrOut: &errs, Terminal: terminal,
		Now: func() time.Time { return clitest.Noon }, Env: func(string) string { return "" },
		Wait: func(context.Context, time.Duration) error {
			if rounds--; rounds == 0 {
				return errEnough
			}
			return nil
		},
	}
	code := cli.Run(t.Context(), c, append(args, "--server", f.Address))
	return clitest.Result{Out: out.String(), ErrOut: errs.String(), Code: code}
}

func TestWatchDrawsAnewOnATerminalAndAppendsInAPipe(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	for _, tt := range []struct {
		name     string
		terminal bool
		args     []string
		of       string
		times    int
	}{
		{"a pipe gets one answer after the other", false, []string{"schedule", "list", "--watch"}, "# 2026-03-08T12:00:00Z\nSCHEDULE", 3},
		{"a terminal is drawn anew", true, []string{"schedule", "list", "--watch=5s"}, "\x1b[H2026-03-08T12:00:00Z, every 5s, Ctrl-C to stop", 3},
		{"a terminal is cleared once", true, []string{"run", "get", clitest.KeyA, "--watch"}, "\x1b[2J", 1},
		{"JSON documents follow each other", false, []string{"schedule", "get", "nightly", "--watch=1m", "-o", "json"}, "\"schedule_id\": \"nightly\"", 3},
		{"YAML documents are parted", false, []string{"grant", "list", "--watch", "-o", "yaml"}, "---\n", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.Answer("ListGrants", &carillonv1.ListGrantsResponse{})
			f.Answer("GetRun", &carillonv1.GetRunResponse{Run: clitest.FailedRun()})
			got := watching(t, f, tt.terminal, 3, tt.args...)
			if n := strings.Count(got.Out, tt.of); n != tt.times || got.Code != command.ExitOK {
				t.Errorf("%q comes %d times, want %d (exit %d, %s):\n%q", tt.of, n, tt.times, got.Code, got.ErrOut, got.Out)
			}
		})
	}
}

func TestWatchWaitsForAServerThatIsAway(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	calls := 0
	f.Answers["ListSchedules"] = func(proto.Message) (proto.Message, error) {
		if calls++; calls == 2 {
			return nil, status.Error(codes.Unavailable, "restarting")
		}
		return &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{clitest.Schedule()}}, nil
	}
	got := watching(t, f, false, 3, "schedule", "list", "--watch")
	if got.Code != command.ExitOK || !strings.Contains(got.Out, "carillon: restarting") || strings.Count(got.Out, "nightly") != 2 {
		t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
	f.Refuse("ListSchedules", status.Error(codes.PermissionDenied, "not for you"))
	if got := watching(t, f, false, 3, "schedule", "list", "--watch"); got.Code != command.ExitFailed {
		t.Errorf("a refusal ends with exit %d", got.Code)
	}
}

func TestWatchIsBounded(t *testing.T) {
	for _, every := range []string{"10ms", "2h", "0s"} {
		if got := watching(t, clitest.NewAnsweringServer(t), false, 1, "schedule", "list", "--watch="+every); got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "is not within 500ms to 1h0m0s") {
			t.Errorf("%s: exit %d: %s", every, got.Code, got.ErrOut)
		}
	}
}
