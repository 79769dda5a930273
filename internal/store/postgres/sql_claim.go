package postgres

// ours is what of the runs is in the term's buckets; see sqlPlanDue.
const ours = `CASE WHEN r.shard < $5 THEN false ELSE r.shard <= $6 END`

// What a claim writes. Wherever rows come by key, the status is compared in a form
// that matches no partial index: where statistics lag behind a burst, those look
// empty, and cheaper than the primary key.

const sqlClaimEnd = endRuns

const sqlClaimWait = `
UPDATE schedule_runs r SET waiting_since = $1, updated_at = $1
WHERE r.idempotency_key = ANY($2::bytea[]) AND r.status || '' = 'PLANNED' AND r.waiting_since IS NULL`

const sqlClaimCancel = `
UPDATE schedule_runs r SET cancel_requested_at = $1, cancel_reason = u.reason, updated_at = $1
FROM unnest($2::bytea[], $3::text[]) AS u(key, reason)
WHERE r.idempotency_key = u.key AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED') AND r.cancel_requested_at IS NULL
RETURNING` + runColumns

// sqlClaim: since the run was judged, a plan may have moved its fire_at, and an edit
// may have put the run of another revision under its key.
const sqlClaim = `
UPDATE schedule_runs r SET status = 'LAUNCHING', epoch = $1,
	claimed_at = coalesce(r.claimed_at, $2), claimed_until = $3, timeout_at = u.timeout_at,
	waiting_since = NULL, updated_at = $2
FROM unnest($4::bytea[], $5::timestamptz[], $6::bigint[]) AS u(key, timeout_at, revision)
WHERE r.idempotency_key = u.key AND r.revision = u.revision AND r.status || '' = 'PLANNED' AND r.fire_at <= $7
RETURNING` + runColumns

const sqlClaimSeen = `
UPDATE leaders SET seen_until = greatest(seen_until, $4)
WHERE shard = $1 AND holder = $2 AND epoch = $3`

// sqlClaimLock locks the runs on which their verdicts can be written, and passes over
// those that others have locked.
const sqlClaimLock = `
SELECT r.idempotency_key
FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS u(key, revision, verdict) JOIN schedule_runs r ON r.idempotency_key = u.key
WHERE CASE WHEN u.verdict = 'cancel' THEN r.status IN ('LAUNCHING','ENQUEUED','STARTED') AND r.cancel_requested_at IS NULL
	ELSE r.status = 'PLANNED' AND r.revision = u.revision AND (u.verdict <> 'wait' OR r.waiting_since IS NULL) END
ORDER BY r.idempotency_key FOR UPDATE OF r SKIP LOCKED`
