package traces_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// collector takes spans by OTLP, over gRPC and over HTTP.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracev1.Span
}

func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := &collectorv1.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, req); err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), req)
}

// find is the span with an id; nil: it has not come yet.
func (c *collector) find(id []byte) *tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if bytes.Equal(s.GetSpanId(), id) {
			return s
		}
	}
	return nil
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

// listen starts the collector and has this process' tracing go there.
func (c *collector) listen(t *testing.T, protocol string) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	if protocol != "grpc" {
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
		return
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+lis.Addr().String())
}

// tracedExecutor answers at once and keeps the traceparent of each run.
type tracedExecutor struct {
	mu      sync.Mutex
	parents map[string]string // key → traceparent
}

func (e *tracedExecutor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parents[r.Header.Get("Idempotency-Key")] = r.Header.Get("traceparent")
	_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
}

func (e *tracedExecutor) one() (key, parent string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, parent := range e.parents {
		return key, parent
	}
	return "", ""
}

// lines is a log that many write and one reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveTraced runs one process until the test ends.
func serveTraced(t *testing.T, settings map[string]any, log *slog.Logger) *app.App {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	all := map[string]any{"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "workflow_store": "none", "report_secret": "of this test alone"}
	for name, value := range settings {
		all[name] = value
	}
	cfg, err := app.Load(fs, all)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: log, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(func() {
		end()
		running.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestATraceLeadsFromTheTickToTheExecutor follows a run through each way that a
// launch can take.
func TestATraceLeadsFromTheTickToTheExecutor(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		name     string
		protocol string
		start    func(t *testing.T, executor string) *app.App // the registrar's process
	}{
		{name: "in one process, exported over gRPC", protocol: "grpc", start: func(t *testing.T, executor string) *app.App {
			return serveTraced(t, map[string]any{"executor_url": executor}, quiet)
		}},
		{name: "by the stream to a launcher elsewhere, exported over HTTP", protocol: "http/protobuf", start: func(t *testing.T, executor string) *app.App {
			database := migrated.Postgres(t)
			launcher := serveTraced(t, map[string]any{"roles": "launcher", "database_url": database, "executor_url": executor}, quiet)
			return serveTraced(t, map[string]any{"roles": "registrar,worker", "database_url": database, "launcher_addr": launcher.GRPCAddr()}, quiet)
		}},
		{name: "through the launch queue", protocol: "http/protobuf", start: func(t *testing.T, executor string) *app.App {
			database, redis := migrated.Postgres(t), services.Redis(t)
			serveTraced(t, map[string]any{"roles": "launcher", "database_url": database, "executor_url": executor, "launch_queue": "redis", "redis_url": redis}, quiet)
			return serveTraced(t, map[string]any{"roles": "registrar,worker", "database_url": database, "launch_queue": "redis", "redis_url": redis}, quiet)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans, executor := &collector{}, &tracedExecutor{parents: make(map[string]string)}
			spans.listen(t, c.protocol)
			server := httptest.NewServer(executor)
			defer server.Close()
			a := c.start(t, server.URL)
			register(t, a)
			eventually(t, "a run was executed", func() bool { key, _ := executor.one(); return key != "" })
			key, parent := executor.one()
			if !strings.HasPrefix(parent, "00-"+key[:32]+"-") || !strings.HasSuffix(parent, "-01") {
				t.Fatalf("the executor of run %s is called with traceparent %q", key, parent)
			}
			id, err := hex.DecodeString(strings.Split(parent, "-")[2])
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"call", "start", "launch", "claim", "plan"} {
				eventually(t, "the collector has the span "+name, func() bool { return spans.find(id) != nil })
				span := spans.find(id)
				if span.GetName() != name || hex.EncodeToString(span.GetTraceId()) != key[:32] {
					t.Fatalf("%s of trace %x where %s of the run was to be", span.GetName(), span.GetTraceId(), name)
				}
				id = span.GetParentSpanId()
				if name == "plan" && len(span.GetLinks()) == 1 {
					id = span.GetLinks()[0].GetSpanId()
				}
			}
			eventually(t, "the tick that planned it", func() bool { s := spans.find(id); return s != nil && s.GetName() == "tick" })
		})
	}
}

// eventually asks again until ready says so.
func eventually(t *testing.T, what string, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ready(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func register(t *testing.T, a *app.App) {
	t.Helper()
	eventually(t, "registered", func() bool {
		resp, err := http.Post("http://"+a.HTTPAddr()+"/v1/schedules", "application/json",
			strings.NewReader(`{"schedule_id":"s","workflow_id":"w","version":1,"user_id":"u","interval_ms":1000,"overlap_policy":"allow"}`))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// TestTheTraceOfARunIsOnTheRunAndInTheLogs also holds what is not sampled: its
// executor is told so, and nothing is exported of it.
func TestTheTraceOfARunIsOnTheRunAndInTheLogs(t *testing.T) {
	spans, executor := &collector{}, &tracedExecutor{parents: make(map[string]string)}
	spans.listen(t, "http/protobuf")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	server := httptest.NewServer(executor)
	defer server.Close()
	var log lines
	a := serveTraced(t, map[string]any{"executor_url": server.URL}, app.NewLogger(&log, app.Config{LogLevel: "info", LogFormat: "json"}))
	register(t, a)
	var key, parent string
	eventually(t, "a run was executed", func() bool { key, parent = executor.one(); return key != "" })
	if !strings.HasPrefix(parent, "00-"+key[:32]+"-") || !strings.HasSuffix(parent, "-00") {
		t.Errorf("the executor of a run that is not sampled is called with traceparent %q", parent)
	}
	eventually(t, "its end stands in the log with its trace id", func() bool {
		for line := range strings.SplitSeq(log.String(), "\n") {
			if strings.Contains(line, `"run settled"`) && strings.Contains(line, `"trace_id":"`+key[:32]+`"`) {
				return true
			}
		}
		return false
	})
	resp, err := http.Get("http://" + a.HTTPAddr() + "/v1/runs/" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), `"trace_id":"`+key[:32]+`"`) {
		t.Errorf("the run shows no trace id: %s", text)
	}
	if n := spans.count(); n != 0 {
		t.Errorf("%d spans exported of what is not sampled", n)
	}
}
