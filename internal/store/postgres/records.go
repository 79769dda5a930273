package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// Records of keys that the ledger does not have; see package tables.
const (
	sqlMakeRecords = `
INSERT INTO execution_requests (idempotency_key, request_hash, state, created_at, updated_at)
SELECT key, hash, 'IN_PROGRESS', $1, $1 FROM unnest($2::bytea[], $3::bytea[]) AS u(key, hash)
ON CONFLICT (idempotency_key) DO NOTHING`

	sqlLockRecords = `
SELECT e.idempotency_key, e.request_hash, e.state = 'DONE', e.calls, e.holder, e.lease_until,
	e.status, e.reason, e.run_id, e.trace_id, e.error_code, e.error_message, e.snooze_ms * 1000000
FROM execution_requests e WHERE e.idempotency_key = ANY($1::bytea[]) ORDER BY e.idempotency_key FOR UPDATE`
)

// lockRecords makes the records that are missing, and locks all, in the order of keys.
func lockRecords(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest, now time.Time) (map[schedule.Key]schedule.ExecutionRequest, error) {
	sorted := slices.SortedFunc(slices.Values(reqs), func(a, b schedule.BeginRequest) int { return slices.Compare(a.Key[:], b.Key[:]) })
	_, err := tx.Exec(ctx, sqlMakeRecords, now, column(sorted, beginKey), column(sorted, func(q *schedule.BeginRequest) []byte { return q.RequestHash[:] }))
	if err != nil {
		return nil, fmt.Errorf("make records of keys: %w", err)
	}
	keys := make([]schedule.Key, len(sorted))
	for i := range sorted {
		keys[i] = sorted[i].Key
	}
	records, err := dialect.Records(ctx, queries{tx}, keys)
	for _, key := range keys {
		if _, locked := records[key]; err == nil && !locked {
			err = fmt.Errorf("a record was pruned before it was locked: %w", errAgain)
		}
	}
	return records, err
}
