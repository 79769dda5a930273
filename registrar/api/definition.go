package api

import (
	"bytes"
	"encoding/json"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// upsertOf is an upsert as the registrar takes it. Unset fields stay zero or nil; the registrar
// knows the defaults.
func upsertOf(req *carillonv1.UpsertScheduleRequest, actor string) registrar.UpsertInput {
	return registrar.UpsertInput{
		Definition: schedule.Definition{
			ScheduleID: req.GetScheduleId(), WorkflowID: req.GetWorkflowId(), Version: req.GetVersion(), UserID: req.GetUserId(),
			CronExpr: req.GetCronExpr(), IntervalMS: req.GetIntervalMs(), OnceAt: fromTimestamp(req.GetOnceAt()),
			Timezone: req.GetTimezone(), StartAt: fromTimestamp(req.GetStartAt()), EndAt: fromTimestamp(req.GetEndAt()),
			DST:           schedule.DST(req.GetDst()),
			OverlapPolicy: schedule.OverlapPolicy(req.GetOverlapPolicy()), OverlapKey: req.GetOverlapKey(),
			CatchupPolicy: schedule.CatchupPolicy(req.GetCatchupPolicy()),
			Input:         rawOf(req.GetInput()), ExecutionGrantID: req.GetExecutionGrantId(),
			Labels: req.GetLabels(), ManagedBy: req.GetManagedBy(), Expect: expectIn(req.GetExpect()), Retry: retryIn(req.GetRetry()),
			QueueID: req.GetQueueId(), Limits: req.GetLimits(), Webhook: req.GetWebhook(), MaxRunMS: req.GetMaxRunMs(), ExpiresMS: req.GetExpiresMs(), FairKey: req.GetFairKey(), Group: req.GetGroup(), Consume: consumeIn(req.GetConsume()),
			LaunchTimeoutMS: req.GetLaunchTimeoutMs(),
		},
		JitterMS: req.JitterMs, MaxQueued: req.MaxQueued, CatchupWindowMS: req.CatchupWindowMs,
		RunTimeoutMS: req.RunTimeoutMs, Priority: req.Priority,
		Paused: req.Paused, RequestID: req.GetRequestId(), Actor: actor, Grant: newGrantOf(req.GetGrant()),
		Adopt: req.GetAdopt(),
	}
}

// newGrantOf is the grant that an upsert brings along, or nil.
func newGrantOf(g *carillonv1.NewGrant) *registrar.GrantInput {
	if g == nil {
		return nil
	}
	return &registrar.GrantInput{
		GrantID: g.GetGrantId(), BillingAccountID: g.GetBillingAccountId(), Scopes: g.GetScopes(),
		AllowAllWorkflows: g.GetAllowAllWorkflows(), ExpiresAt: fromTimestamp(g.GetExpiresAt()),
	}
}

// specOf is the unsaved rule of a preview, or nil.
func specOf(req *carillonv1.PreviewScheduleRequest) *registrar.UpsertInput {
	if req.CronExpr == nil && req.IntervalMs == nil && req.OnceAt == nil {
		return nil
	}
	return &registrar.UpsertInput{
		Definition: schedule.Definition{
			ScheduleID: req.GetScheduleId(),
			CronExpr:   req.GetCronExpr(), IntervalMS: req.GetIntervalMs(), OnceAt: fromTimestamp(req.GetOnceAt()),
			Timezone: req.GetTimezone(), StartAt: fromTimestamp(req.GetStartAt()), EndAt: fromTimestamp(req.GetEndAt()),
			DST: schedule.DST(req.GetDst()),
		},
		JitterMS: req.JitterMs,
	}
}

// rawOf is a raw member; none and the JSON value null are the same on REST,
// and so here.
func rawOf(raw []byte) json.RawMessage {
	if len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}
