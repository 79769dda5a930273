package postgres

// Failing schedules and what lists show of a schedule's runs. The rule is
// schedule.FailureOf; a test of package storetest compares both.

// sqlFailed writes that runs ended FAILED. It writes nothing for a run that a newer
// success follows. A schedule that has a row needs no search for successes, unless the
// run is older than its first failure.
// Two transactions that end two runs of one schedule at the same time do not see each
// other, so the row can outlive a newer success: sqlDropRecovered deletes it then.
const sqlFailed = `
INSERT INTO schedule_failures AS f (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
SELECT r.schedule_id, count(*),
	min(r.run_at), (array_agg(r.completed_at ORDER BY r.run_at, r.completed_at))[1],
	max(r.run_at), (array_agg(r.completed_at ORDER BY r.run_at DESC, r.completed_at DESC))[1],
	(array_agg(r.idempotency_key ORDER BY r.run_at DESC, r.completed_at DESC))[1],
	(array_agg(r.reason ORDER BY r.run_at DESC, r.completed_at DESC))[1],
	(array_agg(r.error_code ORDER BY r.run_at DESC, r.completed_at DESC))[1]
FROM unnest($1::bytea[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[])
	AS r(idempotency_key, schedule_id, run_at, completed_at, reason, error_code)
LEFT JOIN schedule_failures k ON k.schedule_id = r.schedule_id
WHERE r.run_at >= k.first_run_at OR NOT EXISTS (
	SELECT FROM ended_runs e WHERE e.sid = (SELECT s.sid FROM schedules s WHERE s.schedule_id = r.schedule_id) AND e.run_at >= r.run_at AND e.status = 5
		AND (e.run_at, e.completed_at) >= (r.run_at, r.completed_at))
GROUP BY r.schedule_id ORDER BY r.schedule_id
ON CONFLICT (schedule_id) DO UPDATE SET failures = f.failures + EXCLUDED.failures,
	first_run_at = least(f.first_run_at, EXCLUDED.first_run_at),
	first_ended_at = CASE WHEN EXCLUDED.first_run_at < f.first_run_at THEN EXCLUDED.first_ended_at ELSE f.first_ended_at END,
	last_run_at = greatest(f.last_run_at, EXCLUDED.last_run_at),
	last_ended_at = CASE WHEN ` + failedLater + ` THEN EXCLUDED.last_ended_at ELSE f.last_ended_at END,
	idempotency_key = CASE WHEN ` + failedLater + ` THEN EXCLUDED.idempotency_key ELSE f.idempotency_key END,
	reason = CASE WHEN ` + failedLater + ` THEN EXCLUDED.reason ELSE f.reason END,
	error_code = CASE WHEN ` + failedLater + ` THEN EXCLUDED.error_code ELSE f.error_code END`

// sqlRecovered forgets failures that a success follows. EXISTS makes that one look where
// no schedule fails.
const sqlRecovered = `
DELETE FROM schedule_failures f USING unnest($1::integer[], $2::timestamptz[], $3::timestamptz[]) AS r(sid, run_at, completed_at)
WHERE EXISTS (SELECT FROM schedule_failures) AND f.schedule_id = (SELECT s.schedule_id FROM schedules s WHERE s.sid = r.sid)
	AND (f.last_run_at, f.last_ended_at) <= (r.run_at, r.completed_at)`

const failedLater = `(EXCLUDED.last_run_at, EXCLUDED.last_ended_at) >= (f.last_run_at, f.last_ended_at)`

const sqlDropFailures = `
DELETE FROM schedule_failures WHERE schedule_id = ANY($1::text[])`

// sqlDropRecovered deletes the rows that a newer success should have deleted: it found
// no row because the failure was not committed yet. A lock that rules this out would
// cost every success a statement. No transaction that ends a run lasts 30 s, so older
// rows are right. The scalar subquery, unlike EXISTS, cannot become a join with the
// whole history. It costs one index lookup per recent failure.
const sqlDropRecovered = `
DELETE FROM schedule_failures f WHERE f.last_ended_at > $1::timestamptz - interval '30 s' AND (
	SELECT true FROM ended_runs s WHERE s.sid = (SELECT k.sid FROM schedules k WHERE k.schedule_id = f.schedule_id)
		AND s.run_at >= f.last_run_at AND s.status = 5 AND (s.run_at, s.completed_at) >= (f.last_run_at, f.last_ended_at) LIMIT 1)`

const failureColumns = `
f.schedule_id, f.failures, f.first_run_at, f.first_ended_at, f.last_run_at, f.last_ended_at, f.idempotency_key, f.reason, f.error_code,
(SELECT r.error_message FROM ended_runs r WHERE r.run_at = f.last_run_at AND r.idempotency_key = f.idempotency_key)`

const sqlFailures = `
SELECT` + failureColumns + `
FROM schedule_failures f WHERE f.schedule_id = ANY($1::text[])`

// sqlRecentOutcomes reads the end of each schedule's history.
const sqlRecentOutcomes = `
SELECT u.schedule_id, r.idempotency_key, r.run_at, r.completed_at, ` + statusWord + `, r.reason, r.error_code
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
