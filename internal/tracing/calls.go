package tracing

import (
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/stats"
)

// Calls makes a span of each call that a server answers, below the caller's if
// that names one: of everything but the stream of launches, whose runs have
// spans of their own, and what only looks whether somebody is there.
func (t *Tracer) Calls() stats.Handler {
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool {
			return !strings.HasSuffix(call.FullMethodName, "/StartBatch") && !strings.HasPrefix(call.FullMethodName, "/grpc.health.")
		}),
	)
}
