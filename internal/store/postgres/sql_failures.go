package postgres

// Failing schedules and what lists show of a schedule's runs. See ledger.FollowUp for what
// an end changes.

// sqlFailing locks how the schedules of ended runs fail. EXISTS makes that one look where
// no schedule fails.
const sqlFailing = `
SELECT r.key,` + failureOwn + `
FROM unnest($1::bytea[], $2::integer[]) AS r(key, sid)
JOIN schedule_failures f ON f.schedule_id = (SELECT s.schedule_id FROM schedules s WHERE s.sid = r.sid)
WHERE EXISTS (SELECT FROM schedule_failures)
ORDER BY f.schedule_id FOR UPDATE OF f`

const (
	sqlNewestSuccesses = `
SELECT r.key, e.run_at, e.completed_at
FROM unnest($1::bytea[], $2::integer[], $3::timestamptz[]) AS r(key, sid, run_at) CROSS JOIN LATERAL (` + newestSuccess + `) e`

	// newestSuccess is read from the end of a schedule's history.
	newestSuccess = `
	SELECT e.run_at, e.completed_at FROM ended_runs e WHERE e.sid = r.sid AND e.run_at >= r.run_at AND e.status = 5
	ORDER BY e.run_at DESC, e.completed_at DESC LIMIT 1`
)

// A schedule that another transaction has made fail since sqlFailing is not inserted: then
// the transaction is repeated.
const (
	sqlBeginFailing = `
INSERT INTO schedule_failures (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
SELECT * FROM ` + failureRows + `
ON CONFLICT (schedule_id) DO NOTHING`

	sqlGoOnFailing = `
UPDATE schedule_failures f SET failures = u.failures, first_run_at = u.first_run_at, first_ended_at = u.first_ended_at,
	last_run_at = u.last_run_at, last_ended_at = u.last_ended_at, idempotency_key = u.idempotency_key, reason = u.reason, error_code = u.error_code
FROM ` + failureRows + `
WHERE f.schedule_id = u.schedule_id`

	failureRows = `unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::bytea[], $8::text[], $9::text[])
	AS u(schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)`
)

const sqlDropFailures = `
DELETE FROM schedule_failures WHERE schedule_id = ANY($1::text[])`

// sqlLateSuccesses are the failures since $1 whose schedule has a success of the same slot
// or a later one. No transaction that ends a run lasts 30 s: older failures were compared
// with all that is older. It costs one index lookup per recent failure.
const (
	sqlLateSuccesses = `
SELECT r.schedule_id, r.idempotency_key, r.run_at, r.last_ended_at, e.run_at, e.completed_at
FROM (SELECT f.schedule_id, s.sid, f.idempotency_key, f.last_run_at AS run_at, f.last_ended_at
	FROM schedule_failures f JOIN schedules s ON s.schedule_id = f.schedule_id WHERE f.last_ended_at > $1) r
CROSS JOIN LATERAL (` + newestSuccess + `) e`

	// sqlDropRecovered leaves a schedule that has failed once more.
	sqlDropRecovered = `
DELETE FROM schedule_failures f USING unnest($1::text[], $2::bytea[]) AS u(schedule_id, key)
WHERE f.schedule_id = u.schedule_id AND f.idempotency_key = u.key`
)

const failureOwn = `
f.schedule_id, f.failures, f.first_run_at, f.first_ended_at, f.last_run_at, f.last_ended_at, f.idempotency_key, f.reason, f.error_code`

const failureColumns = failureOwn + `,
(SELECT r.error_message FROM ended_runs r WHERE r.run_at = f.last_run_at AND r.idempotency_key = f.idempotency_key)`

const sqlFailures = `
SELECT` + failureColumns + `
FROM schedule_failures f WHERE f.schedule_id = ANY($1::text[])`

// sqlRecentOutcomes reads the end of each schedule's history.
const sqlRecentOutcomes = `
SELECT u.schedule_id, r.idempotency_key, r.run_at, r.completed_at, ` + statusWord + `, r.reason, r.error_code,
	r.status = 6 AND r.dead IS NULL AND (r.attempt < r.max_attempts OR r.reason = 'interrupted')
FROM unnest($1::text[]) AS u(schedule_id) JOIN schedules k ON k.schedule_id = u.schedule_id
CROSS JOIN LATERAL (
	SELECT * FROM ended_runs l WHERE l.sid = k.sid ORDER BY l.run_at DESC, l.idempotency_key DESC LIMIT $2) AS r`

const sqlCountEnded = `
SELECT s.schedule_id, ` + statusWord + `, r.reason, r.error_code, r.runs
FROM (
	SELECT sid, status, coalesce(reason, '') AS reason, coalesce(error_code, '') AS error_code, count(*) AS runs FROM (
		SELECT sid, status, reason, error_code FROM ended_runs
		WHERE recorded_at >= $1 AND completed_at >= $1 ORDER BY recorded_at DESC LIMIT $2) r
	GROUP BY 1, 2, 3, 4) r
JOIN schedules s ON s.sid = r.sid`

// sqlCountDead reads the newest dead runs by their index.
const sqlCountDead = `
SELECT s.schedule_id, r.runs
FROM (
	SELECT sid, count(*) AS runs FROM (SELECT sid FROM ended_runs WHERE dead AND run_at >= $1 ORDER BY run_at DESC LIMIT $2) r
	GROUP BY sid) r
JOIN schedules s ON s.sid = r.sid ORDER BY r.runs DESC, s.schedule_id`

// sqlCountCalls has one row per result and error code, and one without a result
// for the runs read: how many, and the oldest update. $3 is since in microseconds.
const (
	sqlCountCalls = `
WITH recent AS MATERIALIZED (
	SELECT s.schedule_id, r.* FROM (
		(SELECT ` + calledRun + `, reason, completed_at, recorded_at AS updated_at FROM ended_runs
		WHERE recorded_at >= $1 ORDER BY recorded_at DESC LIMIT $2)
		UNION ALL
		(SELECT ` + calledRun + `, NULL, NULL, updated_at FROM open_runs
		WHERE state = 3 AND updated_at >= $1 ORDER BY updated_at DESC LIMIT $2)
		ORDER BY updated_at DESC LIMIT $2) r JOIN schedules s ON s.sid = r.sid),
calls AS (
	SELECT 'accepted' AS result, '' AS code, launched_at AS at, schedule_id, '' AS message FROM recent WHERE launched_at >= $1
	UNION ALL
	SELECT 'refused', coalesce(error_code, ''), completed_at, schedule_id, coalesce(error_message, '') FROM recent
	WHERE status = 6 AND reason = 'launch_refused' AND deliveries > 0 AND launched_at IS NULL AND completed_at >= $1
	UNION ALL
	SELECT a->>'result', coalesce(a->>'code', ''), 'epoch'::timestamptz + (a->>'at')::bigint * interval '1 microsecond',
		r.schedule_id, coalesce(a->>'message', '')
	FROM recent r CROSS JOIN jsonb_array_elements(r.attempt_log) AS a
	WHERE r.attempt_log IS NOT NULL AND (a->>'at')::bigint >= $3)
SELECT '', '', count(*), min(updated_at), '', '' FROM recent HAVING count(*) > 0
UNION ALL
SELECT result, code, count(*), max(at),
	(array_agg(schedule_id ORDER BY at DESC, schedule_id))[1], (array_agg(message ORDER BY at DESC, schedule_id))[1]
FROM calls GROUP BY result, code`

	calledRun = `sid, status, error_code, error_message, launched_at, deliveries, attempt_log`
)

// sqlFailureGroups names schedules in the order of their last failure.
const sqlFailureGroups = `
SELECT f.reason, f.error_code, count(*), sum(f.failures)::bigint, min(f.first_ended_at), max(f.last_ended_at),
	(array_agg(f.schedule_id ORDER BY f.last_ended_at DESC, f.schedule_id))[1:$2]
FROM schedule_failures f JOIN schedules s ON s.schedule_id = f.schedule_id
WHERE s.deleted_at IS NULL AND ($1 = '' OR s.user_id = $1)
GROUP BY f.reason, f.error_code ORDER BY count(*) DESC, f.reason, f.error_code`

// sqlExpectFailures adds expectations for failures without one.
const sqlExpectFailures = `
INSERT INTO expectations (schedule_id, kind, status, watched_since, judged_until, judge_at)
SELECT f.schedule_id, 'failure', 'ok', $1, $1, $1 FROM schedule_failures f
WHERE NOT EXISTS (SELECT FROM expectations e WHERE e.schedule_id = f.schedule_id AND e.kind = 'failure')
ORDER BY f.schedule_id LIMIT $2
ON CONFLICT (schedule_id, kind) DO NOTHING`

// sqlWakeFailures makes failures due that changed since their evaluation: one more
// failure, a success, or both. It skips failures that another registrar evaluates.
const sqlWakeFailures = `
UPDATE expectations e SET judge_at = $1
FROM (SELECT x.schedule_id FROM expectations x LEFT JOIN schedule_failures f ON f.schedule_id = x.schedule_id
	WHERE x.kind = 'failure' AND (x.judge_at IS NULL OR x.judge_at > $1)
		AND (f.schedule_id IS NULL OR f.failures <> x.late OR f.first_run_at IS DISTINCT FROM x.late_since)
	ORDER BY x.schedule_id LIMIT $2 FOR UPDATE OF x SKIP LOCKED) c
WHERE e.schedule_id = c.schedule_id AND e.kind = 'failure'`
