package tracing_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// recording is a Tracer whose ended spans can be looked at.
func recording(sampler sdktrace.Sampler) (*tracing.Tracer, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return tracing.New(recorder, sampler, resource.Empty()), recorder
}

func aLaunch(n uint64) schedule.Launch {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], n)
	return schedule.Launch{
		Run:        schedule.Run{Key: sha256.Sum256(seed[:]), ScheduleID: "s", Trigger: schedule.TriggerSchedule, RunAt: time.Unix(1000, 0), FireAt: time.Unix(1001, 0)},
		Definition: &schedule.Definition{WorkflowID: "w", Version: 1, UserID: "u"},
	}
}

func TestWhatIsOffOrNotSampledAllocatesNothing(t *testing.T) {
	never, _ := recording(sdktrace.TraceIDRatioBased(0))
	launches := []schedule.Launch{aLaunch(1), aLaunch(2)}
	decisions := []schedule.PlanDecision{{Rows: []schedule.Run{launches[0].Run}}}
	for name, tracer := range map[string]*tracing.Tracer{"off": nil, "not sampled": never} {
		req := launches[0].StartRequest()
		allocated := testing.AllocsPerRun(100, func() {
			pass := tracing.Pass{Began: time.Unix(1, 0), End: time.Unix(2, 0)}
			tracer.Planned(pass, decisions, &schedule.PlanResult{}) // an idle tick
			tracer.Claimed(pass, launches)
			span := tracer.Launch(&launches[0])
			req.TraceParent = span.TraceParent()
			start := tracer.Start(&req)
			call := start.Call("http")
			call.End(schedule.Outcome{Status: schedule.StatusSuccess}, nil)
			start.End(schedule.Outcome{}, nil)
			span.End(schedule.Outcome{}, nil)
		})
		if allocated > 0 {
			t.Errorf("%s: %v allocations a launch", name, allocated)
		}
	}
}

// TestProcessesThatShareOnlyTheKeyMakeOneTrace has the steps of a run made by
// tracers that know nothing of each other.
func TestProcessesThatShareOnlyTheKeyMakeOneTrace(t *testing.T) {
	planner, planned := recording(sdktrace.AlwaysSample())
	worker, worked := recording(sdktrace.AlwaysSample())
	launcher, launched := recording(sdktrace.AlwaysSample())
	l := aLaunch(7)
	pass := tracing.Pass{Began: time.Unix(900, 0), End: time.Unix(901, 0)}
	planner.Planned(pass, []schedule.PlanDecision{{Rows: []schedule.Run{l.Run}}}, &schedule.PlanResult{Candidates: 1, Inserted: 1})
	worker.Claimed(pass, []schedule.Launch{l})
	for range 2 { // delivered again
		span := worker.Launch(&l)
		req := l.StartRequest()
		req.TraceParent = span.TraceParent()
		start := launcher.Start(&req)
		start.Call("http").End(schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}, nil)
		start.End(schedule.Outcome{}, context.DeadlineExceeded)
		span.End(schedule.Outcome{}, nil)
	}
	spans := append(append(planned.Ended(), worked.Ended()...), launched.Ended()...)
	parent := map[string]string{"plan": "", "claim": "plan", "launch": "claim", "start": "launch", "call": "start"}
	seen := make(map[string]int)
	byID := make(map[string]string)
	for _, s := range spans {
		byID[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range spans {
		seen[s.Name()]++
		if s.Name() == "tick" {
			continue
		}
		if s.SpanContext().TraceID().String() != l.Run.Key.String()[:32] {
			t.Errorf("%s lies in trace %s", s.Name(), s.SpanContext().TraceID())
		}
		if got := byID[s.Parent().SpanID().String()]; got != parent[s.Name()] {
			t.Errorf("%s lies below %q, want %q", s.Name(), got, parent[s.Name()])
		}
	}
	for name, want := range map[string]int{"tick": 1, "plan": 1, "claim": 1, "launch": 2, "start": 2, "call": 2} {
		if seen[name] != want {
			t.Errorf("%d spans %s, want %d", seen[name], name, want)
		}
	}
}

func TestEveryProcessSamplesTheSameRuns(t *testing.T) {
	a, _ := recording(sdktrace.TraceIDRatioBased(0.25))
	b, _ := recording(sdktrace.TraceIDRatioBased(0.25))
	sampled := 0
	for n := range uint64(4000) {
		l := aLaunch(n)
		if a.Samples(l.Run.Key) != b.Samples(l.Run.Key) {
			t.Fatalf("run %d: two processes with one sampler disagree", n)
		}
		if a.Samples(l.Run.Key) {
			sampled++
		}
	}
	if sampled < 850 || sampled > 1150 {
		t.Errorf("%d of 4000 sampled, want about a quarter", sampled)
	}
}

func TestTheEnvironmentSaysWhetherAndHowToTrace(t *testing.T) {
	for _, c := range []struct {
		name    string
		env     map[string]string
		on      bool
		problem string // of Open
	}{
		{name: "no collector is named"},
		{name: "a collector is named", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		{name: "one for traces alone", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		{name: "but the SDK is disabled", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		{name: "but nothing is to be exported", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		{name: "a protocol that is not spoken", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, on: true, problem: `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is neither`},
		{name: "an unknown sampler", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "some"}, on: true, problem: `OTEL_TRACES_SAMPLER: "some" is not one of`},
		{name: "a ratio past 1", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, on: true, problem: `OTEL_TRACES_SAMPLER_ARG: "7" is not a number from 0 to 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			tracer, err := tracing.Open(t.Context(), nil, slog.New(slog.DiscardHandler))
			if tracing.On() != c.on || (tracer != nil) != (c.on && c.problem == "") {
				t.Errorf("on: %v, a tracer: %v", tracing.On(), tracer != nil)
			}
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("error %v, want %q", err, c.problem)
			}
			if err := tracer.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
