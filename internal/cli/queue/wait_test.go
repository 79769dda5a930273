package queue_test

import (
	"strings"
	"testing"
	"time"

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

func TestAWaitIsNoLongerThanItsTimeWhileNoServerAnswers(t *testing.T) {
	away := func(proto.Message) (proto.Message, error) { return nil, status.Error(codes.Unavailable, "going down") }
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"before the run is in the queue", []string{"enqueue", "gpu", "--workflow", "w", "--version", "1", "--request-id", "order-7"}, command.ExitFailed, "whether the run exists is unknown: the same command with --request-id order-7 makes at most one"},
		{"before the schedule was triggered", []string{"schedule", "trigger", "nightly"}, command.ExitFailed, "the same command with --request-id "},
		{"before the retry exists", []string{"run", "retry", clitest.KeyA, "--request-id", "r"}, command.ExitFailed, "the same command with --request-id r makes at most one"},
		{"while the run goes on", []string{"enqueue", "mail", "--workflow", "w", "--version", "1"}, command.ExitRunGoesOn, "is still in progress after 1.5s and goes on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := clitest.NewAnsweringServer(t)
			f.Answers["TriggerSchedule"], f.Answers["RetryRun"], f.Answers["GetRun"] = away, away, away
			f.Answers["EnqueueRun"] = func(m proto.Message) (proto.Message, error) {
				if m.(*carillonv1.EnqueueRunRequest).GetQueueId() == "gpu" {
					return away(m)
				}
				return &carillonv1.EnqueueRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "ENQUEUED"}}, nil
			}
			began := time.Now()
			got := f.Run(t, append(tt.args, "--wait=1500ms")...)
			if got.Code != tt.code || !strings.Contains(got.ErrOut, tt.says) {
				t.Errorf("exit %d, want %d: %s\nwant %s", got.Code, tt.code, got.ErrOut, tt.says)
			}
			if took := time.Since(began); took < 1500*time.Millisecond || took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("where there is no server", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		got := clitest.Run(t, clitest.Env{}, "enqueue", "gpu", "--workflow", "w", "--version", "1", "--wait=1500ms", "--server", "127.0.0.1:1")
		if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "no server answers at 127.0.0.1:1") || strings.Contains(got.ErrOut, "unknown") {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAWaitIsNoLongerThanItsTimeWhileAServerHangs(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	over := make(chan struct{})
	defer close(over)
	f.Answer("EnqueueRun", &carillonv1.EnqueueRunResponse{Run: &carillonv1.Run{IdempotencyKey: clitest.KeyA, Status: "ENQUEUED"}})
	f.Answers["GetRun"] = func(proto.Message) (proto.Message, error) {
		<-over
		return nil, status.Error(codes.Unavailable, "going down")
	}
	began := time.Now()
	got := f.Run(t, "enqueue", "gpu", "--workflow", "w", "--version", "1", "--wait=1s")
	if got.Code != command.ExitRunGoesOn || !strings.Contains(got.ErrOut, "is still in progress after 1s") {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
	}
	if took := time.Since(began); took > 8*time.Second { // the timeout of one call is 10 s
		t.Errorf("it took %s", took)
	}
}
