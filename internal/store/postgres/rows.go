package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// decoding converts columns to the domain's values and keeps the first error. Rows are
// scanned into types that hold each possible value of the column, because one bad row
// must not end the whole result.
type decoding struct{ err error }

func (d *decoding) refuse(column string, value any, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("column %s holds %s, %s", column, schedule.Quote(value), why)
	}
}

func (d *decoding) time(column string, v pgtype.Timestamptz) time.Time {
	switch {
	case !v.Valid:
		return time.Time{}
	case v.InfinityModifier != pgtype.Finite:
		d.refuse(column, v.InfinityModifier.String(), "which is no instant")
		return time.Time{}
	}
	return v.Time.UTC()
}

// wordOrCode is a status, trigger or policy: some statements have a word, the tables a code.
type wordOrCode struct {
	word string
	code int64
}

// ScanText reads a word.
func (w *wordOrCode) ScanText(v pgtype.Text) error {
	*w = wordOrCode{word: v.String}
	return nil
}

// ScanInt64 reads a code.
func (w *wordOrCode) ScanInt64(v pgtype.Int8) error {
	*w = wordOrCode{code: v.Int64}
	return nil
}

func decodeWord[W ~string](d *decoding, column string, v wordOrCode, of func(int16) (W, bool)) W {
	if v.code == 0 {
		return W(v.word)
	}
	word, ok := of(int16(v.code))
	if !ok {
		d.refuse(column, v.code, "which is no code")
	}
	return word
}

func (d *decoding) unsigned(column string, v int64) uint32 {
	if v < 0 || v > math.MaxUint32 {
		d.refuse(column, v, "outside 0 to 4294967295")
		return 0
	}
	return uint32(v)
}

func (d *decoding) key(column string, raw []byte) schedule.Key {
	var k schedule.Key
	if len(raw) != 0 && copy(k[:], raw) != len(k) {
		d.refuse(column, len(raw), "bytes where a key has 32")
	}
	return k
}

func (d *decoding) labels(raw []byte) map[string]string {
	if raw == nil {
		return nil
	}
	var labels map[string]string
	if err := json.Unmarshal(raw, &labels); err != nil {
		d.refuse("labels", string(raw), "which is no object of strings")
	}
	return labels
}

func (d *decoding) expect(text string) schedule.Expect {
	e, err := schedule.ParseExpect(text)
	if err != nil {
		d.refuse("expect", text, "which is no object of limits")
	}
	return e
}

// rawJSON returns nil for NULL.
func rawJSON(v pgtype.Text) json.RawMessage {
	if !v.Valid {
		return nil
	}
	return json.RawMessage(v.String)
}

// scheduleRow is a row as scheduleColumns list it.
type scheduleRow struct {
	scheduleID, workflowID, userID, timezone, dst        string
	overlapPolicy, overlapKey, catchupPolicy             string
	version, priority                                    int32
	cronExpr, input, grantID, managedBy, expect          pgtype.Text
	intervalMS, backlogRevision                          pgtype.Int8
	jitterMS, maxQueued, catchupWindowMS, runTimeoutMS   int64
	launchTimeoutMS                                      pgtype.Int8
	revision, planFailures                               int64
	labels                                               []byte
	paused                                               bool
	pauseNote, pausedBy                                  pgtype.Text
	onceAt, startAt, endAt, revisedAt, nextRunAt, planAt pgtype.Timestamptz
	backlogFrom, backlogUntil, backlogAt, pausedUntil    pgtype.Timestamptz
	lastRunAt, createdAt, updatedAt, deletedAt           pgtype.Timestamptz
}

func (w *scheduleRow) targets() []any {
	return []any{
		&w.scheduleID, &w.workflowID, &w.version, &w.userID, &w.cronExpr, &w.intervalMS, &w.onceAt,
		&w.timezone, &w.startAt, &w.endAt, &w.dst, &w.jitterMS,
		&w.overlapPolicy, &w.overlapKey, &w.maxQueued, &w.catchupPolicy, &w.catchupWindowMS, &w.runTimeoutMS, &w.priority,
		&w.input, &w.grantID, &w.labels, &w.managedBy, &w.expect, &w.launchTimeoutMS,
		&w.revision, &w.revisedAt, &w.nextRunAt, &w.planAt,
		&w.backlogFrom, &w.backlogUntil, &w.backlogRevision, &w.backlogAt, &w.planFailures,
		&w.paused, &w.pauseNote, &w.pausedBy, &w.pausedUntil,
		&w.lastRunAt, &w.createdAt, &w.updatedAt, &w.deletedAt,
	}
}

// schedule is the row as a schedule. On an error its id, revision and failures
// are still right.
func (w *scheduleRow) schedule() (schedule.Schedule, error) {
	var d decoding
	s := schedule.Schedule{
		Definition: w.definition(&d),
		Revision:   w.revision, RevisedAt: d.time("revised_at", w.revisedAt),
		NextRunAt: d.time("next_run_at", w.nextRunAt), PlanAt: d.time("plan_at", w.planAt),
		Backlog: schedule.Backlog{
			From: d.time("backlog_from", w.backlogFrom), Until: d.time("backlog_until", w.backlogUntil),
			Revision: w.backlogRevision.Int64, At: d.time("backlog_at", w.backlogAt),
		},
		PlanFailures: int(w.planFailures),
		Pause: schedule.Pause{
			Paused: w.paused, Note: w.pauseNote.String, By: w.pausedBy.String, Until: d.time("paused_until", w.pausedUntil),
		},
		LastRunAt: d.time("last_run_at", w.lastRunAt),
		CreatedAt: d.time("created_at", w.createdAt), UpdatedAt: d.time("updated_at", w.updatedAt),
		DeletedAt: d.time("deleted_at", w.deletedAt),
	}
	if d.err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ScheduleID, d.err)
	}
	return s, nil
}

func (w *scheduleRow) definition(d *decoding) schedule.Definition {
	return schedule.Definition{
		ScheduleID: w.scheduleID, WorkflowID: w.workflowID, Version: w.version, UserID: w.userID,
		CronExpr: w.cronExpr.String, IntervalMS: d.unsigned("interval_ms", w.intervalMS.Int64), OnceAt: d.time("once_at", w.onceAt),
		Timezone: w.timezone, StartAt: d.time("start_at", w.startAt), EndAt: d.time("end_at", w.endAt),
		DST: schedule.DST(w.dst), JitterMS: d.unsigned("jitter_ms", w.jitterMS),
		OverlapPolicy: schedule.OverlapPolicy(w.overlapPolicy), OverlapKey: w.overlapKey,
		MaxQueued:     d.unsigned("max_queued", w.maxQueued),
		CatchupPolicy: schedule.CatchupPolicy(w.catchupPolicy), CatchupWindowMS: d.unsigned("catchup_window_ms", w.catchupWindowMS),
		RunTimeoutMS: d.unsigned("run_timeout_ms", w.runTimeoutMS), Priority: w.priority,
		LaunchTimeoutMS: d.unsigned("launch_timeout_ms", w.launchTimeoutMS.Int64),
		Input:           rawJSON(w.input), ExecutionGrantID: w.grantID.String,
		Labels: d.labels(w.labels), ManagedBy: w.managedBy.String, Expect: d.expect(w.expect.String),
	}
}

// requestRow is a row as requestColumns list it.
type requestRow struct {
	key, hash                        []byte
	state                            string
	calls                            int32
	holder                           pgtype.Int4
	status, reason, runID            pgtype.Text
	traceID, errorCode, errorMessage pgtype.Text
	leaseUntil                       pgtype.Timestamptz
}

func (w *requestRow) targets() []any {
	return []any{
		&w.key, &w.hash, &w.state, &w.calls, &w.leaseUntil, &w.holder,
		&w.status, &w.reason, &w.runID, &w.traceID, &w.errorCode, &w.errorMessage,
	}
}

func (w *requestRow) request() (schedule.ExecutionRequest, error) {
	var d decoding
	return schedule.ExecutionRequest{
		Key: d.key("idempotency_key", w.key), RequestHash: d.key("request_hash", w.hash), Done: w.state == stateDone, Calls: w.calls,
		Lease: schedule.KeyLease{Holder: w.holder.Int32, Until: d.time("lease_until", w.leaseUntil)},
		Outcome: schedule.Outcome{
			Status: schedule.Status(w.status.String), Reason: schedule.Reason(w.reason.String),
			RunID: w.runID.String, TraceID: w.traceID.String, ErrorCode: w.errorCode.String, ErrorMessage: w.errorMessage.String,
		},
	}, d.err
}
