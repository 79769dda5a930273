// Package wire converts the launcher's requests (step 5) to the messages of
// carillon.v1.RunLauncher and back, for the gRPC client and server and the launch
// queue.
package wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/launcher"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Start is a StartRequest as a message.
func Start(req *schedule.StartRequest) *carillonv1.RunLauncherStartRequest {
	trigger, timeout := string(req.Trigger), uint32(req.RunTimeout.Milliseconds())
	start := &carillonv1.RunLauncherStartRequest{
		IdempotencyKey: req.Key.String(), ScheduleId: req.ScheduleID, WorkflowId: req.WorkflowID, Version: req.Version, UserId: req.UserID,
		ScheduledFor: timestamppb.New(req.ScheduledFor), Trigger: &trigger, Attempt: &req.Attempt, Epoch: uint32(req.Epoch),
		ExecutionGrantId: req.ExecutionGrantID, Input: req.Input, FireAt: timestamppb.New(req.FireAt), RunTimeoutMs: &timeout,
		Traceparent: req.TraceParent,
	}
	if maxRun := uint32(req.MaxRun.Milliseconds()); maxRun > 0 {
		start.MaxRunMs = &maxRun
	}
	if req.MaxAttempts > 0 {
		start.MaxAttempts = &req.MaxAttempts
	}
	if !req.SendUntil.IsZero() {
		start.SendUntil = timestamppb.New(req.SendUntil)
	}
	return start
}

// Run is a call as an executor over gRPC gets it, and a worker that fetches it. environment is that
// of the launcher.
func Run(call *launcher.Call, environment string) *carillonv1.ExecutorRunRequest {
	msg := &carillonv1.ExecutorRunRequest{
		IdempotencyKey: call.Key.String(), ScheduleId: call.ScheduleID, WorkflowId: call.WorkflowID, Version: call.Version, UserId: call.UserID,
		ScheduledFor: timestamppb.New(call.ScheduledFor), Trigger: string(call.Trigger), Attempt: call.Attempt, MaxAttempts: call.MaxAttempts,
		Epoch: uint32(call.Epoch), QueueId: call.QueueID, GroupId: call.GroupID, ExecutionGrantId: call.ExecutionGrantID,
		Input: call.Input, Dag: call.DAG, ReportUrl: call.ReportURL, ReportToken: call.ReportToken,
		RunTimeoutMs: uint32(call.RunTimeout.Milliseconds()), Environment: environment,
	}
	if b := call.Events; b != nil {
		msg.EventsDigest, msg.RootKey = b.Digest.String(), b.Root.String()
		for i := range b.Events {
			msg.Events = append(msg.Events, event(&b.Events[i]))
		}
	}
	msg.State, msg.StateRevision = call.State.Value, uint32(call.State.Revision)
	return msg
}

func event(e *topic.Offered) *carillonv1.ExecutorEvent {
	out := &carillonv1.ExecutorEvent{
		Topic: e.Topic, EventId: e.EventID, Source: e.Source, Type: e.Type, Subject: e.Subject, Data: e.Data,
		Round: uint32(e.Round), PublishedAt: timestamppb.New(e.PublishedAt),
	}
	if !e.Time.IsZero() {
		out.Time = timestamppb.New(e.Time)
	}
	return out
}

// StartRequest reads a message of Start or of another client; unset fields take
// their defaults.
func StartRequest(msg *carillonv1.RunLauncherStartRequest) (schedule.StartRequest, error) {
	key, err := schedule.ParseKey(msg.GetIdempotencyKey())
	if err != nil {
		return schedule.StartRequest{}, err
	}
	start := schedule.StartRequest{
		Key: key, ScheduleID: msg.GetScheduleId(), WorkflowID: msg.GetWorkflowId(), Version: msg.GetVersion(), UserID: msg.GetUserId(),
		ScheduledFor: msg.GetScheduledFor().AsTime(), Trigger: schedule.TriggerSchedule, Attempt: 1, Epoch: int64(msg.GetEpoch()),
		ExecutionGrantID: msg.GetExecutionGrantId(), Input: msg.GetInput(), RunTimeout: schedule.DefaultRunTimeout, TraceParent: msg.GetTraceparent(),
		MaxRun: time.Duration(msg.GetMaxRunMs()) * time.Millisecond, MaxAttempts: msg.GetMaxAttempts(),
	}
	if msg.Trigger != nil {
		start.Trigger = schedule.Trigger(msg.GetTrigger())
	}
	if msg.Attempt != nil {
		start.Attempt = msg.GetAttempt()
	}
	if msg.RunTimeoutMs != nil {
		start.RunTimeout = time.Duration(msg.GetRunTimeoutMs()) * time.Millisecond
	}
	if msg.FireAt != nil {
		start.FireAt = msg.GetFireAt().AsTime()
	}
	if msg.SendUntil != nil {
		start.SendUntil = msg.GetSendUntil().AsTime()
	}
	return start, nil
}

// The error codes of a start without an attempt: a check forbade it, or its launch time is
// over.
const (
	withheld = "withheld"
	overdue  = "overdue"
)

// Failure is the reason why a start has no outcome, as a message; nil: unknown.
func Failure(err error) *carillonv1.RunLauncherFailure {
	switch {
	case errors.Is(err, schedule.ErrOverdue):
		return &carillonv1.RunLauncherFailure{ErrorCode: overdue}
	case errors.Is(err, schedule.ErrWithheld):
		return &carillonv1.RunLauncherFailure{ErrorCode: withheld}
	}
	e, ok := errors.AsType[*schedule.LaunchError](err)
	if !ok {
		return nil
	}
	failure := &carillonv1.RunLauncherFailure{
		ErrorCode: string(e.Code), Reached: e.Reached, Deliveries: e.Deliveries, TookMs: uint32(e.Took.Milliseconds()),
	}
	if !e.At.IsZero() {
		failure.CalledAt = timestamppb.New(e.At)
	}
	return failure
}

// FailureOf is the Failure among the details of a status; nil: there is none.
func FailureOf(st *status.Status) *carillonv1.RunLauncherFailure {
	for _, detail := range st.Details() {
		if failure, ok := detail.(*carillonv1.RunLauncherFailure); ok {
			return failure
		}
	}
	return nil
}

// FailureError is the error of a Failure.
func FailureError(msg *carillonv1.RunLauncherFailure, message string) error {
	switch msg.GetErrorCode() {
	case overdue:
		return fmt.Errorf("%w: %s", schedule.ErrOverdue, message)
	case withheld:
		return fmt.Errorf("%w: %s", schedule.ErrWithheld, message)
	}
	e := &schedule.LaunchError{
		Code: schedule.ErrorCode(msg.GetErrorCode()), Reached: msg.GetReached(), Deliveries: msg.GetDeliveries(),
		Took: time.Duration(msg.GetTookMs()) * time.Millisecond, Err: errors.New(message),
	}
	if msg.CalledAt != nil {
		e.At = msg.GetCalledAt().AsTime()
	}
	return e
}

// Cancel is a CancelRequest as a message.
func Cancel(req schedule.CancelRequest) *carillonv1.RunLauncherCancelRequest {
	reason := string(req.Reason)
	msg := &carillonv1.RunLauncherCancelRequest{
		IdempotencyKey: req.Key.String(), ScheduleId: req.ScheduleID, WorkflowId: req.WorkflowID, RunId: req.RunID, Reason: &reason,
	}
	if !req.ScheduledFor.IsZero() {
		msg.ScheduledFor = timestamppb.New(req.ScheduledFor)
	}
	return msg
}

// CancelRequest reads a message of Cancel or of another client.
func CancelRequest(msg *carillonv1.RunLauncherCancelRequest) (schedule.CancelRequest, error) {
	key, err := schedule.ParseKey(msg.GetIdempotencyKey())
	if err != nil {
		return schedule.CancelRequest{}, err
	}
	reason := schedule.Reason(msg.GetReason())
	if reason == "" {
		reason = schedule.ReasonCancelled
	}
	req := schedule.CancelRequest{
		Key: key, ScheduleID: msg.GetScheduleId(), WorkflowID: msg.GetWorkflowId(), RunID: msg.GetRunId(), Reason: reason,
	}
	if msg.ScheduledFor != nil {
		req.ScheduledFor = msg.GetScheduledFor().AsTime()
	}
	return req, nil
}
