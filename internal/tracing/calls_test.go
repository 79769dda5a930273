package tracing_test

import (
	"net"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

func TestACallOfAServerIsASpanBelowItsCallers(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		name, method, parent string
		end                  error
		want                 string // name of the span; empty: none
		code                 string
		outcome              otelcodes.Code
	}{
		{name: "a call below its caller", method: "/carillon.v1.RunService/GetRun", parent: parent, want: "carillon.v1.RunService/GetRun", code: "OK"},
		{name: "a call of somebody who does not trace", method: "/carillon.v1.RunService/GetRun", want: "carillon.v1.RunService/GetRun", code: "OK"},
		{name: "a caller that is not sampled", method: "/carillon.v1.RunService/GetRun", parent: parent[:len(parent)-1] + "0"},
		{name: "a call that the caller got wrong is no error of the server", method: "/carillon.v1.RunService/GetRun", parent: parent, end: status.Error(codes.InvalidArgument, "no key"), want: "carillon.v1.RunService/GetRun", code: "INVALID_ARGUMENT"},
		{name: "a call that the server failed", method: "/carillon.v1.RunService/GetRun", parent: parent, end: status.Error(codes.Unavailable, "no database"), want: "carillon.v1.RunService/GetRun", code: "UNAVAILABLE", outcome: otelcodes.Error},
		{name: "the stream of launches", method: "/carillon.v1.RunLauncher/StartBatch", parent: parent},
		{name: "a health check", method: "/grpc.health.v1.Health/Check", parent: parent},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracer, recorder := recording(sdktrace.AlwaysSample())
			ctx := t.Context()
			if c.parent != "" {
				ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("traceparent", c.parent))
			}
			calls := tracer.Calls()
			ctx = calls.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: c.method})
			calls.HandleRPC(ctx, &stats.InHeader{FullMethod: c.method, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}})
			calls.HandleRPC(ctx, &stats.End{Error: c.end})
			spans := recorder.Ended()
			if c.want == "" {
				if len(spans) > 0 {
					t.Errorf("%d spans", len(spans))
				}
				return
			}
			if len(spans) != 1 {
				t.Fatalf("%d spans, want 1", len(spans))
			}
			s := spans[0]
			if s.Name() != c.want || s.SpanKind() != trace.SpanKindServer || s.Status().Code != c.outcome {
				t.Errorf("%s, %s, %v; want %s, server, %v", s.Name(), s.SpanKind(), s.Status().Code, c.want, c.outcome)
			}
			if c.parent != "" && (s.SpanContext().TraceID().String() != c.parent[3:35] || s.Parent().SpanID().String() != c.parent[36:52]) {
				t.Errorf("lies in trace %s below %s", s.SpanContext().TraceID(), s.Parent().SpanID())
			}
			got := attribute.NewSet(s.Attributes()...)
			for name, want := range map[attribute.Key]string{"rpc.system.name": "grpc", "rpc.method": c.want, "rpc.response.status_code": c.code, "server.address": "127.0.0.1", "server.port": "9090"} {
				if value, _ := got.Value(name); value.String() != want {
					t.Errorf("%s is %q, want %q", name, value.String(), want)
				}
			}
		})
	}
}
