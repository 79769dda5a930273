package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

func either(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// The columns of tables.ScheduleRow and of scheduleArgs.
const scheduleDefinition = `s.schedule_id, s.workflow_id, s.version, s.user_id, s.cron_expr, s.interval_ms, s.once_at,
 s.timezone, s.start_at, s.end_at, s.dst, s.jitter_ms, s.overlap_policy, s.overlap_key, s.max_queued,
 s.catchup_policy, s.catchup_window_ms, s.run_timeout_ms, s.priority, s.input, s.execution_grant_id, s.labels,
 s.managed_by, s.expect, s.launch_timeout_ms, s.retry, s.queue_id, s.limits, s.webhook, s.max_run_ms, s.expires_ms, s.fair_key, s.run_group, s.consume, s.revision, s.revised_at, s.next_run_at, s.plan_at,
 s.backlog_from, s.backlog_until, s.backlog_revision, s.backlog_at, s.plan_failures,
 s.paused, s.pause_note, s.paused_by, s.paused_until, `

const scheduleTimes = `, s.created_at, s.updated_at, s.deleted_at`

// scheduleArgs are the arguments of sqlUpsertSchedule.
func scheduleArgs(s *schedule.Schedule, now time.Time) ([]any, error) {
	var labels any
	if len(s.Labels) > 0 {
		b, err := json.Marshal(s.Labels)
		if err != nil {
			return nil, fmt.Errorf("write labels: %w", err)
		}
		labels = string(b)
	}
	return []any{
		s.ScheduleID, s.WorkflowID, int64(s.Version), s.UserID, word(s.CronExpr), count(s.IntervalMS), micros(s.OnceAt),
		s.Timezone, micros(s.StartAt), micros(s.EndAt), string(s.DST), int64(s.JitterMS),
		string(s.OverlapPolicy), s.OverlapKey, int64(s.MaxQueued), string(s.CatchupPolicy), int64(s.CatchupWindowMS),
		int64(s.RunTimeoutMS), int64(s.Priority), rawArg(s.Input), word(s.ExecutionGrantID), labels, word(s.ManagedBy), word(s.Expect.Text()), count(s.LaunchTimeoutMS), word(s.Retry.Text()),
		word(s.QueueID), word(schedule.JoinLimits(s.Limits)), word(s.Webhook), count(s.MaxRunMS), count(s.ExpiresMS), word(s.FairKey), word(s.Group), word(s.Consume.Text()),
		s.Revision, either(s.RevisedAt, now).UnixMicro(), micros(s.NextRunAt), micros(s.PlanAt),
		micros(s.Backlog.From), micros(s.Backlog.Until), count(s.Backlog.Revision), micros(s.Backlog.At), int64(s.PlanFailures),
		s.Pause.Paused, word(s.Pause.Note), word(s.Pause.By), micros(s.Pause.Until), schedule.Bucket(s.QualifiedOverlapKey()),
		micros(s.LastRunAt), either(s.CreatedAt, now).UnixMicro(), either(s.UpdatedAt, now).UnixMicro(), micros(s.DeletedAt),
	}, nil
}

// found is a schedule; problem names the fields that cannot be read.
type found struct {
	schedule.Schedule
	problem error
}

// readSchedules collects the rows of a statement that selects scheduleColumns.
func readSchedules(ctx context.Context, q querier, statement string, args ...any) ([]found, error) {
	var rows []found
	err := tables.EachSchedule(ctx, queries{q}, func(s schedule.Schedule, problem error) error {
		rows = append(rows, found{Schedule: s, problem: problem})
		return nil
	}, statement, args...)
	return rows, err
}
