package postgres

// sqlLockBegun locks the runs of keys and reads what ledger.Begin must know of each. A
// pause or a deletion after this statement began may be missing: a check is valid for
// one second. The subquery keeps its order of joins; see openrow.go.
var sqlLockBegun = `
SELECT` + beginColumns + `, s.deleted_at, s.paused, s.paused_until
FROM open_runs o CROSS JOIN LATERAL (
	SELECT schedule_id, deleted_at, paused, paused_until FROM schedules WHERE sid = o.sid OFFSET 0) s
WHERE o.idempotency_key = ANY($1::bytea[])` + byKey

const sqlBeginSchedules = `
SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until FROM schedules s WHERE s.schedule_id = ANY($1::text[])`

// sqlBegin records calls of locked runs. It changes no index, and leaves updated_at:
// nothing that anybody watches has changed.
const sqlBegin = `
UPDATE open_runs o SET holder = u.holder, lease_until = u.lease_until, deliveries = o.deliveries + 1,
	first_sent_at = coalesce(o.first_sent_at, $1)
FROM unnest($2::bytea[], $3::integer[], $4::timestamptz[]) AS u(key, holder, lease_until)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 2`

// Of a lease Until identifies the call, also after it has expired, as long as no other
// call was granted the key.
const (
	sqlRelease = `
UPDATE open_runs SET holder = NULL, lease_until = NULL, deliveries = $3, first_sent_at = CASE WHEN $3 > 0 THEN first_sent_at END
WHERE idempotency_key = $1 AND lease_until = $2 AND status = 2`

	sqlExtend = `
UPDATE open_runs o SET lease_until = u.lease_until
FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.lease_until = u.held AND o.status > 1
RETURNING o.idempotency_key, u.held, o.lease_until`

	// sqlExtendEnded: nobody can take the key of a run that has ended.
	sqlExtendEnded = `
SELECT u.key, u.held, u.lease_until FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE (SELECT true FROM ended_runs e WHERE e.idempotency_key = u.key LIMIT 1)`

	sqlMoveKeys = `
UPDATE open_runs SET holder = $3
WHERE idempotency_key = ANY($1::bytea[]) AND holder = $2::integer AND lease_until IS NOT NULL AND status > 1
RETURNING idempotency_key`
)

const sqlFirstSent = `
SELECT coalesce((SELECT o.first_sent_at FROM open_runs o WHERE o.idempotency_key = $1),
	(SELECT e.first_sent_at FROM ended_runs e WHERE e.idempotency_key = $1))`

// Records of keys that the ledger does not have.
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

	sqlReleaseRecord = `
UPDATE execution_requests SET lease_until = NULL, calls = $3, updated_at = $4
WHERE idempotency_key = $1 AND lease_until = $2`

	sqlExtendRecords = `
UPDATE execution_requests e SET lease_until = u.lease_until
FROM unnest($1::bytea[], $2::timestamptz[], $3::timestamptz[]) AS u(key, held, lease_until)
WHERE e.idempotency_key = u.key AND e.lease_until = u.held
RETURNING e.idempotency_key, u.held, e.lease_until`

	sqlMoveRecords = `
UPDATE execution_requests SET holder = $3
WHERE idempotency_key = ANY($1::bytea[]) AND holder = $2::integer AND lease_until IS NOT NULL
RETURNING idempotency_key`
)
