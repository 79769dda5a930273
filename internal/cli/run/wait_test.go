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
	if want := "run " + render.ShortKey(clitest.KeyA) + " is still in progress; see it with: carillon run get " + render.ShortKey(clitest.KeyA); code != command.ExitFailed || !strings.Contains(errs.String(), want) {
		t.Errorf("exit %d: %q, want %q", code, errs.String(), want)
	}
}
