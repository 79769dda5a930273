package postgres

// forward are Status.Predecessors as pairs (to, from), and the heartbeat. A
// test compares them.
const forward = `
	('ENQUEUED','LAUNCHING'),
	('STARTED','LAUNCHING'), ('STARTED','ENQUEUED'), ('STARTED','STARTED'),
	('SUCCESS','LAUNCHING'), ('SUCCESS','ENQUEUED'), ('SUCCESS','STARTED'),
	('FAILED','PLANNED'), ('FAILED','LAUNCHING'), ('FAILED','ENQUEUED'), ('FAILED','STARTED'),
	('SKIPPED','PLANNED'), ('SKIPPED','LAUNCHING'),
	('CANCELLED','PLANNED'), ('CANCELLED','LAUNCHING'), ('CANCELLED','ENQUEUED'), ('CANCELLED','STARTED')`

// callsMade is how many calls of a run may have reached the executor; NULL: none.
const callsMade = `(SELECT e.calls FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key AND e.sent)`

// sqlSettle moves runs forward, by the rule of ledger.Settle; package storetest compares
// the two. The rule is repeated in SQL because one statement settles thousands of runs:
// to lock and read them first costs one more statement for each batch and one more
// version of each row.
// A success ends the failures of its schedule. A statement of its own would be one more
// round trip for each batch; EXISTS makes it one look where no schedule fails.
const sqlSettle = `
WITH moved AS (UPDATE schedule_runs r SET status = u.status,
	reason = coalesce(u.reason, r.reason, CASE WHEN u.status = 'CANCELLED' THEN coalesce(r.cancel_reason, 'cancelled') END), run_id = coalesce(u.run_id, r.run_id), trace_id = coalesce(u.trace_id, r.trace_id),
	error_code = CASE WHEN r.status = 'LAUNCHING' THEN u.error_code ELSE coalesce(u.error_code, r.error_code) END,
	error_message = CASE WHEN r.status = 'LAUNCHING' THEN u.error_message ELSE coalesce(u.error_message, r.error_message) END,
	launched_at = coalesce(u.launched_at, r.launched_at),
	started_at = coalesce(r.started_at, u.started_at),
	completed_at = CASE WHEN u.terminal THEN coalesce(u.completed_at, $1) ELSE r.completed_at END,
	timeout_at = coalesce(u.timeout_at, r.timeout_at),
	deliveries = greatest(r.deliveries, u.deliveries, CASE WHEN u.deliveries = 0 AND r.status = 'LAUNCHING' THEN ` + callsMade + ` END),
	claimed_until = NULL, waiting_since = NULL, updated_at = $1
FROM unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
	$9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::boolean[], $14::integer[])
	AS u(key, status, reason, run_id, trace_id, error_code, error_message,
	launched_at, started_at, completed_at, timeout_at, terminal, deliveries)
WHERE r.idempotency_key = u.key AND (u.status, r.status) IN (` + forward + `)
RETURNING r.idempotency_key, r.schedule_id, r.status, r.run_at, r.completed_at, r.shard
), changed AS (
	SELECT idempotency_key, shard FROM moved WHERE status IN ('SUCCESS','FAILED','SKIPPED','CANCELLED')
), noted AS (` + noteEnded + `
), recovered AS (
	DELETE FROM schedule_failures f USING moved m
	WHERE EXISTS (SELECT FROM schedule_failures) AND m.status = 'SUCCESS' AND f.schedule_id = m.schedule_id AND (f.last_run_at, f.last_ended_at) <= (m.run_at, m.completed_at))
SELECT idempotency_key FROM moved`

// sqlSettleRenew is a settlement to LAUNCHING. Of the attempts that it records
// the last ten are kept (schedule.KeptAttempts).
// The leader reads again when each run is to be sent next.
const sqlSettleRenew = `
WITH changed AS (
UPDATE schedule_runs r SET claimed_until = coalesce(u.claimed_until, r.claimed_until), updated_at = $1,
	error_code = coalesce(u.error_code, r.error_code), error_message = coalesce(u.error_message, r.error_message),
	deliveries = greatest(r.deliveries, u.deliveries),
	failed_attempts = r.failed_attempts + CASE WHEN u.attempt IS NULL THEN 0 ELSE 1 END,
	attempt_log = CASE WHEN u.attempt IS NULL THEN r.attempt_log
		WHEN jsonb_array_length(r.attempt_log) >= 10 THEN (r.attempt_log - 0) || u.attempt::jsonb
		ELSE coalesce(r.attempt_log, '[]') || u.attempt::jsonb END
FROM unnest($2::bytea[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[])
	AS u(key, claimed_until, error_code, error_message, deliveries, attempt)
WHERE r.idempotency_key = u.key AND r.status || '' = 'LAUNCHING'
RETURNING r.idempotency_key, r.shard
), noted AS (` + noteChanged + `
)
SELECT idempotency_key FROM changed`

// The candidates of a sweep: rows in flight with the instant of a bound at or before
// $1 and after ($2, $3), with the records of their keys. ledger.Sweep decides which of
// them end. A partial index finds them; the status is checked again under the lock;
// rows that others have locked wait for the next sweep.
const (
	sqlSweepCancels  = sweepCandidates + `r.cancel_requested_at AS since FROM schedule_runs r WHERE lower(r.status) IN ('launching','enqueued','started') AND ` + sweepCancel + sweepLocked
	sqlSweepLaunches = sweepCandidates + `r.timeout_at AS since FROM schedule_runs r WHERE lower(r.status) = 'launching' AND ` + sweepTimeout + sweepLocked
	sqlSweepTimeouts = sweepCandidates + `r.timeout_at AS since FROM schedule_runs r WHERE lower(r.status) IN ('enqueued','started') AND ` + sweepTimeout + sweepLocked

	sweepCandidates = `
SELECT` + runColumns + `,` + requestColumns + `
FROM (SELECT r.idempotency_key AS key, `
	sweepCancel  = `r.cancel_requested_at <= $1::timestamptz AND (r.cancel_requested_at, r.idempotency_key) > ($2::timestamptz, $3::bytea)`
	sweepTimeout = `r.timeout_at <= $1::timestamptz AND (r.timeout_at, r.idempotency_key) > ($2::timestamptz, $3::bytea)`
	sweepLocked  = ` AND ` + ours + `
	ORDER BY since, key LIMIT $4) past
JOIN schedule_runs r ON r.idempotency_key = past.key
LEFT JOIN execution_requests e ON e.idempotency_key = r.idempotency_key
WHERE r.status IN ('LAUNCHING','ENQUEUED','STARTED')
ORDER BY past.since, past.key FOR UPDATE OF r SKIP LOCKED`
)

// sqlSweepEnd writes the ends of rows that a statement above has locked.
const sqlSweepEnd = `
WITH changed AS (
UPDATE schedule_runs r SET status = u.status, reason = u.reason, error_code = u.error_code, deliveries = u.deliveries,
	completed_at = $1, claimed_until = NULL, updated_at = $1
FROM unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $6::integer[]) AS u(key, status, reason, error_code, deliveries)
WHERE r.idempotency_key = u.key AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED')
RETURNING r.idempotency_key, r.shard
)` + noteEnded
