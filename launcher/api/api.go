// Package api serves the launcher as carillon.v1.RunLauncher, for workers in
// other processes and for callers who want its idempotency before an executor
// of their own.
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

// Launcher is what is served; *launcher.Launcher is one.
type Launcher interface {
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}

// Options are for the starts of streams, which no interceptor sees: it sees the
// stream as one call.
type Options struct {
	// Check is the status of what is wrong with a start; nil: nothing is.
	Check func(start proto.Message) error
	// Observe hears of every start that is answered; nil: nobody does.
	Observe func(code codes.Code, took time.Duration)
	// Open bounds the starts of one stream that are open at once; what is sent
	// beyond it is not read until one of them is answered. Default 1000.
	Open int
	// Ending is closed when the process is about to end: then streams are closed
	// in a way that leaves nothing unanswered. nil: it never is.
	Ending <-chan struct{}
	Logger *slog.Logger // default slog.Default
}

// Register puts the launcher on a server.
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
	reply, err := s.launcher.Start(ctx, start)
	if err != nil {
		return nil, unknown(err)
	}
	if reply.Outcome.Reason == schedule.ReasonKeyConflict {
		return nil, keyConflict(reply.Outcome.ErrorMessage)
	}
	return responseOf(reply), nil
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

func responseOf(reply schedule.StartReply) *carillonv1.RunLauncherStartResponse {
	o := reply.Outcome
	resp := &carillonv1.RunLauncherStartResponse{
		Ok: o.OK(), RunId: o.RunID, Status: string(o.Status), Reason: string(o.Reason), TraceId: o.TraceID,
		ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage,
	}
	if !reply.LaunchedAt.IsZero() {
		resp.LaunchedAt = timestamppb.New(reply.LaunchedAt)
	}
	if reply.Deliveries > 0 {
		resp.Deliveries = &reply.Deliveries
	}
	return resp
}

// unknown says that the same request may be sent again, and what went wrong.
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

// keyConflict is HTTP 422 on the REST side, which looks for the reason.
func keyConflict(message string) error {
	st, err := status.New(codes.AlreadyExists, message).WithDetails(&errdetails.ErrorInfo{Reason: "KEY_CONFLICT", Domain: "carillon"})
	if err != nil {
		return status.Error(codes.AlreadyExists, message)
	}
	return st.Err()
}
