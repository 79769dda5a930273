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

// Calls makes a span of each call that a server answers, below the caller's if
// that names one. The stream of launches has none, as its runs have their own
// spans; neither have health checks.
func (t *Tracer) Calls() stats.Handler { return calls{t.spans} }

type calls struct{ spans trace.Tracer }

// TagRPC begins the span. Names are those of OpenTelemetry's conventions for RPC.
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
			span.SetStatus(otelcodes.Error, status.Convert(event.Error).Message()) // others are the caller's fault
		}
		span.SetAttributes(attribute.String("rpc.response.status_code", rpccode.Code(code).String())) // NOT_FOUND, not NotFound
		span.End()
	}
}

// TagConn and HandleConn belong to the interface; connections have no spans.
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (calls) HandleConn(context.Context, stats.ConnStats) {}
