package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Records of keys that the ledger does not have: graph runs, and starts from workers on
// another database.
const (
	sqlRequests = `SELECT ` + requestColumns + ` FROM json_each(?) j
 CROSS JOIN execution_requests q ON q.idempotency_key = unhex(j.value)`
	sqlWriteRequest = `INSERT INTO execution_requests (idempotency_key, request_hash, state, calls, lease_until, holder,
 status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13)
 ON CONFLICT (idempotency_key) DO UPDATE SET state = excluded.state, calls = excluded.calls, lease_until = excluded.lease_until,
 holder = excluded.holder, status = excluded.status, reason = excluded.reason, run_id = excluded.run_id, trace_id = excluded.trace_id,
 error_code = excluded.error_code, error_message = excluded.error_message, updated_at = excluded.updated_at`
	sqlReleaseRequest = `UPDATE execution_requests SET lease_until = NULL, calls = ?3, updated_at = ?4 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlExtendRequest  = `UPDATE execution_requests SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlMoveRequest    = `UPDATE execution_requests SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL`
)

// requestColumns and requestRow belong together.
const requestColumns = `q.idempotency_key, q.request_hash, q.state, q.calls, q.holder, q.lease_until, q.status, q.reason,
 q.run_id, q.trace_id, q.error_code, q.error_message`

type requestRow struct {
	key, hash                                          key
	state, status, reason, runID, trace, code, message text
	calls, holder                                      number
	leaseUntil                                         instant
}

func (r *requestRow) columns() []any {
	return []any{
		&r.key, &r.hash, &r.state, &r.calls, &r.holder, &r.leaseUntil, &r.status, &r.reason,
		&r.runID, &r.trace, &r.code, &r.message,
	}
}

func (r *requestRow) request() schedule.ExecutionRequest {
	return schedule.ExecutionRequest{
		Key: schedule.Key(r.key), RequestHash: r.hash, Done: r.state == stateDone, Calls: int32(r.calls),
		Lease: schedule.KeyLease{Holder: int32(r.holder), Until: r.leaseUntil.Time},
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

// finishRequest records the outcome of a key that the ledger does not have, and returns
// the one that counts.
func finishRequest(ctx context.Context, t tx, f *schedule.FinishRequest, now time.Time) (schedule.Outcome, error) {
	records, err := readRequests(ctx, t, []schedule.Key{f.Key})
	known, there := records[f.Key]
	if err != nil || !there {
		return f.Outcome, err
	}
	after := ledger.FinishKey(known, f)
	return after.Outcome, writeRequest(ctx, t, &after, now)
}
