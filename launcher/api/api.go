// Package api serves the launcher as carillon.v1.RunLauncher, for workers in
// other processes and for callers who want its idempotency before an executor
// of their own.
package api

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// Register puts the launcher on a server.
func Register(s grpc.ServiceRegistrar, l Launcher) {
	carillonv1.RegisterRunLauncherServer(s, &server{launcher: l})
}

type server struct {
	carillonv1.UnimplementedRunLauncherServer
	launcher Launcher
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

// batchOpen bounds the starts of one stream that are open at once.
const batchOpen = 1000

// StartBatch starts what comes, and answers each when it is known.
func (s *server) StartBatch(stream grpc.BidiStreamingServer[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]) error {
	var (
		wg      sync.WaitGroup
		sending sync.Mutex
		open    = make(chan struct{}, batchOpen)
	)
	defer wg.Wait()
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		open <- struct{}{}
		wg.Go(func() {
			defer func() { <-open }()
			answer := s.answer(stream.Context(), req.GetStart())
			sending.Lock()
			defer sending.Unlock()
			_ = stream.Send(answer) // a broken stream ends the loop at Recv
		})
	}
}

func (s *server) answer(ctx context.Context, req *carillonv1.RunLauncherStartRequest) *carillonv1.RunLauncherStartBatchResponse {
	answer := &carillonv1.RunLauncherStartBatchResponse{IdempotencyKey: req.GetIdempotencyKey()}
	outcome, err := s.Start(ctx, req)
	if err != nil {
		st := status.Convert(err)
		answer.Code, answer.Message = uint32(st.Code()), st.Message()
		return answer
	}
	answer.Outcome = outcome
	return answer
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
	return resp
}

// unknown says that the same request may be sent again.
func unknown(err error) error {
	switch {
	case errors.Is(err, launcher.ErrBusy):
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// keyConflict is HTTP 422 on the REST side, which looks for the reason.
func keyConflict(message string) error {
	st, err := status.New(codes.AlreadyExists, message).WithDetails(&errdetails.ErrorInfo{Reason: "KEY_CONFLICT", Domain: "carillon"})
	if err != nil {
		return status.Error(codes.AlreadyExists, message)
	}
	return st.Err()
}
