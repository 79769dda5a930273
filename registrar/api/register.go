package api

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Services is what Register puts behind the calls. *registrar.Registrar is
// each of the first five, every store is Workers.
type Services struct {
	Writer    ScheduleWriter
	Reader    ScheduleReader
	Workflows Workflows
	Grants    Grants
	Runs      Runs
	Workers   Workers    // nil: its calls are UNIMPLEMENTED
	Trail     AuditTrail // nil: its calls are UNIMPLEMENTED

	// Actor names who makes a call, for events and revisions; nil: the subject of
	// the caller's identity.
	Actor func(context.Context) string
	// Now is the clock that runs are stamped by; nil: time.Now.
	Now func() time.Time
	// Ending is closed when the server is to end: watches, which have no end of
	// their own, end then. nil: they end with their clients.
	Ending <-chan struct{}
}

// Register puts the registrar's services on a server, which must have been
// made with ServerOptions.
func Register(server grpc.ServiceRegistrar, s Services) {
	if s.Actor == nil {
		s.Actor = func(ctx context.Context) string { return auth.FromContext(ctx).Subject }
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	carillonv1.RegisterScheduleServiceServer(server, &scheduleServer{write: s.Writer, read: s.Reader, actor: s.Actor})
	carillonv1.RegisterWorkflowServiceServer(server, &workflowServer{workflows: s.Workflows, actor: s.Actor})
	carillonv1.RegisterGrantServiceServer(server, &grantServer{grants: s.Grants, actor: s.Actor, now: s.Now})
	carillonv1.RegisterRunServiceServer(server, &runServer{runs: s.Runs, actor: s.Actor, now: s.Now, ending: s.Ending})
	if s.Trail == nil {
		carillonv1.RegisterAuditServiceServer(server, carillonv1.UnimplementedAuditServiceServer{})
	} else {
		carillonv1.RegisterAuditServiceServer(server, &auditServer{trail: s.Trail})
	}
	if s.Workers == nil {
		carillonv1.RegisterWorkerServiceServer(server, carillonv1.UnimplementedWorkerServiceServer{})
		return
	}
	carillonv1.RegisterWorkerServiceServer(server, &workerServer{workers: s.Workers, now: s.Now})
}

// RegisterReports puts ReportRun alone on the server of a launcher without the
// registrar's role, for its executors. Every other call is UNIMPLEMENTED there.
func RegisterReports(server grpc.ServiceRegistrar, runs Runs) {
	carillonv1.RegisterRunServiceServer(server, &reportServer{all: &runServer{runs: runs}})
}

type reportServer struct {
	carillonv1.UnimplementedRunServiceServer
	all *runServer
}

func (s *reportServer) ReportRun(ctx context.Context, req *carillonv1.ReportRunRequest) (*carillonv1.ReportRunResponse, error) {
	return s.all.ReportRun(ctx, req)
}

// maxRequestBytes lets the largest DAG and what stands around it pass, which is
// as much as any call but ApplySchedules may send.
const maxRequestBytes = schedule.MaxDAGBytes + 64<<10

// holdToSize refuses what only an ApplySchedules may be as large as. gRPC knows
// one limit for all calls of a server; that must be the larger one.
func holdToSize(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok && call.FullMethod != carillonv1.ScheduleService_ApplySchedules_FullMethodName {
		if size := proto.Size(m); size > maxRequestBytes {
			return nil, status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than %d", size, maxRequestBytes)
		}
	}
	return next(ctx, req)
}

// ServerOptions are what every server of carillon.v1 needs: every call has a
// line in the log, a panic ends one call only, errors become statuses, and
// malformed requests are refused. What inner brings runs inside the access log
// and the answering of errors, in its order, and before the request is looked
// at: so stands the gate. Interceptors chained by later options run inside all
// of these.
func ServerOptions(log *slog.Logger, inner ...Interceptors) []grpc.ServerOption {
	if log == nil {
		log = slog.Default()
	}
	log = log.With("component", "api")
	calls := access{log: log}
	for _, i := range inner {
		if i.Observe != nil {
			calls.observe = i.Observe
		}
	}
	errorsUnary, errorsStream := answerErrors(log)
	validateUnary, validateStream := validateRequests()
	panics := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "call panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error; the log of the server has the cause")
	})
	unary := []grpc.UnaryServerInterceptor{calls.unary, errorsUnary, recovery.UnaryServerInterceptor(panics)}
	stream := []grpc.StreamServerInterceptor{calls.stream, errorsStream, recovery.StreamServerInterceptor(panics)}
	for _, i := range inner {
		if i.Unary != nil {
			unary = append(unary, i.Unary)
		}
		if i.Stream != nil {
			stream = append(stream, i.Stream)
		}
	}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(schedule.MaxApplyBytes),
		grpc.ChainUnaryInterceptor(append(unary, holdToSize, fillOwner, validateUnary)...),
		grpc.ChainStreamInterceptor(append(stream, validateStream)...),
	}
}

// Interceptors are what else stands before every call; nil ones do nothing.
type Interceptors struct {
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
	// Observe hears of every call that has ended.
	Observe func(method string, code codes.Code, took time.Duration)
}
