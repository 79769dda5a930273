package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// runColumns and runRow belong together.
const runColumns = `r.idempotency_key, r.schedule_id, r.revision, v.user_id, v.workflow_id, v.version,
 r.run_at, r.fire_at, r.status, r.reason, r.trigger, r.overlap_key, r.overlap_policy, r.exclusive, r.max_queued,
 r.waiting_since, r.judged_at, r.attempt, r.retry_of, r.deliveries, r.input, r.priority, r.run_id, r.trace_id,
 r.epoch, r.claimed_at, r.claimed_until, r.cancel_requested_at, r.cancel_reason,
 r.launched_at, r.started_at, r.completed_at, r.timeout_at, r.error_code, r.error_message, r.created_at, r.updated_at`

// ofRevision: owner and workflow are read off the revision, not copied per run.
const ofRevision = ` LEFT JOIN schedule_revisions v ON v.schedule_id = r.schedule_id AND v.revision = r.revision`

type runRow struct {
	key, retryOf                                                 key
	scheduleID, user, workflow, status, reason, trigger          text
	overlapKey, policy, runID, trace, cancelReason, code, detail text
	revision, version, maxQueued, attempt, deliveries            number
	priority, epoch                                              number
	exclusive                                                    flag
	input                                                        raw

	runAt, fireAt, waiting, judged, claimed, claimedUntil, cancel instant
	launched, started, completed, timeout, created, updated       instant
}

func (r *runRow) columns() []any {
	return []any{
		&r.key, &r.scheduleID, &r.revision, &r.user, &r.workflow, &r.version,
		&r.runAt, &r.fireAt, &r.status, &r.reason, &r.trigger, &r.overlapKey, &r.policy, &r.exclusive, &r.maxQueued,
		&r.waiting, &r.judged, &r.attempt, &r.retryOf, &r.deliveries, &r.input, &r.priority, &r.runID, &r.trace,
		&r.epoch, &r.claimed, &r.claimedUntil, &r.cancel, &r.cancelReason,
		&r.launched, &r.started, &r.completed, &r.timeout, &r.code, &r.detail, &r.created, &r.updated,
	}
}

func (r *runRow) run() schedule.Run {
	return schedule.Run{
		Key: schedule.Key(r.key), ScheduleID: string(r.scheduleID), Revision: int64(r.revision),
		UserID: string(r.user), WorkflowID: string(r.workflow), Version: int32(r.version),
		RunAt: r.runAt.Time, FireAt: r.fireAt.Time,
		Status: schedule.Status(r.status), Reason: schedule.Reason(r.reason), Trigger: schedule.Trigger(r.trigger),
		OverlapKey: string(r.overlapKey), OverlapPolicy: schedule.OverlapPolicy(r.policy),
		Exclusive: bool(r.exclusive), MaxQueued: uint32(r.maxQueued),
		WaitingSince: r.waiting.Time, JudgedAt: r.judged.Time,
		Attempt: int32(r.attempt), RetryOf: schedule.Key(r.retryOf), Deliveries: int32(r.deliveries),
		Input: json.RawMessage(r.input), Priority: int32(r.priority),
		RunID: string(r.runID), TraceID: string(r.trace),
		Epoch: int64(r.epoch), ClaimedAt: r.claimed.Time, ClaimedUntil: r.claimedUntil.Time,
		CancelRequestedAt: r.cancel.Time, CancelReason: schedule.Reason(r.cancelReason),
		LaunchedAt: r.launched.Time, StartedAt: r.started.Time, CompletedAt: r.completed.Time, TimeoutAt: r.timeout.Time,
		ErrorCode: string(r.code), ErrorMessage: string(r.detail),
		CreatedAt: r.created.Time, UpdatedAt: r.updated.Time,
	}
}

// readRuns collects the runs of a statement that selects runColumns.
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

// runArgs are the arguments of sqlInsertRun.
func runArgs(r *schedule.Run, now time.Time) []any {
	return []any{
		keyArg(r.Key), r.ScheduleID, r.Revision, r.RunAt.UnixMicro(), r.FireAt.UnixMicro(),
		word(r.Reason), string(r.Trigger), r.OverlapKey, string(r.OverlapPolicy), r.Exclusive, int64(r.MaxQueued),
		micros(r.WaitingSince), micros(r.JudgedAt), int64(max(r.Attempt, 1)), keyArg(r.RetryOf), rawArg(r.Input),
		int64(r.Priority), word(r.TraceID), either(r.CreatedAt, now).UnixMicro(), either(r.UpdatedAt, now).UnixMicro(),
	}
}

func either(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// insertRuns puts down PLANNED rows; a key that is there is left as it is.
func insertRuns(ctx context.Context, t tx, runs []schedule.Run, now time.Time) (inserted int, err error) {
	for i := range runs {
		n, err := t.exec(ctx, sqlInsertRun, runArgs(&runs[i], now)...)
		if err != nil {
			return inserted, fmt.Errorf("insert run %s of %s: %w", runs[i].Key, runs[i].ScheduleID, err)
		}
		inserted += int(n)
	}
	return inserted, nil
}

// eventColumns and eventRow belong together.
const eventColumns = `event_id, schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision`

type eventRow struct {
	id, count, revision                number
	scheduleID, kind, reason, by, note text
	at, from, to                       instant
}

func (r *eventRow) columns() []any {
	return []any{&r.id, &r.scheduleID, &r.at, &r.kind, &r.from, &r.to, &r.count, &r.reason, &r.by, &r.note, &r.revision}
}

func (r *eventRow) event() schedule.Event {
	return schedule.Event{
		ID: int64(r.id), ScheduleID: string(r.scheduleID), Time: r.at.Time, Kind: schedule.EventKind(r.kind),
		From: r.from.Time, To: r.to.Time, Count: int64(r.count), Reason: schedule.Reason(r.reason),
		Actor: string(r.by), Note: string(r.note), Revision: int64(r.revision),
	}
}

// insertEvents appends to the log of scheduleID, or of whom the event names.
func insertEvents(ctx context.Context, t tx, events []schedule.Event, scheduleID string, now time.Time) error {
	for i := range events {
		e := &events[i]
		id := e.ScheduleID
		if id == "" {
			id = scheduleID
		}
		_, err := t.exec(ctx, sqlInsertEvent, id, either(e.Time, now).UnixMicro(), string(e.Kind), micros(e.From), micros(e.To),
			e.Count, word(e.Reason), word(e.Actor), word(e.Note), e.Revision)
		if err != nil {
			return fmt.Errorf("insert event %s of %s: %w", e.Kind, id, err)
		}
	}
	return nil
}

// requestColumns and requestRow belong together.
const requestColumns = `q.idempotency_key, q.request_hash, q.state, q.sent, q.lease_until, q.status, q.reason,
 q.run_id, q.trace_id, q.error_code, q.error_message, q.created_at`

type requestRow struct {
	key, hash                                          key
	state, status, reason, runID, trace, code, message text
	sent                                               flag
	lease, created                                     instant
}

func (r *requestRow) columns() []any {
	return []any{
		&r.key, &r.hash, &r.state, &r.sent, &r.lease, &r.status, &r.reason,
		&r.runID, &r.trace, &r.code, &r.message, &r.created,
	}
}

func (r *requestRow) request() schedule.ExecutionRequest {
	return schedule.ExecutionRequest{
		Key: schedule.Key(r.key), RequestHash: r.hash, Done: r.state == "DONE", Sent: bool(r.sent), LeaseUntil: r.lease.Time,
		Outcome: schedule.Outcome{
			Status: schedule.Status(r.status), Reason: schedule.Reason(r.reason), RunID: string(r.runID),
			TraceID: string(r.trace), ErrorCode: string(r.code), ErrorMessage: string(r.message),
		},
		CreatedAt: r.created.Time,
	}
}

// readRequests collects execution requests by key.
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
