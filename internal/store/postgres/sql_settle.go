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

// sqlSettle moves runs forward, as ledger.Settle does with one; package storetest
// compares the two. It is SQL because one statement settles thousands of runs that
// nothing else has to read: to lock and read them first would be one more statement
// for each batch, and one more version of each row.
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
RETURNING r.idempotency_key, r.schedule_id, r.status, r.run_at, r.completed_at
), recovered AS (
	DELETE FROM schedule_failures f USING moved m
	WHERE EXISTS (SELECT FROM schedule_failures) AND m.status = 'SUCCESS' AND f.schedule_id = m.schedule_id AND (f.last_run_at, f.last_ended_at) <= (m.run_at, m.completed_at))
SELECT idempotency_key FROM moved`

// sqlSettleRenew is a settlement to LAUNCHING. Of the attempts that it records
// the last ten are kept (schedule.KeptAttempts).
const sqlSettleRenew = `
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
RETURNING r.idempotency_key`

// givenUp is a LAUNCHING row past timeout_at for which nothing is done any more:
// no outcome is recorded, no call is open, and what may have reached the executor
// was tried in this term ($7), which asks the executor by key where it can answer.
// $3 is the bound for rows of this term for which something is still to be done.
const givenUp = `r.status = 'LAUNCHING' AND r.timeout_at <= $1 AND (r.timeout_at <= $3 AND r.epoch >= $7 OR NOT coalesce(
	e.state = 'DONE' OR e.lease_until > $1 OR e.sent AND (r.epoch < $7 OR r.claimed_until > $1), false))`

// sqlSweep ends what is past its bound: by a cancel that nobody confirmed, else
// by time. "past" finds the keys through three partial indexes; the
// row as it is once locked decides how it ends.
const sqlSweep = `
WITH past AS (
	(SELECT idempotency_key FROM schedule_runs
	WHERE lower(status) IN ('enqueued','started') AND timeout_at <= $1
		AND CASE WHEN shard < $5 THEN false ELSE shard <= $6 END ORDER BY timeout_at LIMIT $4)
	UNION
	(SELECT r.idempotency_key FROM schedule_runs r
	WHERE lower(r.status) IN ('launching','enqueued','started') AND r.cancel_requested_at <= $2 AND NOT (r.status = 'LAUNCHING' AND coalesce(
		(SELECT e.state = 'DONE' FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key), false)) AND ` + ours + `
	ORDER BY r.cancel_requested_at LIMIT $4)
	UNION
	(SELECT r.idempotency_key FROM schedule_runs r
	LEFT JOIN execution_requests e ON e.idempotency_key = r.idempotency_key
	WHERE lower(r.status) = 'launching' AND ` + givenUp + ` AND ` + ours + ` LIMIT $4)
), locked AS (
	SELECT r.idempotency_key, r.status AS before, CASE
		WHEN cancelled THEN coalesce(r.cancel_reason, 'cancelled')
		WHEN r.status <> 'LAUNCHING' AND r.timeout_at <= $1 THEN 'timeout'
		WHEN ` + givenUp + ` THEN CASE WHEN coalesce(e.sent OR e.state = 'DONE', false) THEN 'lost' ELSE 'launch_unavailable' END
		END AS reason, cancelled
	FROM past JOIN schedule_runs r ON r.idempotency_key = past.idempotency_key
	LEFT JOIN execution_requests e ON e.idempotency_key = r.idempotency_key
	CROSS JOIN LATERAL (SELECT coalesce(r.cancel_requested_at <= $2
		AND (r.status <> 'LAUNCHING' OR r.timeout_at <= $3 AND r.epoch >= $7 OR e.state IS DISTINCT FROM 'DONE'), false) AS cancelled) c
	WHERE r.status IN ('LAUNCHING','ENQUEUED','STARTED')
	ORDER BY r.idempotency_key LIMIT $4 FOR UPDATE OF r SKIP LOCKED
)
UPDATE schedule_runs r SET status = CASE WHEN l.cancelled THEN 'CANCELLED' ELSE 'FAILED' END, reason = l.reason,
	error_code = CASE WHEN l.reason IN ('lost','launch_unavailable') THEN coalesce(r.error_code, 'launch_timeout') ELSE r.error_code END,
	deliveries = greatest(r.deliveries, CASE WHEN l.before = 'LAUNCHING' THEN ` + callsMade + ` END),
	completed_at = $1, claimed_until = NULL, updated_at = $1
FROM locked l
WHERE r.idempotency_key = l.idempotency_key AND l.reason IS NOT NULL AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED')
RETURNING` + runColumns + `, l.before`
