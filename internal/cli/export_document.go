package cli

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// unless adds a member that differs from the default that every server has.
func unless[T comparable](d *render.Object, name string, value, fallback T) {
	if value != fallback {
		d.Add(name, value)
	}
}

func addTime(d *render.Object, name string, at *timestamppb.Timestamp) {
	if at != nil {
		d.Add(name, at.AsTime().UTC().Format(time.RFC3339))
	}
}

// exported is a schedule as apply reads it. What an operator may have set for a
// whole server (DEFAULT_OVERLAP_POLICY and its like) is always written out.
func exported(s *carillonv1.Schedule) ([]byte, error) {
	var d render.Object
	d.Add("schedule_id", s.GetScheduleId())
	d.Add("workflow_id", s.GetWorkflowId())
	d.Add("version", s.GetVersion())
	d.Add("user_id", s.GetUserId())
	unless(&d, "cron_expr", s.GetCronExpr(), "")
	if s.GetCronExpr() != "" {
		d.Add("timezone", s.GetTimezone())
	} else {
		unless(&d, "timezone", s.GetTimezone(), "UTC")
	}
	unless(&d, "interval_ms", s.GetIntervalMs(), 0)
	addTime(&d, "once_at", s.GetOnceAt())
	addTime(&d, "start_at", s.GetStartAt())
	addTime(&d, "end_at", s.GetEndAt())
	unless(&d, "dst", s.GetDst(), string(cronexpr.Vixie))
	d.Add("jitter_ms", s.GetJitterMs())
	d.Add("overlap_policy", s.GetOverlapPolicy())
	unless(&d, "overlap_key", s.GetOverlapKey(), s.GetScheduleId())
	unless(&d, "max_queued", s.GetMaxQueued(), schedule.DefaultMaxQueued)
	d.Add("catchup_policy", s.GetCatchupPolicy())
	unless(&d, "catchup_window_ms", s.GetCatchupWindowMs(), uint32(schedule.DefaultCatchupSpan.Milliseconds()))
	d.Add("run_timeout_ms", s.GetRunTimeoutMs())
	unless(&d, "launch_timeout_ms", s.GetLaunchTimeoutMs(), 0)
	unless(&d, "priority", s.GetPriority(), 0)
	unless(&d, "execution_grant_id", s.GetExecutionGrantId(), "")
	if s.GetExpect() != nil {
		d.Add("expect", expectDocument(s.GetExpect()))
	}
	if len(s.GetLabels()) > 0 {
		d.Add("labels", s.GetLabels())
	}
	if len(s.GetInput()) > 0 {
		d.Raw("input", s.GetInput())
	}
	return d.YAML()
}

// expectDocument is what of it is set, by the API's names.
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
