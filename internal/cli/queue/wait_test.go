package queue_test

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

func TestAWaitForAJobOutlivesARestartAndRepeatsNoRun(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	var ids []string
	f.Answers["EnqueueRun"] = func(m proto.Message) (proto.Message, error) {
		req := m.(*carillonv1.EnqueueRunRequest)
		if ids = append(ids, req.GetRequestId()); req.GetWaitMs() == 0 {
			t.Error("history may drop the run: wait_ms is 0")
		}
		if len(ids) == 1 {
			return nil, status.Error(codes.Unavailable, "going down")
		}
		return &carillonv1.EnqueueRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "ENQUEUED"}}, nil
	}
	looks := 0
	f.Answers["GetRun"] = func(proto.Message) (proto.Message, error) {
		if looks++; looks == 1 {
			return nil, status.Error(codes.Unavailable, "going down")
		}
		return &carillonv1.GetRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "CANCELLED", Reason: "cancelled"}}, nil
	}
	got := f.Run(t, "enqueue", "gpu", "--workflow", "w", "--version", "1", "--wait=10m")
	if got.Code != command.ExitRunCancelled || !strings.Contains(got.ErrOut, "ended CANCELLED (cancelled)") {
		t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("the requests were %q", ids)
	}
}
