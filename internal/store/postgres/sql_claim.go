package postgres

// The writes of a claim. Rows are found by key; the status shows which verdicts are still
// valid. See sql_openrow.go for ANY(ARRAY[u.key]).

const sqlClaimWait = `
UPDATE open_runs o SET state = 2, due_at = 'infinity', waiting_since = $1, updated_at = $1
WHERE o.idempotency_key = ANY($2::bytea[]) AND o.status = 1 AND o.waiting_since IS NULL`

const sqlClaimCancel = `
UPDATE open_runs o SET cancel_requested_at = $1, cancel_reason = u.reason, due_at = least(o.due_at, $1), updated_at = $1
FROM unnest($2::bytea[], $3::text[], $4::text[]) AS u(key, schedule_id, reason)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1 AND o.cancel_requested_at IS NULL
RETURNING o.idempotency_key, u.schedule_id,` + openColumnsAfterSchedule

// sqlClaim: since the run was judged, a plan may have moved its fire_at, and an edit
// may have put the run of another revision under its key.
const sqlClaim = `
UPDATE open_runs o SET state = 3, status = 2, exclusive_flight = o.policy <> 1, epoch = $1,
	claimed_at = $2, send_after = $3, timeout_at = u.timeout_at, due_at = $3,
	waiting_since = NULL, updated_at = $2
FROM unnest($4::bytea[], $5::timestamptz[], $6::bigint[], $7::text[]) AS u(key, timeout_at, revision, schedule_id)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.revision = u.revision AND o.status = 1 AND o.fire_at <= $8
RETURNING o.idempotency_key, u.schedule_id,` + openColumnsAfterSchedule

const sqlClaimSeen = `
UPDATE leaders SET seen_until = greatest(seen_until, $4)
WHERE shard = $1 AND holder = $2 AND epoch = $3`

// sqlClaimLock locks the runs with valid verdicts, and skips runs that others have
// locked.
const sqlClaimLock = `
SELECT o.idempotency_key
FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS u(key, revision, verdict) JOIN open_runs o ON o.idempotency_key = ANY(ARRAY[u.key])
WHERE CASE WHEN u.verdict = 'cancel' THEN o.status > 1 AND o.cancel_requested_at IS NULL
	ELSE o.status = 1 AND o.revision = u.revision AND (u.verdict <> 'wait' OR o.waiting_since IS NULL) END
ORDER BY u.key FOR UPDATE OF o SKIP LOCKED`
