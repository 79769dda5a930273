package run_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAnInterruptedWaitSaysThatTheRunGoesOn(t *testing.T) {
	f := clitest.NewServer(t)
	running := clitest.FailedRun()
	running.Status, running.Reason, running.CompletedAt = "STARTED", "", nil
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: running})
	f.Answers["GetRun"] = func(proto.Message) (proto.Message, error) {
		interrupt()
		return &carillonv1.GetRunResponse{Run: running}, nil
	}
	var out, errs bytes.Buffer
	c := &command.CLI{In: strings.NewReader(""), Out: &out, ErrOut: &errs, Now: time.Now, Env: func(string) string { return "" }}
	code := cli.Run(ctx, c, []string{"schedule", "trigger", "nightly", "--wait", "--server", f.Address})
	if want := "run " + render.ShortKey(clitest.KeyA) + " is still in progress and goes on; see it with: carillon run get " + render.ShortKey(clitest.KeyA); code != command.ExitRunGoesOn || !strings.Contains(errs.String(), want) {
		t.Errorf("exit %d: %q, want %q", code, errs.String(), want)
	}
}

func TestAWaitFollowsTheAttemptsOfARun(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	first := &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "FAILED", RetriedBy: clitest.KeyB}
	f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: first})
	f.Answers["GetRun"] = func(m proto.Message) (proto.Message, error) {
		return &carillonv1.GetRunResponse{Run: &carillonv1.Run{IdempotencyKey: m.(*carillonv1.GetRunRequest).GetIdempotencyKey(), Status: "SUCCESS", Attempt: 2}}, nil
	}
	if got := f.Run(t, "schedule", "trigger", "nightly", "--wait"); got.Code != command.ExitOK || !strings.Contains(got.Out, clitest.KeyB) {
		t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	running := &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "STARTED"}
	f.Answer("TriggerSchedule", &carillonv1.TriggerScheduleResponse{Run: running})
	f.Answer("GetRun", &carillonv1.GetRunResponse{Run: running})
	got := f.Run(t, "schedule", "trigger", "nightly", "--wait=1ms")
	want := "run " + render.ShortKey(clitest.KeyA) + " is still in progress after 1ms and goes on"
	if got.Code != command.ExitRunGoesOn || !strings.Contains(got.ErrOut, want) {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
	}
	for _, tt := range []struct{ flag, says string }{
		{"--wait=soon", "write a duration such as"}, {"--wait=0s", "write a duration above 0, or --wait alone for any time"}, {"--wait 5m", "write --wait=5m"},
	} {
		got := f.Run(t, append([]string{"schedule", "trigger", "nightly"}, strings.Fields(tt.flag)...)...)
		if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, tt.says) {
			t.Errorf("%s: exit %d: %s", tt.flag, got.Code, got.ErrOut)
		}
	}
}
