package tracing

import (
	"context"
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillon/carillon/internal/schedule"
)

// ids returns the ids of a run's key from the context, otherwise random ones. The SDK passes only a
// context. Use such a context for one span and never pass it on.
type ids struct{}

type chosen struct {
	trace trace.TraceID
	span  trace.SpanID // zero: any
}

type chosenKey struct{}

func withIDs(ctx context.Context, id trace.TraceID, span trace.SpanID) context.Context {
	return context.WithValue(ctx, chosenKey{}, chosen{id, span})
}

// withParent sets the parent: a span of the run's trace, perhaps of another process.
func withParent(ctx context.Context, key schedule.Key, span trace.SpanID) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID(key), SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// NewIDs returns the ids of a root span.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	if !c.trace.IsValid() {
		_, _ = rand.Read(c.trace[:]) // crypto/rand never returns an error
	}
	return c.trace, g.NewSpanID(ctx, c.trace)
}

// NewSpanID returns the id of a child span.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	if !c.span.IsValid() {
		_, _ = rand.Read(c.span[:])
	}
	return c.span
}

// parse reads a W3C traceparent of version 00. An invalid one is not sampled.
func parse(header string) trace.SpanContext {
	const length = len("00-") + 32 + len("-") + 16 + len("-01")
	if len(header) != length || header[:3] != "00-" || header[35] != '-' || header[52] != '-' {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(header[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	span, err := trace.SpanIDFromHex(header[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags := trace.TraceFlags(0)
	if header[53:] == "01" {
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, Remote: true})
}
