package api

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// busy are the calls that machines make for every run, and probes. Their results have
// other log lines, so the access log has them at Debug unless they were refused.
var busy = map[string]bool{
	carillonv1.RunService_ReportRun_FullMethodName:   true,
	carillonv1.RunLauncher_Start_FullMethodName:      true,
	carillonv1.RunLauncher_StartBatch_FullMethodName: true,
	carillonv1.RunLauncher_Cancel_FullMethodName:     true,
	carillonv1.RunLauncher_FetchRuns_FullMethodName:  true,
	"/grpc.health.v1.Health/Check":                   true,
	"/grpc.health.v1.Health/Watch":                   true,
	"/grpc.health.v1.Health/List":                    true,
}

// access is the access log: one line per call with the caller and the result, never credentials.
// Calls without an identity share one line a second per peer, and refused calls of an identified
// caller one a second, so that neither can fill the disk.
type access struct {
	log       *slog.Logger
	observe   func(method string, code codes.Code, took time.Duration)
	strangers *logthrottle.PerPeer // nil: every call has a line
	refusals  *logthrottle.PerPeer // by subject; nil: every refused call has a line
}

func (a access) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	began := time.Now()
	ctx, call := auth.WithCall(ss.Context(), info.FullMethod)
	err := next(srv, withContext{ss, ctx})
	a.ended(ctx, call, time.Since(began), err)
	return err
}

type withContext struct {
	grpc.ServerStream
	ctx context.Context // a stream is its context
}

func (w withContext) Context() context.Context { return w.ctx }

func (a access) ended(ctx context.Context, call *auth.Call, took time.Duration, err error) {
	code := status.Code(err)
	if a.observe != nil {
		a.observe(call.Method, code, took)
	}
	level := slog.LevelInfo
	if code == codes.OK && busy[call.Method] {
		level = slog.LevelDebug
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	protocol, from := whence(ctx)
	leftOut, ok := a.admit(call.Identity, code, from)
	if !ok {
		return
	}
	fields := []slog.Attr{
		slog.String("method", schedule.Storable(call.Method, maxText)), slog.String("code", code.String()), slog.Duration("took", took),
		slog.String("protocol", protocol), slog.String("peer", from), slog.String("auth", call.Identity.Via),
	}
	if id := call.Identity; id.Subject != "" {
		fields = append(fields, slog.String("subject", id.Subject), slog.Any("roles", id.Roles))
		if id.Owner != "" && id.Owner != id.Subject {
			fields = append(fields, slog.String("owner", id.Owner))
		}
	}
	if leftOut > 0 {
		fields = append(fields, slog.Int(logthrottle.LeftOut, leftOut))
	}
	a.log.LogAttrs(ctx, level, "call", fields...)
}

// admit reports whether the call may have a line, and how many calls of the same
// caller had none since its last one.
func (a access) admit(id auth.Identity, code codes.Code, from string) (leftOut int, ok bool) {
	switch {
	case stranger(id, code):
		if a.strangers != nil {
			return a.strangers.Admit(from)
		}
	case refusedCall(code) && id.Subject != "" && a.refusals != nil:
		return a.refusals.AdmitKey(id.Subject)
	}
	return 0, true
}

// refusedCall reports whether a call was refused for its permissions or rate. Such callers may
// retry endlessly.
func refusedCall(code codes.Code) bool {
	return code == codes.Unauthenticated || code == codes.PermissionDenied || code == codes.ResourceExhausted
}

// stranger reports whether nothing proves who made a call. A report token that
// was refused proves nothing: only the call itself checks it.
func stranger(id auth.Identity, code codes.Code) bool {
	switch id.Via {
	case "", auth.ViaOpen:
		return true
	case auth.ViaReport:
		return code != codes.OK
	}
	return false
}

// whence returns the listener of a call and the caller's address. The gateway appends the
// address of its client to the header that the client sent, for every call;
// x-forwarded-host is missing if Host is empty.
func whence(ctx context.Context) (protocol, from string) {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if forwarded := md.Get("x-forwarded-for"); len(forwarded) > 0 && insideProcess(ctx) {
			return "rest", lastOf(forwarded)
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		return "grpc", p.Addr.String()
	}
	return "grpc", ""
}

func lastOf(forwarded []string) string {
	if len(forwarded) == 0 {
		return ""
	}
	all := strings.Split(forwarded[len(forwarded)-1], ",")
	return strings.TrimSpace(all[len(all)-1])
}

func insideProcess(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.Addr.Network() == "bufconn"
}
