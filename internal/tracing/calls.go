package tracing

import (
	"context"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Calls makes a span of each call to a server, as a child of the caller's if there is one. Health
// checks have none, nor has the stream of launches, because its runs have spans.
func (t *Tracer) Calls() stats.Handler { return calls{t.spans} }

type calls struct{ spans trace.Tracer }

// TagRPC begins the span. Names follow OpenTelemetry's conventions for RPC.
func (c calls) TagRPC(ctx context.Context, call *stats.RPCTagInfo) context.Context {
	if strings.HasSuffix(call.FullMethodName, "/StartBatch") || strings.HasPrefix(call.FullMethodName, "/grpc.health.") {
		return ctx
	}
	if parents := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(parents) == 1 {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parse(parents[0]))
	}
	method := strings.TrimPrefix(call.FullMethodName, "/")
	ctx, _ = c.spans.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method)))
	return ctx
}

// HandleRPC completes the span. Without one it has no effect.
func (calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	switch event := event.(type) {
	case *stats.InHeader:
		host, portText, _ := net.SplitHostPort(event.LocalAddr.String())
		if port, err := strconv.Atoi(portText); err == nil { // not a Unix socket
			span.SetAttributes(attribute.String("server.address", host), attribute.Int("server.port", port))
		}
	case *stats.End:
		code := status.Code(event.Error)
		switch code {
		case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
			span.SetStatus(otelcodes.Error, status.Convert(event.Error).Message()) // other codes are errors of the caller
		}
		span.SetAttributes(attribute.String("rpc.response.status_code", rpccode.Code(code).String())) // NOT_FOUND, not NotFound
		span.End()
	}
}

// TagConn implements stats.Handler; connections have no spans.
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (calls) HandleConn(context.Context, stats.ConnStats) {}
