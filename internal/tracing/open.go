package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The standard variables used here. The exporters and the SDK read the others (headers, certificates,
// timeouts, OTEL_BSP_…).
const (
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envDisabled       = "OTEL_SDK_DISABLED"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// closeTimeout is for the last export: an unreachable collector must not delay the shutdown.
const closeTimeout = time.Second

// Tracer makes the spans of runs. nil: tracing is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	sampler  sdktrace.Sampler
}

// On reports whether the environment enables tracing.
func On() bool {
	named := os.Getenv(envEndpoint) != "" || os.Getenv(envTracesEndpoint) != ""
	return named && !strings.EqualFold(os.Getenv(envDisabled), "true") && os.Getenv(envExporter) != "none"
}

// Open makes the Tracer of the environment; nil if tracing is off. It does not wait for the collector.
// Spans that cannot be exported are dropped.
func Open(ctx context.Context, attributes map[string]string, log *slog.Logger) (*Tracer, error) {
	if !On() {
		return nil, nil
	}
	sampler, err := samplerOf(os.Getenv(envSampler), os.Getenv(envSamplerArg))
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	own := []attribute.KeyValue{attribute.String("service.name", "carillon")}
	for name, value := range attributes {
		if value != "" {
			own = append(own, attribute.String(name, value))
		}
	}
	// The environment (OTEL_SERVICE_NAME) comes last, so it takes precedence.
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	log = log.With("component", "tracing")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("cannot export spans", "err", err) }))
	return New(sdktrace.NewBatchSpanProcessor(exporter), sampler, who), nil
}

// New makes a Tracer with a processor for its spans.
func New(to sdktrace.SpanProcessor, sampler sdktrace.Sampler, who *resource.Resource) *Tracer {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(to), sdktrace.WithSampler(sdktrace.ParentBased(sampler)),
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(who),
	)
	return &Tracer{provider: provider, spans: provider.Tracer("github.com/carillon/carillon"), sampler: sampler}
}

// Close exports the remaining spans within closeTimeout.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol := os.Getenv(envTracesProtocol)
	if protocol == "" {
		protocol = os.Getenv(envProtocol)
	}
	var exporter sdktrace.SpanExporter
	var err error
	switch protocol {
	case "", "http/protobuf": // the standard default
		exporter, err = otlptracehttp.New(ctx)
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s: %q is neither grpc nor http/protobuf", envProtocol, protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envEndpoint, err)
	}
	return exporter, nil
}

// samplerOf parses the standard names. A run's trace begins here, so the parentbased samplers behave
// like the others.
func samplerOf(name, arg string) (sdktrace.Sampler, error) {
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		if arg == "" {
			return sdktrace.AlwaysSample(), nil
		}
		ratio, err := strconv.ParseFloat(arg, 64)
		if err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("%s: %q is not a number from 0 to 1", envSamplerArg, arg)
		}
		return sdktrace.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf("%s: %q is not one of always_on, always_off, traceidratio, or these with parentbased_ before them", envSampler, name)
}
