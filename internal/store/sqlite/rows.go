package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func either(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// scheduleColumns and scheduleRow belong together, with scheduleArgs.
const scheduleDefinition = `s.schedule_id, s.workflow_id, s.version, s.user_id, s.cron_expr, s.interval_ms, s.once_at,
 s.timezone, s.start_at, s.end_at, s.dst, s.jitter_ms, s.overlap_policy, s.overlap_key, s.max_queued,
 s.catchup_policy, s.catchup_window_ms, s.run_timeout_ms, s.priority, s.input, s.execution_grant_id, s.labels,
 s.managed_by, s.expect, s.launch_timeout_ms, s.revision, s.revised_at, s.next_run_at, s.plan_at,
 s.backlog_from, s.backlog_until, s.backlog_revision, s.backlog_at, s.plan_failures,
 s.paused, s.pause_note, s.paused_by, s.paused_until, `

const scheduleTimes = `, s.created_at, s.updated_at, s.deleted_at`

type scheduleRow struct {
	id, workflow, user, cron, zone, dst, overlap, overlapKey, catchup text
	grant, labels, managedBy, expect, note, pausedBy                  text
	version, interval, jitter, maxQueued, window, timeout, priority   number
	launchTimeout                                                     number
	revision, backlogRevision, failures                               number
	paused                                                            flag
	input                                                             raw

	onceAt, startAt, endAt, revisedAt, nextRunAt, planAt, backlogFrom, backlogUntil instant
	backlogAt, pausedUntil, lastRunAt, created, updated, deleted                    instant
}

func (r *scheduleRow) columns() []any {
	return []any{
		&r.id, &r.workflow, &r.version, &r.user, &r.cron, &r.interval, &r.onceAt,
		&r.zone, &r.startAt, &r.endAt, &r.dst, &r.jitter, &r.overlap, &r.overlapKey, &r.maxQueued,
		&r.catchup, &r.window, &r.timeout, &r.priority, &r.input, &r.grant, &r.labels,
		&r.managedBy, &r.expect, &r.launchTimeout, &r.revision, &r.revisedAt, &r.nextRunAt, &r.planAt,
		&r.backlogFrom, &r.backlogUntil, &r.backlogRevision, &r.backlogAt, &r.failures,
		&r.paused, &r.note, &r.pausedBy, &r.pausedUntil, &r.lastRunAt, &r.created, &r.updated, &r.deleted,
	}
}

// schedule is the row as far as it can be read, and what cannot.
func (r *scheduleRow) schedule() (schedule.Schedule, error) {
	var bad badColumns
	s := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: string(r.id), WorkflowID: string(r.workflow), Version: bad.int32("version", r.version),
			UserID: string(r.user), CronExpr: string(r.cron), IntervalMS: bad.uint32("interval_ms", r.interval),
			OnceAt: r.onceAt.Time, Timezone: string(r.zone), StartAt: r.startAt.Time, EndAt: r.endAt.Time,
			DST: schedule.DST(r.dst), JitterMS: bad.uint32("jitter_ms", r.jitter),
			OverlapPolicy: schedule.OverlapPolicy(r.overlap), OverlapKey: string(r.overlapKey),
			MaxQueued: bad.uint32("max_queued", r.maxQueued), CatchupPolicy: schedule.CatchupPolicy(r.catchup),
			CatchupWindowMS: bad.uint32("catchup_window_ms", r.window), RunTimeoutMS: bad.uint32("run_timeout_ms", r.timeout),
			LaunchTimeoutMS: bad.uint32("launch_timeout_ms", r.launchTimeout),
			Priority:        bad.int32("priority", r.priority), Input: json.RawMessage(r.input),
			ExecutionGrantID: string(r.grant), ManagedBy: string(r.managedBy),
		},
		Revision: int64(r.revision), RevisedAt: r.revisedAt.Time, NextRunAt: r.nextRunAt.Time, PlanAt: r.planAt.Time,
		Backlog: schedule.Backlog{
			From: r.backlogFrom.Time, Until: r.backlogUntil.Time, Revision: int64(r.backlogRevision), At: r.backlogAt.Time,
		},
		PlanFailures: int(r.failures),
		Pause:        schedule.Pause{Paused: bool(r.paused), Note: string(r.note), By: string(r.pausedBy), Until: r.pausedUntil.Time},
		LastRunAt:    r.lastRunAt.Time, CreatedAt: r.created.Time, UpdatedAt: r.updated.Time, DeletedAt: r.deleted.Time,
	}
	if r.labels != "" {
		bad.note("labels", json.Unmarshal([]byte(r.labels), &s.Labels))
	}
	var err error
	s.Expect, err = schedule.ParseExpect(string(r.expect))
	bad.note("expect", err)
	bad.word("dst", r.dst, schedule.DSTVixie == s.DST || schedule.DSTLiteral == s.DST)
	bad.word("overlap_policy", r.overlap, slices.Contains(schedule.OverlapPolicies, s.OverlapPolicy))
	bad.word("catchup_policy", r.catchup, slices.Contains(schedule.CatchupPolicies, s.CatchupPolicy))
	return s, errors.Join(bad.errs...)
}

// badColumns collects what is wrong with a row.
type badColumns struct{ errs []error }

func (b *badColumns) note(column string, err error) {
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("read %s: %w", column, err))
	}
}

func (b *badColumns) word(column string, value text, known bool) {
	if !known {
		b.note(column, fmt.Errorf("%s is none of the words that this binary knows", schedule.Quote(string(value))))
	}
}

func (b *badColumns) int32(column string, n number) int32 {
	if n < math.MinInt32 || n > math.MaxInt32 {
		b.note(column, fmt.Errorf("%d is outside 32 bits", n))
	}
	return int32(n)
}

func (b *badColumns) uint32(column string, n number) uint32 {
	if n < 0 || n > math.MaxUint32 {
		b.note(column, fmt.Errorf("%d is not from 0 to %d", n, math.MaxUint32))
	}
	return uint32(n)
}

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
		int64(s.RunTimeoutMS), int64(s.Priority), rawArg(s.Input), word(s.ExecutionGrantID), labels, word(s.ManagedBy), word(s.Expect.Text()), count(s.LaunchTimeoutMS),
		s.Revision, either(s.RevisedAt, now).UnixMicro(), micros(s.NextRunAt), micros(s.PlanAt),
		micros(s.Backlog.From), micros(s.Backlog.Until), count(s.Backlog.Revision), micros(s.Backlog.At), int64(s.PlanFailures),
		s.Pause.Paused, word(s.Pause.Note), word(s.Pause.By), micros(s.Pause.Until), schedule.Bucket(s.QualifiedOverlapKey()),
		micros(s.LastRunAt), either(s.CreatedAt, now).UnixMicro(), either(s.UpdatedAt, now).UnixMicro(), micros(s.DeletedAt),
	}, nil
}

// found is a schedule as it was read; problem says what of it could not be.
type found struct {
	schedule.Schedule
	problem error
}

// readSchedules collects the rows of a statement that selects scheduleColumns.
func readSchedules(ctx context.Context, q querier, statement string, args ...any) ([]found, error) {
	var row scheduleRow
	columns := row.columns()
	var rows []found
	err := q.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		s, problem := row.schedule()
		rows = append(rows, found{Schedule: s, problem: problem})
		return nil
	}, args...)
	return rows, err
}
