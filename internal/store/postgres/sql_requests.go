package postgres

const requestColumns = `
e.idempotency_key, e.request_hash, e.state, e.sent, CASE WHEN e.sent THEN e.calls ELSE 0 END, e.lease_until, e.holder,
e.status, e.reason, e.run_id, e.trace_id, e.error_code, e.error_message, e.created_at`

// sqlBeginRead: two lookups by primary key for each of the keys. It locks
// nothing: a pause or cancel after this snapshot finds the key recorded, and a
// check is valid for one second. History is read for keys that are not open.
const (
	sqlBeginRead = `
SELECT u.place, o.status, o.trigger, o.cancel_requested_at IS NOT NULL, o.cancel_reason,
	s.deleted_at IS NOT NULL, coalesce(s.paused, false), s.paused_until
FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS u(key, schedule_id, place)
LEFT JOIN open_runs o ON o.idempotency_key = ANY(ARRAY[u.key])
LEFT JOIN schedules s ON s.schedule_id = ANY(ARRAY[u.schedule_id])`

	sqlBeginReadEnded = `
SELECT e.idempotency_key, e.status, e.reason, e.trigger, e.cancel_requested_at IS NOT NULL, e.cancel_reason
FROM ended_runs e WHERE e.idempotency_key = ANY($1::bytea[])`
)

const sqlBeginRecall = `
SELECT ` + requestColumns + `
FROM unnest($1::bytea[]) AS u(key) JOIN execution_requests e ON e.idempotency_key = u.key`

// sqlBeginInsertNew fails on a key that is there; see sqlInsertNewRuns.
const (
	sqlBeginInsert = sqlBeginInsertNew + `
ON CONFLICT (idempotency_key) DO NOTHING`

	sqlBeginInsertNew = `
INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, lease_until, holder, ok, status, reason, error_message, created_at, updated_at)
SELECT key, request_hash, state, sent, lease_until, holder, ok, status, reason, error_message, $1, $1
FROM unnest($2::bytea[], $3::bytea[], $4::text[], $5::boolean[], $6::timestamptz[], $7::integer[], $8::boolean[], $9::text[], $10::text[], $11::text[])
	AS u(key, request_hash, state, sent, lease_until, holder, ok, status, reason, error_message)`
)

// sqlBeginRefuse closes keys with a call that was never sent.
const sqlBeginRefuse = `
UPDATE execution_requests e SET state = 'DONE', request_hash = u.request_hash, lease_until = NULL,
	ok = false, status = u.status, reason = u.reason, error_message = u.error_message, updated_at = $1
FROM unnest($2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[]) AS u(key, request_hash, status, reason, error_message)
WHERE e.idempotency_key = u.key AND e.state = 'IN_PROGRESS' AND NOT e.sent AND (e.lease_until IS NULL OR e.lease_until <= $1)`

// sqlBeginAgain: a lease that runs is taken only from the holder that is proven to
// be gone ($5).
const sqlBeginAgain = `
UPDATE execution_requests e SET lease_until = u.lease_until, holder = u.holder, sent = true, calls = CASE WHEN e.sent THEN e.calls ELSE 0 END + 1, updated_at = $1,
	sent_at = CASE WHEN e.sent THEN e.sent_at ELSE $1 END
FROM unnest($2::bytea[], $3::timestamptz[], $4::integer[], $5::integer[]) AS u(key, lease_until, holder, gone)
WHERE e.idempotency_key = u.key AND e.state = 'IN_PROGRESS' AND (e.lease_until IS NULL OR e.lease_until <= $1 OR e.holder = u.gone)`

const (
	sqlFinish           = finish + `e.state = 'IN_PROGRESS' RETURNING e.idempotency_key`
	sqlFinishSuperseded = finish + `e.state = 'DONE' AND e.status = 'ENQUEUED'`

	finish = `
UPDATE execution_requests e SET state = 'DONE', lease_until = NULL, ok = u.ok, status = u.status, reason = u.reason,
	run_id = u.run_id, trace_id = u.trace_id, error_code = u.error_code, error_message = u.error_message, calls = e.calls - u.unsent, updated_at = $1
FROM unnest($2::bytea[], $3::boolean[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[])
	AS u(key, ok, status, reason, run_id, trace_id, error_code, error_message, unsent)
WHERE e.idempotency_key = u.key AND `
)

// sqlFinishThere locks keys that sqlFinish has not found open.
const sqlFinishThere = `
SELECT` + requestColumns + `
FROM execution_requests e WHERE e.idempotency_key = ANY($1::bytea[]) ORDER BY e.idempotency_key FOR UPDATE`

// sqlRelease: the lease identifies the call.
const sqlRelease = `
UPDATE execution_requests SET lease_until = NULL, sent = $3::integer > 0, calls = $3, updated_at = $4
WHERE idempotency_key = $1 AND state = 'IN_PROGRESS' AND lease_until = $2`

// sqlExtend: the lease identifies the call, also after it has expired, as long as no
// other call was granted the key.
const sqlExtend = `
UPDATE execution_requests e SET lease_until = u.lease_until, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[], $4::timestamptz[]) AS u(key, held, lease_until)
WHERE e.idempotency_key = u.key AND e.state = 'IN_PROGRESS' AND e.lease_until = u.held
RETURNING e.idempotency_key, u.held, e.lease_until`

const sqlCloseKeyRead = `
SELECT` + requestColumns + `
FROM execution_requests e WHERE e.idempotency_key = $1 FOR UPDATE`

// sqlCloseKey closes a key that is new, or that sqlCloseKeyRead has locked. If the
// key has been recorded since, it changes nothing. The hash of a request that was
// never made is all zero; any request is answered from such a row.
const sqlCloseKey = `
INSERT INTO execution_requests (idempotency_key, request_hash, state, ok, status, reason, created_at, updated_at)
VALUES ($1, $2, 'DONE', false, 'CANCELLED', $3, $4, $4)
ON CONFLICT (idempotency_key) DO UPDATE SET state = 'DONE', lease_until = NULL,
	ok = false, status = 'CANCELLED', reason = excluded.reason, updated_at = excluded.updated_at
WHERE execution_requests.state = 'IN_PROGRESS' AND NOT execution_requests.sent`

const sqlFirstSent = `
SELECT coalesce(sent_at, created_at) FROM execution_requests WHERE idempotency_key = $1 AND sent`
