package api

import (
	"encoding/hex"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// Conversions from the registrar's types to protos. A zero time is null.

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// fromTimestamp is the other way; a null time is zero.
func fromTimestamp(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// count32 limits counters to 32 bits, because JSON has larger integers as strings.
func count32(n int64) uint32 {
	return uint32(min(max(n, 0), math.MaxUint32))
}

func scheduleOf(v registrar.View) *carillonv1.Schedule {
	s, d := v.Schedule, definitionOf(&v.Schedule.Definition)
	out := &carillonv1.Schedule{
		ScheduleId: d.ScheduleId, WorkflowId: d.WorkflowId, Version: d.Version, UserId: d.UserId,
		CronExpr: d.CronExpr, IntervalMs: d.IntervalMs, OnceAt: d.OnceAt,
		Timezone: d.Timezone, StartAt: d.StartAt, EndAt: d.EndAt, JitterMs: d.JitterMs, Dst: d.Dst,
		OverlapPolicy: d.OverlapPolicy, OverlapKey: d.OverlapKey, MaxQueued: d.MaxQueued,
		CatchupPolicy: d.CatchupPolicy, CatchupWindowMs: d.CatchupWindowMs,
		RunTimeoutMs: d.RunTimeoutMs, Priority: d.Priority,
		Input: d.Input, ExecutionGrantId: d.ExecutionGrantId, Labels: d.Labels, ManagedBy: d.ManagedBy, Expect: d.Expect,
		LaunchTimeoutMs: d.LaunchTimeoutMs, Retry: d.Retry,
		QueueId: d.QueueId, Limits: d.Limits, Webhook: d.Webhook, MaxRunMs: d.MaxRunMs, ExpiresMs: d.ExpiresMs, FairKey: d.FairKey, Group: d.Group, Consume: d.Consume,

		Revision: count32(s.Revision), RevisedAt: timestamp(s.RevisedAt), Paused: v.Paused,
		NextRunAt: timestamp(v.NextRunAt), LastRunAt: timestamp(s.LastRunAt),
		BacklogFrom: timestamp(s.Backlog.From), BacklogUntil: timestamp(s.Backlog.Until),
		PlanFailures: count32(int64(s.PlanFailures)),
		CreatedAt:    timestamp(s.CreatedAt), UpdatedAt: timestamp(s.UpdatedAt),
	}
	if v.Paused {
		out.PauseNote, out.PausedBy, out.PausedUntil = s.Pause.Note, s.Pause.By, timestamp(s.Pause.Until)
	}
	addRecent(out, &v.Recent)
	return out
}

func definitionOf(d *schedule.Definition) *carillonv1.ScheduleDefinition {
	return &carillonv1.ScheduleDefinition{
		ScheduleId: d.ScheduleID, WorkflowId: d.WorkflowID, Version: d.Version, UserId: d.UserID,
		CronExpr: d.CronExpr, IntervalMs: d.IntervalMS, OnceAt: timestamp(d.OnceAt),
		Timezone: d.Timezone, StartAt: timestamp(d.StartAt), EndAt: timestamp(d.EndAt),
		JitterMs: d.JitterMS, Dst: string(d.DST),
		OverlapPolicy: string(d.OverlapPolicy), OverlapKey: d.OverlapKey, MaxQueued: d.MaxQueued,
		CatchupPolicy: string(d.CatchupPolicy), CatchupWindowMs: d.CatchupWindowMS,
		RunTimeoutMs: d.RunTimeoutMS, Priority: d.Priority,
		Input: d.Input, ExecutionGrantId: d.ExecutionGrantID, Labels: d.Labels, ManagedBy: d.ManagedBy, Expect: expectOut(d.Expect),
		LaunchTimeoutMs: d.LaunchTimeoutMS, Retry: retryOut(d.Retry),
		QueueId: d.QueueID, Limits: d.Limits, Webhook: d.Webhook, MaxRunMs: d.MaxRunMS, ExpiresMs: d.ExpiresMS, FairKey: d.FairKey, Group: d.Group, Consume: consumeOut(&d.Consume),
	}
}

func firesOf(fires []registrar.Fire) []*carillonv1.Fire {
	out := make([]*carillonv1.Fire, len(fires))
	for i, f := range fires {
		out[i] = &carillonv1.Fire{RunAt: timestamp(f.RunAt), FireAt: timestamp(f.FireAt), Local: f.Local}
		if f.Note != "" {
			out[i].Note = &f.Note
		}
	}
	return out
}

func eventOf(e *schedule.Event) *carillonv1.ScheduleEvent {
	return &carillonv1.ScheduleEvent{
		Time: timestamp(e.Time), Kind: string(e.Kind), From: timestamp(e.From), To: timestamp(e.To),
		Count: count32(e.Count), Reason: string(e.Reason), Actor: e.Actor, Note: e.Note, Revision: count32(e.Revision),
	}
}

func revisionOf(r *schedule.Revision) *carillonv1.ScheduleRevision {
	return &carillonv1.ScheduleRevision{
		Revision: count32(r.Revision), Definition: definitionOf(&r.Definition),
		ChangedBy: r.ChangedBy, CreatedAt: timestamp(r.CreatedAt),
	}
}

func runOf(r *schedule.Run) *carillonv1.Run {
	out := &carillonv1.Run{
		IdempotencyKey: r.Key.String(), ScheduleId: r.ScheduleID, Revision: count32(r.Revision),
		UserId: r.UserID, WorkflowId: r.WorkflowID, Version: r.Version, RequestedBy: r.RequestedBy,
		RunAt: timestamp(r.RunAt), FireAt: timestamp(r.FireAt),
		Status: string(r.Status), Reason: string(r.Reason), Trigger: string(r.Trigger), OverlapPolicy: string(r.OverlapPolicy),
		Attempt: r.Attempt, Snoozes: r.Snoozes, Limits: r.Queue.Limits.Texts(), Deliveries: r.Deliveries, Priority: r.Priority,
		RunId: r.RunID, TraceId: traceIDOf(r), Epoch: count32(r.Epoch),
		WaitingSince: timestamp(r.WaitingSince), CancelRequestedAt: timestamp(r.CancelRequestedAt),
		ClaimedAt: timestamp(r.ClaimedAt), LaunchedAt: timestamp(r.LaunchedAt), StartedAt: timestamp(r.StartedAt),
		CompletedAt: timestamp(r.CompletedAt), TimeoutAt: timestamp(r.TimeoutAt), DeadlineAt: timestamp(r.DeadlineAt),
		ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
		MaxAttempts: max(r.MaxAttempts, 1), FailureClass: string(r.FailureClass), Dead: r.IsDead(),
		CreatedAt: timestamp(r.CreatedAt), UpdatedAt: timestamp(r.UpdatedAt),
		QueueId: r.Queue.ID, QueueState: string(r.Queue.State), GroupId: r.Queue.GroupID, FairKey: r.Queue.FairKey, WorkerId: r.Queue.Worker, AdmittedAs: string(r.Queue.AdmittedAs), EnqueuedAt: timestamp(r.Queue.EnqueuedAt),
		Unique: uniqueOf(r.Queue.Unique),
	}
	if !registrar.MayBeTold(r) {
		out.WebhookState = string(schedule.WebhookNone)
	}
	if r.Queue.In() {
		out.DispatchedAt = out.GetClaimedAt()
		if !r.Queue.State.Admitted() && r.Queue.State != schedule.QueueChained {
			out.ExpiresAt = timestamp(r.StartBy)
		}
	}
	if !r.RetryOf.IsZero() {
		out.RetryOf = r.RetryOf.String()
	}
	if key, ok := r.RetriedBy(); ok {
		out.RetriedBy = key.String()
	}
	if out.ExitCode = r.ExitCode; r.LogURL != "" {
		out.LogUrl = &r.LogURL
	}
	if v, ok := r.Progress.Values(); ok {
		out.Progress = &carillonv1.RunProgress{Done: v.Done, Total: v.Total, Note: v.Note}
	}
	out.Launch = launchOf(r, nil)
	return out
}

// launchOf describes the launch of a run; nil unless an attempt has failed. log is nil if it was
// not read.
func launchOf(r *schedule.Run, log []schedule.LaunchAttempt) *carillonv1.RunLaunch {
	if r.FailedAttempts == 0 {
		return nil
	}
	out := &carillonv1.RunLaunch{Attempts: r.Attempts()}
	if r.Status == schedule.StatusLaunching {
		out.GivesUpAt, out.NextAttemptAt = timestamp(r.TimeoutAt), timestamp(schedule.NextAttempt(r, log))
	}
	for i := range log {
		a := &log[i]
		out.Log = append(out.Log, &carillonv1.LaunchAttempt{
			At: timestamp(a.At), TookMs: count32(a.Took.Milliseconds()), Result: string(a.Result), ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage,
		})
	}
	return out
}

// traceIDOf is the executor's trace id or, for a claimed run without an answer, the trace id that
// it is sent with.
func traceIDOf(r *schedule.Run) string {
	if r.TraceID == "" && !r.ClaimedAt.IsZero() {
		return r.Key.TraceID()
	}
	return r.TraceID
}

func workflowOf(w *schedule.WorkflowVersion) *carillonv1.WorkflowVersion {
	return &carillonv1.WorkflowVersion{
		WorkflowId: w.WorkflowID, Version: w.Version, Dag: w.DAG,
		Sha256: hex.EncodeToString(w.Hash[:]), CreatedAt: timestamp(w.CreatedAt), UserId: w.UserID,
	}
}
