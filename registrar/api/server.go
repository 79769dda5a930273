package api

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Server is a gRPC server that identifies callers before it reads their messages.
//
// The library reads the message of a unary call before any interceptor runs, so an unknown caller
// could make this process hold the largest message (schedule.MaxApplyBytes) for each stream of a
// connection. A call with one message each way is the same on the wire as a stream, so every unary
// call is served as a stream here, and its message is read after the interceptors have admitted
// the call. (The library's tap runs under the lock of its connection, and a refused call keeps its
// context until its timeout.)
type Server struct {
	*grpc.Server
	outside []grpc.StreamServerInterceptor // of unary calls, before the message is read
	inside  []grpc.UnaryServerInterceptor  // of unary calls, once it is
}

// Interceptors run before every call; nil ones do nothing.
type Interceptors struct {
	// Early runs before the message of a unary call is read.
	Early  grpc.StreamServerInterceptor
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
	// Observe hears of every call that has ended.
	Observe func(method string, code codes.Code, took time.Duration)
	// Costly runs before the rules of a unary request are computed, which is work,
	// too.
	Costly grpc.UnaryServerInterceptor
	// Strangers limits the log lines of callers that are not authenticated. nil
	// where authentication is off: then every call has a line.
	Strangers *logthrottle.PerPeer
	// Refusals limits the log lines of refused calls of each identified caller, by
	// subject. nil: each has a line.
	Refusals *logthrottle.PerPeer
}

// NewServer serves carillon.v1: every call is logged, a panic ends one call only, errors become
// statuses, and malformed requests are refused. inner runs in its order inside of the access log
// and the mapping of errors, and before validation: the place for authorization.
func NewServer(log *slog.Logger, inner []Interceptors, options ...grpc.ServerOption) *Server {
	if log == nil {
		log = slog.Default()
	}
	log = log.With("component", "api")
	calls := access{log: log}
	validateUnary, validateStream := validateRequests()
	var early, stream []grpc.StreamServerInterceptor
	var unary, costly []grpc.UnaryServerInterceptor
	for _, i := range inner {
		if i.Observe != nil {
			calls.observe = i.Observe
		}
		if i.Strangers != nil {
			calls.strangers = i.Strangers
		}
		if i.Refusals != nil {
			calls.refusals = i.Refusals
		}
		if i.Early != nil {
			early = append(early, i.Early)
		}
		if i.Unary != nil {
			unary = append(unary, i.Unary)
		}
		if i.Stream != nil {
			stream = append(stream, i.Stream)
		}
		if i.Costly != nil {
			costly = append(costly, i.Costly)
		}
	}
	outer := []grpc.StreamServerInterceptor{calls.stream, answerErrors(log), recoverPanics(log), boundMessages}
	return &Server{
		Server: grpc.NewServer(append([]grpc.ServerOption{
			grpc.MaxRecvMsgSize(schedule.MaxApplyBytes),
			grpc.ChainStreamInterceptor(append(append(slices.Clone(outer), stream...), validateStream)...),
			grpc.UnknownServiceHandler(noSuchCall),
		}, options...)...),
		outside: append(outer, early...),
		inside:  append(append(append(unary, holdToSize, fillOwner), costly...), validateUnary),
	}
}

// recoverPanics ends only the call that panicked, and logs why.
func recoverPanics(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ss.Context(), "call panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = status.Error(codes.Internal, "internal error; see the server log")
			}
		}()
		return next(srv, ss)
	}
}

// noSuchCall answers unknown calls; they are authorized like all others.
func noSuchCall(_ any, ss grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(ss)
	return status.Errorf(codes.Unimplemented, "this server has no call %.200q", method)
}

// RegisterService puts a service on the server, its unary calls as streams of
// one message each way.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	served := *desc
	served.Methods, served.Streams = nil, slices.Clone(desc.Streams)
	for i := range desc.Methods {
		call := &desc.Methods[i]
		served.Streams = append(served.Streams, grpc.StreamDesc{StreamName: call.MethodName, Handler: s.unread(desc.ServiceName, call)})
	}
	s.Server.RegisterService(&served, impl)
}

// unread calls the interceptors itself: the library skips stream interceptors for calls with one
// message each way.
func (s *Server) unread(service string, call *grpc.MethodDesc) grpc.StreamHandler {
	info := &grpc.StreamServerInfo{FullMethod: "/" + service + "/" + call.MethodName}
	next := func(impl any, ss grpc.ServerStream) error {
		resp, err := call.Handler(impl, ss.Context(), func(req any) error { return read(ss, req) }, s.within)
		if err != nil {
			return err
		}
		return ss.SendMsg(resp)
	}
	for _, i := range slices.Backward(s.outside) {
		after := next
		next = func(impl any, ss grpc.ServerStream) error { return i(impl, ss, info, after) }
	}
	return next
}

// read reads the one message. A missing message is the caller's fault; the library calls it
// INTERNAL.
func read(ss grpc.ServerStream, req any) error {
	err := ss.RecvMsg(req)
	if status.Code(err) == codes.Internal {
		return status.Error(codes.InvalidArgument, status.Convert(err).Message())
	}
	return err
}

// within calls the interceptors that see the message.
func (s *Server) within(ctx context.Context, req any, call *grpc.UnaryServerInfo, last grpc.UnaryHandler) (any, error) {
	next := last
	for _, i := range slices.Backward(s.inside) {
		after := next
		next = func(ctx context.Context, req any) (any, error) { return i(ctx, req, call, after) }
	}
	return next(ctx, req)
}

// maxRequestBytes fits the largest DAG with its envelope, the limit of every call but
// those in large.
const maxRequestBytes = schedule.MaxDAGBytes + 64<<10

// large are the calls that are held to the limit of the server only, schedule.MaxApplyBytes.
var large = map[string]bool{
	carillonv1.ScheduleService_ApplySchedules_FullMethodName: true,
	carillonv1.QueueService_EnqueueRuns_FullMethodName:       true,
	carillonv1.EventService_PublishEvents_FullMethodName:     true,
}

// holdToSize enforces maxRequestBytes. gRPC has one limit per server, which is that of
// ApplySchedules.
func holdToSize(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok && !large[call.FullMethod] {
		if size := proto.Size(m); size > maxRequestBytes {
			return nil, status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than %d", size, maxRequestBytes)
		}
	}
	return next(ctx, req)
}
