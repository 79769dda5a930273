package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillon/carillon/internal/schedule"
)

// Span is an open span. The zero value is no span.
type Span struct {
	tracer *Tracer
	span   trace.Span
}

// The ids of a run's spans; see the package comment.
func traceID(key schedule.Key) trace.TraceID { return trace.TraceID(key[:16]) }
func planID(key schedule.Key) trace.SpanID   { return trace.SpanID(key[16:24]) }
func claimID(key schedule.Key) trace.SpanID  { return trace.SpanID(key[24:]) }

// Samples reports whether a run's spans are recorded. Processes with the same sampler agree.
func (t *Tracer) Samples(key schedule.Key) bool {
	if t == nil {
		return false
	}
	d := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: traceID(key)}).Decision
	return d == sdktrace.RecordAndSample
}

// Pass is one transaction of a term, with its start and end.
type Pass struct {
	Term       schedule.Term
	Began, End time.Time
}

// Planned records a plan transaction and, in separate traces, its runs. An idle tick records nothing.
func (t *Tracer) Planned(p Pass, decisions []schedule.PlanDecision, result *schedule.PlanResult) {
	if t == nil || result.Inserted == 0 {
		return
	}
	_, tick := t.spans.Start(context.Background(), "tick", trace.WithTimestamp(p.Began), trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int("carillon.shard", p.Term.Shard), attribute.Int64("carillon.epoch", p.Term.Epoch),
		attribute.Int("carillon.schedules", result.Candidates), attribute.Int("carillon.planned", result.Inserted),
	))
	defer tick.End(trace.WithTimestamp(p.End))
	for i := range decisions {
		for j := range decisions[i].Rows {
			run := &decisions[i].Rows[j]
			if !t.Samples(run.Key) {
				continue
			}
			ctx := withIDs(context.Background(), traceID(run.Key), planID(run.Key))
			_, span := t.spans.Start(ctx, "plan", trace.WithNewRoot(), trace.WithTimestamp(p.Began),
				trace.WithLinks(trace.Link{SpanContext: tick.SpanContext()}), trace.WithAttributes(ofRun(run)...))
			span.End(trace.WithTimestamp(p.End))
		}
	}
}

// Claimed records the runs that a claim transaction launches.
func (t *Tracer) Claimed(p Pass, launches []schedule.Launch) {
	if t == nil {
		return
	}
	for i := range launches {
		run := &launches[i].Run
		if !t.Samples(run.Key) {
			continue
		}
		ctx := context.Background()
		if planned(run.Trigger) {
			ctx = withParent(ctx, run.Key, planID(run.Key))
		}
		_, span := t.spans.Start(withIDs(ctx, traceID(run.Key), claimID(run.Key)), "claim",
			trace.WithTimestamp(p.Began), trace.WithAttributes(ofRun(run)...))
		span.End(trace.WithTimestamp(p.End))
	}
}

// planned reports whether the planner made the run, not a request.
func planned(trigger schedule.Trigger) bool {
	return trigger == schedule.TriggerSchedule || trigger == schedule.TriggerCatchup
}

// Skipped records that a run ended before its launch.
func (t *Tracer) Skipped(s *schedule.Skip) {
	if !t.Samples(s.Key) {
		return
	}
	_, span := t.spans.Start(withParent(context.Background(), s.Key, planID(s.Key)), "skip", trace.WithAttributes(
		attribute.String("carillon.schedule_id", s.ScheduleID), attribute.String("carillon.key", s.Key.String()),
		attribute.String("carillon.run_at", s.RunAt.UTC().Format(time.RFC3339)),
		attribute.String("carillon.status", string(s.To)), attribute.String("carillon.reason", string(s.Reason)),
	))
	span.End()
}

// Launch opens the span of one delivery by the worker.
func (t *Tracer) Launch(l *schedule.Launch) Span {
	if !t.Samples(l.Run.Key) {
		return Span{}
	}
	return t.launch(l)
}

func (t *Tracer) launch(l *schedule.Launch) Span {
	ctx := withParent(context.Background(), l.Run.Key, claimID(l.Run.Key))
	_, span := t.spans.Start(ctx, "launch", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(ofRun(&l.Run)...),
		trace.WithAttributes(attribute.Int("carillon.deliveries", int(l.Run.Deliveries))))
	return Span{t, span}
}

// Start opens the launcher's span of one delivery, as a child of the worker's if there is one.
func (t *Tracer) Start(req *schedule.StartRequest) Span {
	if t == nil {
		return Span{}
	}
	return t.start(req)
}

// start is a separate function, like the ones below: the locals of a span would make the stack grow
// between fire_at and the call, even without tracing.
func (t *Tracer) start(req *schedule.StartRequest) Span {
	ctx := context.Background()
	if parent := parse(req.TraceParent); parent.IsSampled() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else if t.Samples(req.Key) { // the sender does not trace
		ctx = withIDs(ctx, traceID(req.Key), trace.SpanID{})
	} else {
		return Span{}
	}
	_, span := t.spans.Start(ctx, "start", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("carillon.schedule_id", req.ScheduleID), attribute.String("carillon.key", req.Key.String()),
		attribute.String("carillon.workflow_id", req.WorkflowID), attribute.Int("carillon.version", int(req.Version)),
	))
	return Span{t, span}
}

// Call opens the span of one call of the executor, as a child of the launcher's.
func (s Span) Call(executor string) Span {
	if s.span == nil {
		return Span{}
	}
	return s.call(executor)
}

func (s Span) call(executor string) Span {
	_, span := s.tracer.spans.Start(trace.ContextWithSpan(context.Background(), s.span), "call",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("carillon.executor", executor)))
	return Span{s.tracer, span}
}

// End closes the span with the result.
func (s Span) End(outcome schedule.Outcome, err error) {
	if s.span != nil {
		s.end(outcome, err)
	}
}

func (s Span) end(outcome schedule.Outcome, err error) {
	s.span.SetAttributes(attribute.String("carillon.status", string(outcome.Status)), attribute.String("carillon.reason", string(outcome.Reason)),
		attribute.String("carillon.run_id", outcome.RunID))
	switch {
	case err != nil:
		s.span.SetStatus(codes.Error, err.Error())
	case outcome.Status == schedule.StatusFailed:
		s.span.SetStatus(codes.Error, string(outcome.Reason))
	}
	s.span.End()
}

// TraceParent is the W3C header with the span as parent; empty: no span.
func (s Span) TraceParent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-01"
}

// NotSampled is the header of a run that is not sampled, so that its executor does not record it
// either. It is empty with tracing off: the executor decides.
func (t *Tracer) NotSampled(key schedule.Key) string {
	if t == nil {
		return ""
	}
	id := ids{}.NewSpanID(context.Background(), traceID(key))
	return "00-" + key.TraceID() + "-" + id.String() + "-00"
}

func ofRun(run *schedule.Run) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("carillon.schedule_id", run.ScheduleID), attribute.String("carillon.key", run.Key.String()),
		attribute.String("carillon.run_at", run.RunAt.UTC().Format(time.RFC3339)),
		attribute.String("carillon.fire_at", run.FireAt.UTC().Format(time.RFC3339Nano)),
		attribute.String("carillon.trigger", string(run.Trigger)), attribute.Int("carillon.revision", int(run.Revision)),
	}
}
