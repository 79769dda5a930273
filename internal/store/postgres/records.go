package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Records of keys that the ledger does not have: graph runs, and starts from workers on
// another database.

// The states of a record.
const (
	stateInProgress = "IN_PROGRESS"
	stateDone       = "DONE"
)

const (
	requestColumns = `
e.idempotency_key, e.request_hash, e.state, e.calls, e.lease_until, e.holder,
e.status, e.reason, e.run_id, e.trace_id, e.error_code, e.error_message`

	sqlMakeRecords = `
INSERT INTO execution_requests (idempotency_key, request_hash, state, created_at, updated_at)
SELECT key, hash, 'IN_PROGRESS', $1, $1 FROM unnest($2::bytea[], $3::bytea[]) AS u(key, hash)
ON CONFLICT (idempotency_key) DO NOTHING`

	sqlLockRecords = `
SELECT` + requestColumns + `
FROM execution_requests e WHERE e.idempotency_key = ANY($1::bytea[]) ORDER BY e.idempotency_key FOR UPDATE`

	sqlWriteRecords = `
UPDATE execution_requests e SET state = u.state, calls = u.calls, lease_until = u.lease_until, holder = u.holder,
	status = u.status, reason = u.reason, run_id = u.run_id, trace_id = u.trace_id, error_code = u.error_code, error_message = u.error_message,
	updated_at = $1
FROM unnest($2::bytea[], $3::text[], $4::integer[], $5::timestamptz[], $6::integer[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
	AS u(key, state, calls, lease_until, holder, status, reason, run_id, trace_id, error_code, error_message)
WHERE e.idempotency_key = u.key`
)

// lockRecords makes the records that are missing, and locks all, in the order of keys.
func lockRecords(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest, now time.Time) (map[schedule.Key]schedule.ExecutionRequest, error) {
	sorted := slices.SortedFunc(slices.Values(reqs), func(a, b schedule.BeginRequest) int { return slices.Compare(a.Key[:], b.Key[:]) })
	_, err := tx.Exec(ctx, sqlMakeRecords, now, column(sorted, beginKey), column(sorted, func(q *schedule.BeginRequest) []byte { return q.RequestHash[:] }))
	if err != nil {
		return nil, fmt.Errorf("make records of keys: %w", err)
	}
	return readRecords(ctx, tx, column(sorted, beginKey))
}

// readRecords locks records that exist.
func readRecords(ctx context.Context, tx pgx.Tx, keys pgtype.FlatArray[[]byte]) (map[schedule.Key]schedule.ExecutionRequest, error) {
	var row requestRow
	records := make(map[schedule.Key]schedule.ExecutionRequest, len(keys))
	err := each(ctx, tx, row.targets(), func() error {
		record, err := row.request()
		records[record.Key] = record
		return err
	}, sqlLockRecords, keys)
	if err != nil {
		return nil, fmt.Errorf("lock records of keys: %w", err)
	}
	return records, nil
}

// writeRecords writes locked records.
func writeRecords(ctx context.Context, tx pgx.Tx, records map[schedule.Key]schedule.ExecutionRequest, now time.Time) error {
	if len(records) == 0 {
		return nil
	}
	type record = schedule.ExecutionRequest
	rows := make([]record, 0, len(records))
	for _, r := range records {
		rows = append(rows, r)
	}
	_, err := tx.Exec(ctx, sqlWriteRecords, now,
		column(rows, func(r *record) []byte { return r.Key[:] }),
		column(rows, func(r *record) string {
			if r.Done {
				return stateDone
			}
			return stateInProgress
		}),
		column(rows, func(r *record) int32 { return r.Calls }),
		column(rows, func(r *record) pgtype.Timestamptz { return noneOrTime(r.Lease.Until) }),
		column(rows, func(r *record) pgtype.Int8 { return noneOrInt(int64(r.Lease.Holder)) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.Status) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.Reason) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.RunID) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.TraceID) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.ErrorCode) }),
		column(rows, func(r *record) pgtype.Text { return noneOrText(r.Outcome.ErrorMessage) }))
	if err != nil {
		return fmt.Errorf("write records of keys: %w", err)
	}
	return nil
}

// finishRecords records outcomes, each under its index in done, and returns those that
// count.
func finishRecords(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest, now time.Time) (outcomes []schedule.Outcome, err error) {
	records, err := readRecords(ctx, tx, column(done, func(f *schedule.FinishRequest) []byte { return f.Key[:] }))
	if err != nil {
		return nil, err
	}
	outcomes = make([]schedule.Outcome, len(done))
	for i := range done {
		outcomes[i] = done[i].Outcome
		if known, there := records[done[i].Key]; there {
			records[known.Key] = ledger.FinishKey(known, &done[i])
			outcomes[i] = records[known.Key].Outcome
		}
	}
	return outcomes, writeRecords(ctx, tx, records, now)
}
