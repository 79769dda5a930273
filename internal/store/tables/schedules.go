package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// ScheduleRow is a schedule as it is scanned. A schedule that cannot be read must not stop
// the others.
type ScheduleRow struct {
	row                            schedule.Schedule
	labels, expect, retry, consume string // JSON
	limits                         schedule.Limits
}

// Targets are those of a statement that selects all columns of schedules.
func (r *ScheduleRow) Targets() []any {
	s := &r.row
	return []any{
		&s.ScheduleID, &s.WorkflowID, &s.Version, &s.UserID, &s.CronExpr, &s.IntervalMS, &s.OnceAt,
		&s.Timezone, &s.StartAt, &s.EndAt, &s.DST, &s.JitterMS,
		&s.OverlapPolicy, &s.OverlapKey, &s.MaxQueued, &s.CatchupPolicy, &s.CatchupWindowMS, &s.RunTimeoutMS, &s.Priority,
		&s.Input, &s.ExecutionGrantID, &r.labels, &s.ManagedBy, &r.expect, &s.LaunchTimeoutMS, &r.retry, &s.QueueID, &r.limits, &s.Webhook, &s.MaxRunMS, &s.ExpiresMS, &s.FairKey, &s.Group, &r.consume,
		&s.Revision, &s.RevisedAt, &s.NextRunAt, &s.PlanAt,
		&s.Backlog.From, &s.Backlog.Until, &s.Backlog.Revision, &s.Backlog.At, &s.PlanFailures,
		&s.Pause.Paused, &s.Pause.Note, &s.Pause.By, &s.Pause.Until,
		&s.LastRunAt, &s.CreatedAt, &s.UpdatedAt, &s.DeletedAt,
	}
}

// Schedule returns the readable fields, and an error that names the others. Id, revision and
// failures are always right.
func (r *ScheduleRow) Schedule(bad error) (schedule.Schedule, error) {
	s := r.row
	problems := []error{bad}
	note := func(column string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("read %s: %w", column, err))
		}
	}
	if r.labels != "" {
		note("labels", json.Unmarshal([]byte(r.labels), &s.Labels))
	}
	s.Limits = r.limits.Texts()
	var err error
	s.Expect, err = schedule.ParseExpect(r.expect)
	note("expect", err)
	s.Retry, err = schedule.ParseRetry(r.retry)
	note("retry", err)
	s.Consume, err = schedule.ConsumeOf(r.consume)
	note("consume", err)
	note("dst", known(s.DST, schedule.DSTVixie, schedule.DSTLiteral))
	note("overlap_policy", known(s.OverlapPolicy, schedule.OverlapPolicies...))
	note("catchup_policy", known(s.CatchupPolicy, schedule.CatchupPolicies...))
	if err := errors.Join(problems...); err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ScheduleID, err)
	}
	return s, nil
}

func known[W ~string](word W, words ...W) error {
	if slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("%s is none of the words that this binary knows", schedule.Quote(word))
}

// EachSchedule calls visit with each schedule of a statement. problem names the fields that
// cannot be read.
func EachSchedule(ctx context.Context, q Queries, visit func(s schedule.Schedule, problem error) error, statement string, args ...any) error {
	var row ScheduleRow
	return q.Each(ctx, statement, row.Targets(), func(bad error) error { return visit(row.Schedule(bad)) }, args...)
}

// ListSchedules returns a page of schedules in order of schedule_id.
func ListSchedules(ctx context.Context, q Queries, log *slog.Logger, f schedule.ScheduleFilter, query func(*schedule.ScheduleFilter) Call) ([]schedule.Schedule, error) {
	list := []schedule.Schedule{}
	err := fillPage(ctx, q, log, f, query, nil, func(s schedule.Schedule) { list = append(list, s) })
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return list, nil
}

// ListUpcoming returns a page of schedules with their next slots, in order of these.
func ListUpcoming(ctx context.Context, q Queries, log *slog.Logger, f schedule.ScheduleFilter, query func(*schedule.ScheduleFilter) Call) ([]schedule.Upcoming, error) {
	list := []schedule.Upcoming{}
	at := f.AfterNext
	err := fillPage(ctx, q, log, f, func(f *schedule.ScheduleFilter) Call {
		f.AfterNext = at
		return query(f)
	}, []any{&at}, func(s schedule.Schedule) { list = append(list, schedule.Upcoming{Schedule: s, NextAt: at}) })
	if err != nil {
		return nil, fmt.Errorf("list upcoming schedules: %w", err)
	}
	return list, nil
}

// fillPage calls visit for each schedule of a page. It logs unreadable rows and fills the
// page with the next ones, because they must not hide the others. targets are those of the
// columns before the schedule's.
func fillPage(ctx context.Context, q Queries, log *slog.Logger, f schedule.ScheduleFilter, query func(*schedule.ScheduleFilter) Call,
	targets []any, visit func(schedule.Schedule),
) error {
	var row ScheduleRow
	targets = append(targets, row.Targets()...)
	for left := schedule.PageSize(f.Limit); ; {
		f.Limit = left
		page, rows := query(&f), 0
		err := q.Each(ctx, page.Statement, targets, func(bad error) error {
			s, problem := row.Schedule(bad)
			rows++
			f.After = s.ScheduleID
			if problem != nil {
				log.ErrorContext(ctx, "schedule unreadable", "schedule_id", s.ScheduleID, "err", problem)
				return nil
			}
			left--
			visit(s)
			return nil
		}, page.Args...)
		if err != nil || rows < f.Limit || left == 0 {
			return err
		}
	}
}
