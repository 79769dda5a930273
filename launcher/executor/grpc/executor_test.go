package grpcexecutor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/reserve"
	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	"github.com/carillon/carillon/launcher/executor/runbatch"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

var runAt = time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC)

func exampleCall() launcher.Call {
	return launcher.Call{
		StartRequest: schedule.StartRequest{
			Key: schedule.SlotKey("s-1", runAt), ScheduleID: "s-1", WorkflowID: "w", Version: 3, UserID: "u",
			ScheduledFor: runAt, FireAt: runAt, Trigger: schedule.TriggerSchedule, Attempt: 1, MaxAttempts: 3, QueueID: "q", GroupID: "g", Epoch: 7,
			ExecutionGrantID: "g", Input: json.RawMessage(`{"n": 1e400}`), RunTimeout: time.Hour,
		},
		DAG: json.RawMessage(`{"steps": []}`), ReportURL: "http://c/report", ReportToken: "rt",
	}
}

// service is a user's executor that answers as told.
type service struct {
	carillonv1.UnimplementedExecutorServer
	run    func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error)
	cancel func(*carillonv1.ExecutorCancelRequest) error
	later  bool // cancels are accepted
	byKey  func(*carillonv1.ExecutorGetByKeyRequest) (*carillonv1.ExecutorGetByKeyResponse, error)
	batch  func(runbatch.Stream) error // nil: there is no RunBatch
}

func (s *service) Run(ctx context.Context, req *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
	return s.run(ctx, req)
}

func (s *service) RunBatch(rpc runbatch.Stream) error {
	if s.batch == nil {
		return s.UnimplementedExecutorServer.RunBatch(rpc)
	}
	return s.batch(rpc)
}

func (s *service) Cancel(_ context.Context, req *carillonv1.ExecutorCancelRequest) (*carillonv1.ExecutorCancelResponse, error) {
	return &carillonv1.ExecutorCancelResponse{Accepted: s.later}, s.cancel(req)
}

func (s *service) GetByKey(_ context.Context, req *carillonv1.ExecutorGetByKeyRequest) (*carillonv1.ExecutorGetByKeyResponse, error) {
	return s.byKey(req)
}

type serving func(t *testing.T, s *service, cfg grpcexecutor.Config, options ...grpc.ServerOption) *grpcexecutor.Executor

// inBothWays tests executors with and without RunBatch.
func inBothWays(t *testing.T, test func(t *testing.T, serve serving)) {
	t.Helper()
	t.Run("with Run", func(t *testing.T) { test(t, serve) })
	t.Run("with RunBatch", func(t *testing.T) {
		test(t, func(t *testing.T, s *service, cfg grpcexecutor.Config, options ...grpc.ServerOption) *grpcexecutor.Executor {
			t.Helper()
			run := s.run
			s.batch = func(rpc runbatch.Stream) error { return runbatch.Serve(rpc, run, nil) }
			s.run = func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
				t.Error("Run was called")
				return nil, status.Error(codes.Internal, "Run was called")
			}
			return serve(t, s, cfg, options...)
		})
	})
}

// serve starts the service and a client of it.
func serve(t *testing.T, s *service, cfg grpcexecutor.Config, options ...grpc.ServerOption) *grpcexecutor.Executor {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	carillonv1.RegisterExecutorServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	cfg.Target = listener.Addr().String()
	return newExecutor(t, cfg)
}

func newExecutor(t *testing.T, cfg grpcexecutor.Config) *grpcexecutor.Executor {
	t.Helper()
	e, err := grpcexecutor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestRunSendsTheWholeCall(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		var got *carillonv1.ExecutorRunRequest
		var md metadata.MD
		e := serve(t, &service{run: func(ctx context.Context, req *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			got = req
			md, _ = metadata.FromIncomingContext(ctx)
			return &carillonv1.ExecutorRunResponse{RunId: "r"}, nil
		}}, grpcexecutor.Config{Token: "secret", Environment: "prod"})
		call := exampleCall()
		o, err := e.Run(t.Context(), call)
		key := call.Key.String()
		if want := (schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: key[:32]}); err != nil || o != want {
			t.Errorf("Run() = %+v, %v, want %+v", o, err, want)
		}
		want := &carillonv1.ExecutorRunRequest{
			IdempotencyKey: key, ScheduleId: "s-1", WorkflowId: "w", Version: 3, UserId: "u", ScheduledFor: timestamppb.New(runAt),
			Trigger: "schedule", Attempt: 1, MaxAttempts: 3, QueueId: "q", GroupId: "g", Epoch: 7, ExecutionGrantId: "g", Input: []byte(`{"n": 1e400}`), Dag: []byte(`{"steps": []}`),
			ReportUrl: "http://c/report", ReportToken: "rt", RunTimeoutMs: 3600000, Environment: "prod",
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
			t.Errorf("authorization: %q", got)
		}
		if got := md.Get("traceparent"); len(got) != 1 || !strings.HasPrefix(got[0], "00-"+key[:32]+"-") {
			t.Errorf("traceparent: %q", got)
		}
	})
}

func TestRunUnderstandsAnswers(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		trace := exampleCall().Key.String()[:32]
		tests := []struct {
			name    string
			resp    *carillonv1.ExecutorRunResponse
			want    schedule.Outcome
			unknown string
		}{
			{
				name: "it says that it goes on", resp: &carillonv1.ExecutorRunResponse{RunId: "r", Status: "ENQUEUED", TraceId: "t"},
				want: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: "t"},
			},
			{
				name: "it says nothing, which is the same", resp: &carillonv1.ExecutorRunResponse{},
				want: schedule.Outcome{Status: schedule.StatusEnqueued, TraceID: trace},
			},
			{
				name: "finished well", resp: &carillonv1.ExecutorRunResponse{RunId: "r", Status: "SUCCESS"},
				want: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r", TraceID: trace},
			},
			{
				name: "finished badly", resp: &carillonv1.ExecutorRunResponse{Status: "FAILED", ErrorCode: "oom", ErrorMessage: "too\x00big"},
				want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, TraceID: trace, ErrorCode: "oom", ErrorMessage: "too big"},
			},
			{
				name: "snoozed", resp: &carillonv1.ExecutorRunResponse{RunId: "r", Status: "SNOOZE", DelayMs: 90_000},
				want: schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, RunID: "r", TraceID: trace, SnoozeFor: 90 * time.Second},
			},
			{
				name: "finished with a result", resp: &carillonv1.ExecutorRunResponse{
					Status: "SUCCESS", ExitCode: new(int32(0)), Result: []byte(`{"n": 1.50}`), Artifacts: []*carillonv1.RunArtifact{{Name: "a", Url: "s3://b/c", Bytes: 7}},
				},
				want: schedule.Outcome{
					Status: schedule.StatusSuccess, TraceID: trace, ExitCode: new(int32(0)),
					Result: &schedule.RunResult{Result: []byte(`{"n": 1.50}`), Artifacts: []schedule.Artifact{{Name: "a", URL: "s3://b/c", Bytes: 7}}},
				},
			},
			{
				name: "finished with too large a result", resp: &carillonv1.ExecutorRunResponse{Status: "SUCCESS", Result: []byte(`"` + strings.Repeat("x", 300<<10) + `"`)},
				want: schedule.Outcome{Status: schedule.StatusSuccess, TraceID: trace, Result: &schedule.RunResult{Problem: "result has 307202 bytes, more than 65536: it was not kept"}},
			},
			{
				name: "goes on with a result, which only an end has", resp: &carillonv1.ExecutorRunResponse{RunId: "r", Result: []byte(`1`)},
				want: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: trace},
			},
			{name: "snoozed for too long", resp: &carillonv1.ExecutorRunResponse{Status: "SNOOZE", DelayMs: 2592000001}, unknown: "delay_ms"},
			{name: "another status", resp: &carillonv1.ExecutorRunResponse{Status: "DONE"}, unknown: `status "DONE"`},
			{name: "a run_id that no row can hold", resp: &carillonv1.ExecutorRunResponse{RunId: "a\x00"}, unknown: "cannot be stored"},
			{name: "too large an answer", resp: &carillonv1.ExecutorRunResponse{ErrorMessage: strings.Repeat("x", 600<<10)}, unknown: "resource_exhausted"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				e := serve(t, &service{run: func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
					return tt.resp, nil
				}}, grpcexecutor.Config{})
				o, err := e.Run(t.Context(), exampleCall())
				if tt.unknown == "" && (err != nil || !cmp.Equal(o, tt.want)) {
					t.Errorf("Run() = %+v, %v, want %+v", o, err, tt.want)
				}
				if tt.unknown != "" {
					wantUnknown(t, err, tt.unknown)
				}
			})
		}
	})
}

func wantUnknown(t *testing.T, err error, text string) {
	t.Helper()
	var refusal *launcher.Refusal
	if err == nil || errors.As(err, &refusal) || errors.Is(err, launcher.ErrNotSent) || errors.Is(err, schedule.ErrNotFound) ||
		errors.Is(err, launcher.ErrUnsupported) || !strings.Contains(err.Error(), text) {
		t.Errorf("error: %v, want an unknown outcome with %q", err, text)
	}
}

func TestEveryCodeHasAMeaning(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		type meaning struct {
			refusal string // of Run
			ask     error  // of Cancel and GetByKey; nil: unknown
		}
		meanings := map[codes.Code]meaning{
			codes.Canceled: {}, codes.Unknown: {}, codes.DeadlineExceeded: {}, codes.AlreadyExists: {}, codes.ResourceExhausted: {},
			codes.Aborted: {}, codes.Internal: {}, codes.Unavailable: {}, codes.DataLoss: {},
			codes.InvalidArgument:    {refusal: "invalid_argument"},
			codes.NotFound:           {refusal: "not_found", ask: schedule.ErrNotFound},
			codes.PermissionDenied:   {refusal: "permission_denied"},
			codes.Unauthenticated:    {refusal: "unauthenticated"},
			codes.FailedPrecondition: {refusal: "failed_precondition"},
			codes.OutOfRange:         {refusal: "out_of_range"},
			codes.Unimplemented:      {refusal: "unimplemented", ask: launcher.ErrUnsupported},
		}
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			t.Run(code.String(), func(t *testing.T) {
				want, listed := meanings[code]
				if !listed {
					t.Fatal("the test does not know this code")
				}
				said := status.Error(code, "why")
				e := serve(t, &service{
					run: func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
						return nil, said
					},
					cancel: func(*carillonv1.ExecutorCancelRequest) error { return said },
					byKey: func(*carillonv1.ExecutorGetByKeyRequest) (*carillonv1.ExecutorGetByKeyResponse, error) {
						return nil, said
					},
				}, grpcexecutor.Config{})
				_, runErr := e.Run(t.Context(), exampleCall())
				var refusal *launcher.Refusal
				switch {
				case want.refusal == "":
					wantUnknown(t, runErr, "why")
				case !errors.As(runErr, &refusal) || *refusal != launcher.Refusal{Code: want.refusal, Message: "why"}:
					t.Errorf("Run() = %v, want a refusal %s", runErr, want.refusal)
				}
				_, askErr := e.GetByKey(t.Context(), schedule.RunRef{Key: exampleCall().Key})
				for call, err := range map[string]error{"GetByKey": askErr, "Cancel": e.Cancel(t.Context(), schedule.CancelRequest{})} {
					if want.ask == nil {
						wantUnknown(t, err, "why")
					} else if !errors.Is(err, want.ask) {
						t.Errorf("%s = %v, want %v", call, err, want.ask)
					}
				}
			})
		}
	})
}

func TestCancelAndGetByKeyNameTheRunAndItsSlot(t *testing.T) {
	key, noon := exampleCall().Key, time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	var cancelled *carillonv1.ExecutorCancelRequest
	e := serve(t, &service{
		cancel: func(req *carillonv1.ExecutorCancelRequest) error { cancelled = req; return nil },
		byKey: func(req *carillonv1.ExecutorGetByKeyRequest) (*carillonv1.ExecutorGetByKeyResponse, error) {
			want := &carillonv1.ExecutorGetByKeyRequest{IdempotencyKey: key.String(), ScheduleId: "s", ScheduledFor: timestamppb.New(noon), Environment: "prod"}
			if diff := cmp.Diff(want, req, protocmp.Transform()); diff != "" {
				return nil, fmt.Errorf("asked (-want +got):\n%s", diff)
			}
			return &carillonv1.ExecutorGetByKeyResponse{RunId: "r", Status: "SUCCESS"}, nil
		},
	}, grpcexecutor.Config{Environment: "prod"})
	ref := schedule.CancelRequest{Key: key, ScheduleID: "s", ScheduledFor: noon, WorkflowID: "w", RunID: "r", Reason: schedule.ReasonReplaced}
	if err := e.Cancel(t.Context(), ref); err != nil {
		t.Errorf("Cancel() = %v", err)
	}
	want := &carillonv1.ExecutorCancelRequest{
		IdempotencyKey: key.String(), WorkflowId: "w", RunId: "r", Reason: "replaced", ScheduleId: "s", ScheduledFor: timestamppb.New(noon),
		Environment: "prod",
	}
	if diff := cmp.Diff(want, cancelled, protocmp.Transform()); diff != "" {
		t.Errorf("cancel (-want +got):\n%s", diff)
	}
	o, err := e.GetByKey(t.Context(), schedule.RunRef{Key: key, ScheduleID: "s", ScheduledFor: noon})
	if err != nil || o.Status != schedule.StatusSuccess || o.RunID != "r" {
		t.Errorf("GetByKey() = %+v, %v, want SUCCESS", o, err)
	}
}

func TestACancelThatIsAcceptedConfirmsNothing(t *testing.T) {
	e := serve(t, &service{cancel: func(*carillonv1.ExecutorCancelRequest) error { return nil }, later: true}, grpcexecutor.Config{})
	if err := e.Cancel(t.Context(), schedule.CancelRequest{Key: exampleCall().Key}); !errors.Is(err, launcher.ErrCancelAccepted) {
		t.Errorf("Cancel() = %v, want ErrCancelAccepted", err)
	}
}

func TestNotSentIsSaidOnlyWhenNothingCanHaveLeft(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // connects by its backlog, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	ended, end := context.WithCancel(t.Context())
	end()
	tests := []struct {
		name string
		ctx  context.Context
		addr string
	}{
		{name: "nobody listens", ctx: t.Context(), addr: reserve.Addr(t)},
		{name: "whoever listens does not speak gRPC", ctx: t.Context(), addr: mute.Addr().String()},
		{name: "the call is over before it begins", ctx: ended, addr: mute.Addr().String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newExecutor(t, grpcexecutor.Config{Target: tt.addr, Timeout: 200 * time.Millisecond})
			_, runErr := e.Run(tt.ctx, exampleCall())
			_, askErr := e.GetByKey(tt.ctx, schedule.RunRef{Key: exampleCall().Key})
			for call, err := range map[string]error{"Run": runErr, "GetByKey": askErr, "Cancel": e.Cancel(tt.ctx, schedule.CancelRequest{})} {
				if !errors.Is(err, launcher.ErrNotSent) {
					t.Errorf("%s: %v, want ErrNotSent", call, err)
				}
			}
		})
	}
}

func TestOnceConnectedNoAnswerIsUnknown(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		t.Run("the answer does not come in time", func(t *testing.T) {
			e := serve(t, &service{run: func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}, grpcexecutor.Config{})
			call := exampleCall()
			call.Deadline = time.Now().Add(100 * time.Millisecond)
			_, err := e.Run(t.Context(), call)
			wantUnknown(t, err, "no complete answer within 100 milliseconds")
		})
		t.Run("the answer does not come within EXECUTOR_TIMEOUT_MS", func(t *testing.T) {
			e := serve(t, &service{run: func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}, grpcexecutor.Config{Timeout: 200 * time.Millisecond})
			_, err := e.Run(t.Context(), exampleCall())
			wantUnknown(t, err, "no complete answer within 200 milliseconds (EXECUTOR_TIMEOUT_MS)")
			if code := launcher.CallCode(err); code != schedule.CodeExecutorTimeout {
				t.Errorf("the code is %s, want executor_timeout", code)
			}
		})
		t.Run("the server dies under the call", func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			carillonv1.RegisterExecutorServer(server, &service{run: func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
				go server.Stop() // waits for this very call, so it cannot be waited for here
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = server.Serve(listener)
			}()
			e := newExecutor(t, grpcexecutor.Config{Target: listener.Addr().String()})
			_, err = e.Run(t.Context(), exampleCall())
			wantUnknown(t, err, "unavailable")
			<-served
		})
	})
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		cfg  grpcexecutor.Config
		want string // part of the error; empty: valid
	}{
		{name: "host and port", cfg: grpcexecutor.Config{Target: "127.0.0.1:7001", Token: "t"}},
		{name: "a name", cfg: grpcexecutor.Config{Target: "executor:7001"}},
		{name: "IPv6", cfg: grpcexecutor.Config{Target: "[::1]:7001"}},
		{name: "DNS", cfg: grpcexecutor.Config{Target: "dns:///executor:7001"}},
		{name: "a socket", cfg: grpcexecutor.Config{Target: "unix:///run/executor.sock"}},
		{name: "nothing", cfg: grpcexecutor.Config{}, want: "EXECUTOR_URL: is empty"},
		{name: "an http address", cfg: grpcexecutor.Config{Target: "http://e:1/run"}, want: "EXECUTOR=http takes http addresses"},
		{name: "no port", cfg: grpcexecutor.Config{Target: "executor"}, want: "has no host or no port"},
		{name: "no host", cfg: grpcexecutor.Config{Target: ":7001"}, want: "has no host or no port"},
		{name: "a DNS server", cfg: grpcexecutor.Config{Target: "dns://8.8.8.8/e:1"}, want: "contains a DNS server"},
		{name: "a token with a line break", cfg: grpcexecutor.Config{Target: "e:1", Token: "t\n"}, want: "EXECUTOR_TOKEN: contains a line break"},
		{name: "a negative timeout", cfg: grpcexecutor.Config{Target: "e:1", Timeout: -1}, want: "EXECUTOR_TIMEOUT_MS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			var invalid *schedule.InvalidError
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate() = %v, want %q", err, tt.want)
			}
			if tt.want != "" {
				if _, err := grpcexecutor.New(tt.cfg); err == nil {
					t.Error("New accepts it")
				}
			}
		})
	}
}
