// Package api serves the launcher as carillon.v1.RunLauncher. Callers are workers
// in other processes, and clients that want its idempotency for an executor of
// their own.
package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Launcher is implemented by *launcher.Launcher.
type Launcher interface {
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	StartBatch(ctx context.Context, reqs []schedule.StartRequest, withdrawn <-chan int, answer func(i int, reply schedule.StartReply, err error))
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}

// Options apply to the starts of streams. Interceptors see a stream as one call.
type Options struct {
	// Check validates a start and returns a status error; nil: no validation.
	Check func(start proto.Message) error
	// Observe is called for every answered start; nil: never.
	Observe func(code codes.Code, took time.Duration)
	// Open limits the open starts of one stream. Further starts are not read until
	// one is answered. Default 1000.
	Open int
	// Ending is closed when the process is about to end. Then streams are closed
	// after all their starts are answered. nil: never.
	Ending <-chan struct{}
	Logger *slog.Logger // default slog.Default

	Puller      Puller // serves FetchRuns; nil: it is UNIMPLEMENTED
	Environment string // ENVIRONMENT, for what workers fetch
}

// Register registers the launcher with a server.
func Register(s grpc.ServiceRegistrar, l Launcher, o Options) {
	if o.Check == nil {
		o.Check = func(proto.Message) error { return nil }
	}
	if o.Observe == nil {
		o.Observe = func(codes.Code, time.Duration) {}
	}
	if o.Open <= 0 {
		o.Open = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	carillonv1.RegisterRunLauncherServer(s, &server{launcher: l, o: o})
}

type server struct {
	carillonv1.UnimplementedRunLauncherServer
	launcher Launcher
	o        Options
}

func (s *server) Start(ctx context.Context, req *carillonv1.RunLauncherStartRequest) (*carillonv1.RunLauncherStartResponse, error) {
	start, err := wire.StartRequest(req)
	if err != nil {
		return nil, err
	}
	return responseOf(s.launcher.Start(ctx, start))
}

func (s *server) Cancel(ctx context.Context, req *carillonv1.RunLauncherCancelRequest) (*carillonv1.RunLauncherCancelResponse, error) {
	cancel, err := wire.CancelRequest(req)
	if err != nil {
		return nil, err
	}
	confirmed, err := s.launcher.Cancel(ctx, cancel)
	if err != nil && !errors.Is(err, launcher.ErrUnsupported) {
		return nil, unknown(err)
	}
	return &carillonv1.RunLauncherCancelResponse{Confirmed: confirmed, Supported: err == nil}, nil
}

// responseOf is the answer to a start, or its status error.
func responseOf(reply schedule.StartReply, err error) (*carillonv1.RunLauncherStartResponse, error) {
	o := reply.Outcome
	switch {
	case err != nil:
		return nil, unknown(err)
	case o.Reason == schedule.ReasonKeyConflict:
		return nil, keyConflict(o.ErrorMessage)
	}
	resp := &carillonv1.RunLauncherStartResponse{
		Ok: o.OK(), RunId: o.RunID, Status: string(o.Status), Reason: string(o.Reason), TraceId: o.TraceID,
		ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage, Settled: reply.Settled, SnoozeMs: uint32(o.SnoozeFor.Milliseconds()),
	}
	if !reply.LaunchedAt.IsZero() {
		resp.LaunchedAt = timestamppb.New(reply.LaunchedAt)
	}
	if reply.Deliveries > 0 {
		resp.Deliveries = &reply.Deliveries
	}
	return resp, nil
}

// unknown is the status of a start that may be sent again, with the error.
func unknown(err error) error {
	code := codes.Unavailable
	switch {
	case errors.Is(err, launcher.ErrBusy):
		code = codes.Aborted
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	st := status.New(code, err.Error())
	if failure := wire.Failure(err); failure != nil {
		if detailed, err := st.WithDetails(failure); err == nil {
			st = detailed
		}
	}
	return st.Err()
}

// keyConflict becomes HTTP 422 in REST, by its reason.
func keyConflict(message string) error {
	st, err := status.New(codes.AlreadyExists, message).WithDetails(&errdetails.ErrorInfo{Reason: "KEY_CONFLICT", Domain: "carillon"})
	if err != nil {
		return status.Error(codes.AlreadyExists, message)
	}
	return st.Err()
}
