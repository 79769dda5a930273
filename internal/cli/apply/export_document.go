package apply

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// addUnless adds a member unless it is the default that all servers have.
func addUnless[T comparable](d *render.Object, name string, value, fallback T) {
	if value != fallback {
		d.Add(name, value)
	}
}

func addTime(d *render.Object, name string, at *timestamppb.Timestamp) {
	if at != nil {
		d.Add(name, at.AsTime().UTC().Format(time.RFC3339))
	}
}

// exportedYAML is a schedule as apply reads it. Fields with a default that operators
// can set (DEFAULT_OVERLAP_POLICY ...) are always written.
func exportedYAML(s *carillonv1.Schedule) ([]byte, error) {
	var d render.Object
	d.Add("schedule_id", s.GetScheduleId())
	d.Add("workflow_id", s.GetWorkflowId())
	d.Add("version", s.GetVersion())
	d.Add("user_id", s.GetUserId())
	addUnless(&d, "cron_expr", s.GetCronExpr(), "")
	if s.GetCronExpr() != "" {
		d.Add("timezone", s.GetTimezone())
	} else {
		addUnless(&d, "timezone", s.GetTimezone(), "UTC")
	}
	addUnless(&d, "interval_ms", s.GetIntervalMs(), 0)
	addTime(&d, "once_at", s.GetOnceAt())
	addTime(&d, "start_at", s.GetStartAt())
	addTime(&d, "end_at", s.GetEndAt())
	addUnless(&d, "dst", s.GetDst(), string(cronexpr.Vixie))
	d.Add("jitter_ms", s.GetJitterMs())
	d.Add("overlap_policy", s.GetOverlapPolicy())
	addUnless(&d, "overlap_key", s.GetOverlapKey(), s.GetScheduleId())
	addUnless(&d, "max_queued", s.GetMaxQueued(), schedule.DefaultMaxQueued)
	d.Add("catchup_policy", s.GetCatchupPolicy())
	addUnless(&d, "catchup_window_ms", s.GetCatchupWindowMs(), uint32(schedule.DefaultCatchupSpan.Milliseconds()))
	d.Add("run_timeout_ms", s.GetRunTimeoutMs())
	addUnless(&d, "launch_timeout_ms", s.GetLaunchTimeoutMs(), 0)
	addUnless(&d, "priority", s.GetPriority(), 0)
	addUnless(&d, "execution_grant_id", s.GetExecutionGrantId(), "")
	if s.GetExpect() != nil {
		d.Add("expect", expectDocument(s.GetExpect()))
	}
	if p := s.GetRetry(); p != nil {
		d.Add("retry", map[string]any{
			"max_attempts": p.GetMaxAttempts(), "backoff_ms": p.GetBackoffMs(), "factor_percent": p.GetFactorPercent(),
			"max_backoff_ms": p.GetMaxBackoffMs(), "on": p.GetOn(),
		})
	}
	addUnless(&d, "queue_id", s.GetQueueId(), "")
	if len(s.GetLimits()) > 0 {
		d.Add("limits", s.GetLimits())
	}
	addUnless(&d, "webhook", s.GetWebhook(), "")
	addUnless(&d, "fair_key", s.GetFairKey(), "")
	addUnless(&d, "group", s.GetGroup(), "")
	if c := s.GetConsume(); c != nil {
		consume := map[string]any{"topics": c.GetTopics(), "max_events": c.GetMaxEvents()}
		if len(c.GetFilter()) > 0 {
			consume["filter"] = json.RawMessage(c.GetFilter())
		}
		d.Add("consume", consume)
	}
	addUnless(&d, "max_run_ms", s.GetMaxRunMs(), 0)
	addUnless(&d, "expires_ms", s.GetExpiresMs(), 0)
	if len(s.GetLabels()) > 0 {
		d.Add("labels", s.GetLabels())
	}
	if len(s.GetInput()) > 0 {
		d.Raw("input", s.GetInput())
	}
	return d.YAML()
}

// expectDocument has the fields that are set, with the names of the API.
func expectDocument(e *carillonv1.Expectation) map[string]any {
	out := make(map[string]any)
	for name, ms := range map[string]*uint32{
		"start_within_ms": e.StartWithinMs, "finish_within_ms": e.FinishWithinMs, "success_every_ms": e.SuccessEveryMs,
		"alert_after": e.AlertAfter, "remind_every_ms": e.RemindEveryMs,
	} {
		if ms != nil {
			out[name] = *ms
		}
	}
	if e.OnFailure != nil {
		out["on_failure"] = *e.OnFailure
	}
	return out
}
