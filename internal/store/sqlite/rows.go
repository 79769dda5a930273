package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The columns of a run, in the order of runRow: of open_runs (o, behind ofOpen) and
// of ended_runs (e, behind ofEnded).
const (
	openRunColumns = `o.idempotency_key, s.schedule_id, o.revision, v.user_id, v.workflow_id, v.version,
 o.run_at, o.fire_at, o.status, NULL, o.trigger, o.overlap_key, o.policy, o.policy <> 1, o.max_queued,
 o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority, o.run_id, o.trace_id,
 o.epoch, o.claimed_at, o.send_after, o.cancel_requested_at, o.cancel_reason,
 o.launched_at, o.started_at, NULL, o.timeout_at, o.error_code, o.error_message, o.failed_attempts, o.created_at, o.updated_at,
 o.exit_code, o.log_url`

	endedRunColumns = `e.idempotency_key, s.schedule_id, e.revision, v.user_id, v.workflow_id, v.version,
 e.run_at, e.fire_at, e.status, e.reason, e.trigger, e.overlap_key, e.policy, e.policy <> 1, e.max_queued,
 NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority, e.run_id, e.trace_id,
 e.epoch, e.claimed_at, NULL, e.cancel_requested_at, e.cancel_reason,
 e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code, e.error_message, e.failed_attempts, e.created_at, e.recorded_at,
 e.exit_code, e.log_url`
)

// Owner and workflow are read off the revision, not copied per run. CROSS JOIN keeps
// SQLite from beginning with the schedules.
const (
	ofOpen  = ` CROSS JOIN schedules s ON s.sid = o.sid LEFT JOIN schedule_revisions v ON v.schedule_id = s.schedule_id AND v.revision = o.revision`
	ofEnded = ` CROSS JOIN schedules s ON s.sid = e.sid LEFT JOIN schedule_revisions v ON v.schedule_id = s.schedule_id AND v.revision = e.revision`
)

type runRow struct {
	key, retryOf                                key
	scheduleID, user, workflow, reason          text
	overlapKey, runID, trace, cancelReason      text
	code, detail, logURL                        text
	status                                      status
	trigger                                     trigger
	policy                                      policy
	exitCode                                    sql.NullInt32
	revision, version, maxQueued, attempt       number
	deliveries, priority, epoch, failedAttempts number
	exclusive                                   flag
	input                                       raw

	runAt, fireAt, waiting, claimed, claimedUntil, cancel   instant
	launched, started, completed, timeout, created, updated instant
}

func (r *runRow) columns() []any {
	return []any{
		&r.key, &r.scheduleID, &r.revision, &r.user, &r.workflow, &r.version,
		&r.runAt, &r.fireAt, &r.status, &r.reason, &r.trigger, &r.overlapKey, &r.policy, &r.exclusive, &r.maxQueued,
		&r.waiting, &r.attempt, &r.retryOf, &r.deliveries, &r.input, &r.priority, &r.runID, &r.trace,
		&r.epoch, &r.claimed, &r.claimedUntil, &r.cancel, &r.cancelReason,
		&r.launched, &r.started, &r.completed, &r.timeout, &r.code, &r.detail, &r.failedAttempts, &r.created, &r.updated,
		&r.exitCode, &r.logURL,
	}
}

func (r *runRow) run() schedule.Run {
	run := schedule.Run{
		Key: schedule.Key(r.key), ScheduleID: string(r.scheduleID), Revision: int64(r.revision),
		UserID: string(r.user), WorkflowID: string(r.workflow), Version: int32(r.version),
		RunAt: r.runAt.Time, FireAt: r.fireAt.Time,
		Status: schedule.Status(r.status), Reason: schedule.Reason(r.reason), Trigger: schedule.Trigger(r.trigger),
		OverlapKey: string(r.overlapKey), OverlapPolicy: schedule.OverlapPolicy(r.policy),
		Exclusive: bool(r.exclusive), MaxQueued: uint32(r.maxQueued),
		WaitingSince: r.waiting.Time,
		Attempt:      int32(r.attempt), RetryOf: schedule.Key(r.retryOf), Deliveries: int32(r.deliveries),
		Input: json.RawMessage(r.input), Priority: int32(r.priority),
		RunID: string(r.runID), TraceID: string(r.trace),
		Epoch: int64(r.epoch), ClaimedAt: r.claimed.Time, ClaimedUntil: r.claimedUntil.Time,
		CancelRequestedAt: r.cancel.Time, CancelReason: schedule.Reason(r.cancelReason),
		LaunchedAt: r.launched.Time, StartedAt: r.started.Time, CompletedAt: r.completed.Time, TimeoutAt: r.timeout.Time,
		ErrorCode: string(r.code), ErrorMessage: string(r.detail), LogURL: string(r.logURL), FailedAttempts: int32(r.failedAttempts),
		CreatedAt: r.created.Time, UpdatedAt: r.updated.Time,
	}
	if r.exitCode.Valid {
		run.ExitCode = new(r.exitCode.Int32)
	}
	return run
}

// plannedColumns are openRunColumns without what a PLANNED row does not have yet,
// and without what its definition says; each column of a row costs.
const plannedColumns = `o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, o.status, o.trigger,
 o.overlap_key, o.policy, o.policy <> 1, o.max_queued, o.waiting_since, o.attempt, o.retry_of, o.input,
 o.priority, o.trace_id, o.cancel_requested_at, o.cancel_reason, o.created_at, o.updated_at`

func (r *runRow) planned() []any {
	return []any{
		&r.key, &r.scheduleID, &r.revision, &r.runAt, &r.fireAt, &r.status, &r.trigger,
		&r.overlapKey, &r.policy, &r.exclusive, &r.maxQueued, &r.waiting, &r.attempt, &r.retryOf, &r.input,
		&r.priority, &r.trace, &r.cancel, &r.cancelReason, &r.created, &r.updated,
	}
}

// readRuns collects the runs of a statement that selects openRunColumns or endedRunColumns.
func readRuns(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Run, error) {
	var row runRow
	columns := row.columns()
	var runs []schedule.Run
	err := q.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		runs = append(runs, row.run())
		return nil
	}, args...)
	return runs, err
}

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

// leaseColumns and leaseRow belong together.
const leaseColumns = `o.holder, o.lease_until`

type leaseRow struct {
	holder number
	until  instant
}

func (r *leaseRow) columns() []any { return []any{&r.holder, &r.until} }

func (r *leaseRow) lease() schedule.KeyLease {
	return schedule.KeyLease{Holder: int32(r.holder), Until: r.until.Time}
}

// requestColumns and requestRow belong together.
const requestColumns = `q.idempotency_key, q.request_hash, q.state, q.calls, q.holder, q.lease_until, q.status, q.reason,
 q.run_id, q.trace_id, q.error_code, q.error_message`

type requestRow struct {
	key, hash                                          key
	state, status, reason, runID, trace, code, message text
	calls                                              number
	lease                                              leaseRow
}

func (r *requestRow) columns() []any {
	return []any{
		&r.key, &r.hash, &r.state, &r.calls, &r.lease.holder, &r.lease.until, &r.status, &r.reason,
		&r.runID, &r.trace, &r.code, &r.message,
	}
}

func (r *requestRow) request() schedule.ExecutionRequest {
	return schedule.ExecutionRequest{
		Key: schedule.Key(r.key), RequestHash: r.hash, Done: r.state == stateDone, Calls: int32(r.calls), Lease: r.lease.lease(),
		Outcome: schedule.Outcome{
			Status: schedule.Status(r.status), Reason: schedule.Reason(r.reason), RunID: string(r.runID),
			TraceID: string(r.trace), ErrorCode: string(r.code), ErrorMessage: string(r.message),
		},
	}
}

// The states of a record of a key.
const (
	stateInProgress = "IN_PROGRESS"
	stateDone       = "DONE"
)

// readRequests collects records of keys that the ledger does not have.
func readRequests(ctx context.Context, q querier, keys []schedule.Key) (map[schedule.Key]schedule.ExecutionRequest, error) {
	var row requestRow
	columns := row.columns()
	requests := make(map[schedule.Key]schedule.ExecutionRequest)
	err := q.query(ctx, sqlRequests, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		requests[schedule.Key(row.key)] = row.request()
		return nil
	}, keyList(keys))
	return requests, err
}

// writeRequest writes the record of a key that the ledger does not have.
func writeRequest(ctx context.Context, t tx, r *schedule.ExecutionRequest, now time.Time) error {
	state, o := stateInProgress, &r.Outcome
	if r.Done {
		state = stateDone
	}
	_, err := t.exec(ctx, sqlWriteRequest, keyArg(r.Key), r.RequestHash[:], state, int64(r.Calls), micros(r.Lease.Until), count(r.Lease.Holder),
		word(o.Status), word(o.Reason), word(o.RunID), word(o.TraceID), word(o.ErrorCode), word(o.ErrorMessage), now.UnixMicro())
	if err != nil {
		return fmt.Errorf("write the record of key %s: %w", r.Key, err)
	}
	return nil
}
