package client_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/api"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// openRaw opens a stream as a caller of its own would.
func openRaw(t *testing.T, addr string) grpc.BidiStreamingClient[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse] {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := carillonv1.NewRunLauncherClient(conn).StartBatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// least is a start without what is optional.
func least(n int) *carillonv1.RunLauncherStartRequest {
	return &carillonv1.RunLauncherStartRequest{
		IdempotencyKey: request(n).Key.String(), WorkflowId: "w", Version: 1, UserId: "u", ScheduledFor: timestamppb.New(runAt),
	}
}

// counts are the starts that a server has answered.
type counts struct {
	mu sync.Mutex
	of map[codes.Code]int
}

func (c *counts) observe(code codes.Code, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[code]++
}

func TestStartBatchAnswersEachOnce(t *testing.T) {
	o := &over{reply: schedule.StartReply{Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r"}}}
	counted := &counts{of: make(map[codes.Code]int)}
	addr, _ := serveOn(t, o, api.Options{Check: check, Observe: counted.observe})
	stream := openRaw(t, addr)
	const messages, each = 10, 70
	want := make(map[uint64]*carillonv1.RunLauncherStartRequest)
	for range messages {
		req := &carillonv1.RunLauncherStartBatchRequest{Withdrawn: []uint64{1 << 40}} // which there is none
		for range each {
			n := len(want)
			start := least(n / 2) // each key twice
			if n%each == 5 {
				start.WorkflowId = "no id"
			}
			want[uint64(n)] = start
			req.Starts = append(req.Starts, start)
		}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range resp.GetAnswers() {
			start := want[a.GetNumber()]
			bad := start.GetWorkflowId() == "no id"
			if a.GetIdempotencyKey() != start.GetIdempotencyKey() || a.GetOutcome().GetOk() == bad || (codes.Code(a.GetCode()) == codes.InvalidArgument) != bad {
				t.Errorf("answer %v to start %v", a, start)
			}
			delete(want, a.GetNumber())
		}
	}
	if len(want) != 0 {
		t.Errorf("%d starts were not answered", len(want))
	}
	for _, req := range o.started {
		if req.Trigger != schedule.TriggerSchedule || req.Attempt != 1 || req.RunTimeout != schedule.DefaultRunTimeout {
			t.Errorf("defaults: %+v", req)
			break
		}
	}
	if counted.of[codes.OK] != messages*(each-1) || counted.of[codes.InvalidArgument] != messages {
		t.Errorf("observed: %v", counted.of)
	}
}

func TestStartBatchSaysWhatStartWould(t *testing.T) {
	addr, _ := serveOn(t, &over{err: launcher.ErrBusy}, api.Options{})
	stream := openRaw(t, addr)
	if err := stream.Send(&carillonv1.RunLauncherStartBatchRequest{Starts: []*carillonv1.RunLauncherStartRequest{least(0)}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || len(resp.GetAnswers()) != 1 {
		t.Fatalf("Recv() = %v, %v, want one answer", resp, err)
	}
	if a := resp.GetAnswers()[0]; a.GetIdempotencyKey() != least(0).GetIdempotencyKey() || a.GetCode() != uint32(codes.Aborted) || !strings.Contains(a.GetMessage(), "in progress") {
		t.Errorf("answer %v, want ABORTED", a)
	}
}

func TestAMessageIsBounded(t *testing.T) {
	for name, req := range map[string]*carillonv1.RunLauncherStartBatchRequest{
		"starts":    {Starts: make([]*carillonv1.RunLauncherStartRequest, 1001)},
		"withdrawn": {Withdrawn: make([]uint64, 1001)},
	} {
		for i := range req.Starts {
			req.Starts[i] = least(i)
		}
		addr, _ := serveOn(t, &over{}, api.Options{})
		stream := openRaw(t, addr)
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name+" has 1001 entries, more than 1000") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
