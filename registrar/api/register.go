package api

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Services is what Register puts behind the calls. *registrar.Registrar is
// each of the first four.
type Services struct {
	Writer    ScheduleWriter
	Reader    ScheduleReader
	Workflows Workflows
	Runs      Runs

	// Actor names who makes a call, for events and revisions; nil: nobody.
	Actor func(context.Context) string
	// Now is the clock that runs are stamped by; nil: time.Now.
	Now func() time.Time
}

// Register puts the registrar's services on a server, which must have been
// made with ServerOptions.
func Register(server grpc.ServiceRegistrar, s Services) {
	if s.Actor == nil {
		s.Actor = func(context.Context) string { return "" }
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	carillonv1.RegisterScheduleServiceServer(server, &scheduleServer{write: s.Writer, read: s.Reader, actor: s.Actor})
	carillonv1.RegisterWorkflowServiceServer(server, &workflowServer{workflows: s.Workflows, actor: s.Actor})
	carillonv1.RegisterRunServiceServer(server, &runServer{runs: s.Runs, actor: s.Actor, now: s.Now})
}

// maxRequestBytes lets the largest DAG and what stands around it pass.
const maxRequestBytes = schedule.MaxDAGBytes + 64<<10

// ServerOptions are what every server of carillon.v1 needs: a panic ends one
// call only, errors become statuses, and malformed requests are refused.
// Interceptors chained by later options run inside these; give those that
// must see every call, as metrics and authentication do, before.
func ServerOptions(log *slog.Logger) []grpc.ServerOption {
	if log == nil {
		log = slog.Default()
	}
	log = log.With("component", "api")
	errorsUnary, errorsStream := answerErrors(log)
	recoverUnary, recoverStream := recoverPanics(log)
	validateUnary, validateStream := validateRequests()
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.ChainUnaryInterceptor(errorsUnary, recoverUnary, validateUnary),
		grpc.ChainStreamInterceptor(errorsStream, recoverStream, validateStream),
	}
}

func recoverPanics(log *slog.Logger) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	recovered := func(ctx context.Context, method string, err *error) {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			*err = status.Error(codes.Internal, "internal error; the log of the server has the cause")
		}
	}
	unary := func(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer recovered(ctx, call.FullMethod, &err)
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer recovered(ss.Context(), call.FullMethod, &err)
		return next(srv, ss)
	}
	return unary, stream
}
