package postgres

// sqlEnd moves rows to history. $2: the rows are locked, and their ends are noted for the
// leader; else a claim ends them, and only those that are still planned. Only what a rule
// changes is bound; all else moves as it is. A success ends the failures of its schedule
// here: EXISTS makes that one look where no schedule fails.
const sqlEnd = `
WITH gone AS (
DELETE FROM open_runs o USING unnest($3::bytea[], $4::text[], $5::timestamptz[],
	$6::smallint[], $7::text[], $8::text[], $9::text[], $10::text[],
	$11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::integer[], $15::integer[], $16::text[])
	AS u(key, reason, completed_at, ` + outcomeColumns + `)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND ($2 OR o.status = 1)
RETURNING o.run_at, o.fire_at, o.created_at, o.claimed_at, u.launched_at, u.started_at, coalesce(u.completed_at, $1) AS completed_at,
	$1::timestamptz AS recorded_at, o.cancel_requested_at, u.timeout_at, o.epoch, o.sid, o.nth, o.revision, o.priority, o.max_queued,
	o.attempt, u.deliveries, u.failed_attempts, o.late_reports, o.exit_code, o.bucket, u.status, o.trigger, o.policy,
	o.idempotency_key, o.overlap_key, u.reason, o.cancel_reason, o.retry_of, o.input, u.run_id, u.trace_id,
	u.error_code, u.error_message, u.attempt_log::jsonb AS attempt_log, o.log_url,
	CASE WHEN u.deliveries > 1 THEN o.first_sent_at END
), noted AS (
INSERT INTO changes (first_bucket, last_bucket, keys, kind)
SELECT min(bucket), max(bucket), array_agg(idempotency_key), 3 FROM gone HAVING $2::boolean AND count(*) > 0
), recovered AS (
DELETE FROM schedule_failures f USING gone m
WHERE EXISTS (SELECT FROM schedule_failures) AND m.status = 5 AND f.schedule_id = (SELECT s.schedule_id FROM schedules s WHERE s.sid = m.sid)
	AND (f.last_run_at, f.last_ended_at) <= (m.run_at, m.completed_at))
INSERT INTO ended_runs (run_at, fire_at, created_at, claimed_at, launched_at, started_at, completed_at,
	recorded_at, cancel_requested_at, timeout_at, epoch, sid, nth, revision, priority, max_queued,
	attempt, deliveries, failed_attempts, late_reports, exit_code, bucket, status, trigger, policy,
	idempotency_key, overlap_key, reason, cancel_reason, retry_of, input, run_id, trace_id,
	error_code, error_message, attempt_log, log_url, first_sent_at)
SELECT * FROM gone`

// The end of a run whose slot and nth history has.
const (
	sqlEndedTwice = `
SELECT s.schedule_id, EXISTS (SELECT FROM ended_runs e WHERE e.run_at = o.run_at AND e.idempotency_key = o.idempotency_key)
FROM open_runs o JOIN schedules s ON s.sid = o.sid WHERE o.idempotency_key = $1`

	sqlNextNth = `
UPDATE open_runs o SET nth = (SELECT max(e.nth) + 1 FROM ended_runs e WHERE e.run_at = o.run_at AND e.sid = o.sid)
WHERE o.idempotency_key = $1`

	// sqlDropEnded removes runs that history has already.
	sqlDropEnded = `
WITH changed AS (
DELETE FROM open_runs o
WHERE o.idempotency_key = ANY($1::bytea[]) AND (SELECT true FROM ended_runs e
	WHERE e.run_at = o.run_at AND e.sid = o.sid AND e.idempotency_key = o.idempotency_key LIMIT 1)
RETURNING o.idempotency_key, o.bucket
)` + noteEnded
)
