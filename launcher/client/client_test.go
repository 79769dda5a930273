package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/api"
	"github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/launchertest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var runAt = time.Date(2026, 3, 8, 14, 0, 0, 123456000, time.UTC)

func request(n int) schedule.StartRequest {
	return schedule.StartRequest{
		Key: schedule.SlotKey("s", runAt.Add(time.Duration(n)*time.Second)), ScheduleID: "s", WorkflowID: "w", Version: 3, UserID: "u",
		ScheduledFor: runAt, FireAt: runAt.Add(time.Second), Trigger: schedule.TriggerCatchup, Attempt: 2, MaxAttempts: 9, Epoch: 7,
		ExecutionGrantID: "g", Input: []byte(`{"a": 1}`), RunTimeout: 30 * 24 * time.Hour, MaxRun: 30 * 24 * time.Hour, SendUntil: runAt.Add(time.Minute),
		TraceParent: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
	}
}

// over is a launcher in another process: it answers as told.
type over struct {
	mu      sync.Mutex
	started []schedule.StartRequest
	ended   []schedule.CancelRequest
	reply   schedule.StartReply
	err     error
	confirm bool
}

func (o *over) Start(_ context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = append(o.started, req)
	return o.reply, o.err
}

func (o *over) StartBatch(ctx context.Context, reqs []schedule.StartRequest, withdrawn <-chan int, answer func(int, schedule.StartReply, error)) {
	launchertest.Each{Start: o.Start}.StartBatch(ctx, reqs, withdrawn, answer)
}

func (o *over) Cancel(_ context.Context, req schedule.CancelRequest) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, req)
	return o.confirm, o.err
}

// check replaces the product's validation, which refuses invalid requests before the
// launcher sees them.
func check(req proto.Message) error {
	if start, ok := req.(*carillonv1.RunLauncherStartRequest); ok && !schedule.ValidID(start.GetWorkflowId()) {
		return status.Error(codes.InvalidArgument, "workflow_id")
	}
	return nil
}

// serve puts the launcher on a server.
func serve(t *testing.T, l api.Launcher) string {
	t.Helper()
	return serveAs(t, func(s grpc.ServiceRegistrar) { api.Register(s, l, api.Options{Check: check}) })
}

func serveAs(t testing.TB, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	register(server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return listener.Addr().String()
}

func connect(t testing.TB, addr string) *client.Client {
	t.Helper()
	c, err := client.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A new field of StartRequest must be added to request above, to the message and to
// both conversions. WakeLeader, InQueue, QueueID and GroupID are not sent.
func TestTheRequestThatTravelsHasEveryFieldSet(t *testing.T) {
	sent := reflect.ValueOf(request(0))
	for i := range sent.NumField() {
		if name := sent.Type().Field(i).Name; sent.Field(i).IsZero() && !slices.Contains([]string{"WakeLeader", "InQueue", "QueueID", "GroupID"}, name) {
			t.Errorf("%s is not set, so nothing shows that it arrives", name)
		}
	}
}

func TestStartArrivesAndReturnsWhole(t *testing.T) {
	o := &over{reply: schedule.StartReply{
		Outcome: schedule.Outcome{
			Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, RunID: "r", TraceID: "t", ErrorCode: "http_403", ErrorMessage: "no", SnoozeFor: time.Hour,
		},
		LaunchedAt: runAt, Settled: true,
	}}
	c := connect(t, serve(t, o))
	reply, err := c.Start(t.Context(), request(0))
	if err != nil || reply != o.reply {
		t.Errorf("Start() = %+v, %v, want %+v", reply, err, o.reply)
	}
	if diff := cmp.Diff([]schedule.StartRequest{request(0)}, o.started); diff != "" {
		t.Errorf("over there (-want +got):\n%s", diff)
	}
}

func TestARunWithoutWhatIsOptional(t *testing.T) {
	o := &over{reply: schedule.StartReply{Outcome: schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}}}
	c := connect(t, serve(t, o))
	req := request(0)
	req.Input, req.ExecutionGrantID, req.FireAt, req.SendUntil = nil, "", req.ScheduledFor, time.Time{}
	reply, err := c.Start(t.Context(), req)
	if err != nil || reply != o.reply {
		t.Errorf("Start() = %+v, %v, want %+v", reply, err, o.reply)
	}
	if got := o.started[0]; len(got.Input) != 0 || got.ExecutionGrantID != "" || !got.SendUntil.IsZero() {
		t.Errorf("over there: %+v", got)
	}
}

func TestStartWithoutADefiniteAnswerIsUnknown(t *testing.T) {
	for name, err := range map[string]error{
		"busy": launcher.ErrBusy, "withheld": launcher.ErrWithheld, "unknown": launcher.ErrOutcomeUnknown, "not sent": launcher.ErrNotSent,
		"late": context.DeadlineExceeded, "store away": errors.New("no database"),
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, serve(t, &over{err: err}))
			reply, got := c.Start(t.Context(), request(0))
			if got == nil {
				t.Errorf("Start() = %+v, want an error", reply)
			}
			if busy := errors.Is(err, schedule.ErrBusy); errors.Is(got, schedule.ErrBusy) != busy {
				t.Errorf("Start() = %v; busy over there: %v", got, busy)
			}
		})
	}
	t.Run("no launcher there", func(t *testing.T) {
		c := connect(t, serveAs(t, func(grpc.ServiceRegistrar) {}))
		if reply, err := c.Start(t.Context(), request(0)); err == nil {
			t.Errorf("Start() = %+v, want an error: a launcher may be there again soon", reply)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		if reply, err := connect(t, "127.0.0.1:1").Start(t.Context(), request(0)); err == nil {
			t.Errorf("Start() = %+v, want an error", reply)
		}
	})
}

func TestARefusedRequestIsDefinite(t *testing.T) {
	tests := []struct {
		name   string
		over   *over
		change func(*schedule.StartRequest)
		want   schedule.Reason
	}{
		{
			name: "the key was used for another request", want: schedule.ReasonKeyConflict,
			over:   &over{reply: schedule.StartReply{Outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonKeyConflict}}},
			change: func(*schedule.StartRequest) {},
		},
		{
			name: "the request breaks a rule", want: schedule.ReasonLaunchRefused, over: &over{},
			change: func(r *schedule.StartRequest) { r.WorkflowID = "no id" },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, serve(t, tt.over))
			req := request(0)
			tt.change(&req)
			reply, err := c.Start(t.Context(), req)
			if err != nil || reply.Outcome.Status != schedule.StatusFailed || reply.Outcome.Reason != tt.want {
				t.Errorf("Start() = %+v, %v, want FAILED(%s)", reply, err, tt.want)
			}
		})
	}
}

func TestCancelArrivesAndReturns(t *testing.T) {
	want := schedule.CancelRequest{Key: request(0).Key, ScheduleID: "s", WorkflowID: "w", RunID: "r", Reason: schedule.ReasonReplaced}
	for _, confirmed := range []bool{true, false} {
		o := &over{confirm: confirmed}
		got, err := connect(t, serve(t, o)).Cancel(t.Context(), want)
		if err != nil || got != confirmed || len(o.ended) != 1 || o.ended[0] != want {
			t.Errorf("Cancel() = %v, %v; over there: %+v", got, err, o.ended)
		}
	}
	_, err := connect(t, serve(t, &over{err: fmt.Errorf("cancel: %w", launcher.ErrUnsupported)})).Cancel(t.Context(), want)
	if !errors.Is(err, schedule.ErrUnsupported) {
		t.Errorf("Cancel where the executor cannot: %v, want ErrUnsupported", err)
	}
	if _, err := connect(t, serve(t, &over{err: errors.New("away")})).Cancel(t.Context(), want); err == nil {
		t.Error("Cancel of a launcher that cannot say: no error")
	}
}
