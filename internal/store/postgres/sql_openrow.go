package postgres

// Statements that lock rows of open_runs, in the order of their keys where they wait.
//
// open_runs is often empty, and a plan made then stays until statistics change. It must
// read by key even so: a test checks the plans of an empty database. For a join with
// = ANY(ARRAY[u.key]) in place of = u.key there is no other plan, nor for a subquery
// with OFFSET 0. Rows that come by key are asked for their status, which no index has:
// state would lead to open_runs_due.
const (
	lockOpenRuns = `
SELECT` + openColumns + `, o.attempt_log::text, o.holder, o.lease_until` + fromOpen + `
WHERE `
	byKey = `
ORDER BY o.idempotency_key FOR UPDATE OF o`

	sqlLockKeys = lockOpenRuns + `o.idempotency_key = ANY($1::bytea[])` + byKey

	// sqlLockAnswered reads what ledger.Settle reads of a run: half the work of sqlLockKeys.
	sqlLockAnswered = `
SELECT o.idempotency_key, o.overlap_key, o.status, o.waiting_since, o.send_after, o.cancel_requested_at, o.cancel_reason,
	o.run_id, o.trace_id, o.error_code, o.error_message, o.launched_at, o.started_at, o.timeout_at,
	o.fire_at, o.claimed_at, o.deliveries, o.failed_attempts, o.attempt_log::text` + fromOpen + `
WHERE o.idempotency_key = ANY($1::bytea[])` + byKey

	// sqlLockPlannedOf are the planned runs of schedules.
	sqlLockPlannedOf = lockOpenRuns + `o.idempotency_key = ANY(ARRAY(
	SELECT k.idempotency_key FROM open_runs k
	WHERE k.sid = ANY(ARRAY(SELECT s.sid FROM schedules s WHERE s.schedule_id = ANY($1::text[]))))) AND o.status = 1` + byKey

	sqlLockPlannedOfBackfill = lockOpenRuns + `o.idempotency_key = ANY(ARRAY` + unsettledKeys + `) AND o.status = 1` + byKey

	// sqlLockDue are runs in flight that a sweep must look at, the oldest due_at first.
	// Rows that others have locked wait for the next sweep.
	sqlLockDue = lockOpenRuns + `o.state = 3 AND o.due_at <= $1 AND CASE WHEN o.bucket < $3 THEN false ELSE o.bucket <= $4 END
ORDER BY o.due_at LIMIT $2 FOR UPDATE OF o SKIP LOCKED`
)

// sqlPostpone leaves updated_at: nothing that anybody watches has changed.
const sqlPostpone = `
UPDATE open_runs o SET due_at = coalesce(u.due_at, 'infinity')
FROM unnest($1::bytea[], $2::timestamptz[]) AS u(key, due_at)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1`

// sqlWriteOpen writes rows in flight that are locked. due_at only falls: it nearly always
// stays, and no index changes. An acceptance is the answer to the call that holds the key.
// The leader reads again when a LAUNCHING run is to be sent next.
const sqlWriteOpen = `
WITH changed AS (
UPDATE open_runs o SET status = u.status, due_at = least(o.due_at, u.due_at), send_after = u.send_after,
	run_id = u.run_id, trace_id = u.trace_id, error_code = u.error_code, error_message = u.error_message,
	launched_at = u.launched_at, started_at = u.started_at, timeout_at = u.timeout_at,
	holder = CASE WHEN u.status = 3 THEN NULL ELSE o.holder END, lease_until = CASE WHEN u.status = 3 THEN NULL ELSE o.lease_until END,
	deliveries = u.deliveries, failed_attempts = u.failed_attempts, attempt_log = u.attempt_log::jsonb, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[], $4::timestamptz[],
	$5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[],
	$10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::integer[], $14::integer[], $15::text[])
	AS u(key, due_at, send_after, ` + outcomeColumns + `)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1
RETURNING o.idempotency_key, o.bucket, o.status
), noted AS (` + noteRuns + `2 FROM changed WHERE status = 2 HAVING count(*) > 0)
SELECT FROM changed`

// outcomeColumns are as outcomeArgs binds them.
const outcomeColumns = `status, run_id, trace_id, error_code, error_message,
	launched_at, started_at, timeout_at, deliveries, failed_attempts, attempt_log`
