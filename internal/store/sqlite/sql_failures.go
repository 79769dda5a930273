package sqlite

// Failing schedules and what lists show of a schedule's runs. The rule is
// schedule.FailureOf; a test of package storetest compares both.
const (
	// sqlFailed writes that a run ended FAILED. A newer success makes a failure
	// history: then it writes nothing. A schedule with a row needs no look at its
	// successes, unless the run is older than the first failure.
	sqlFailed = `INSERT INTO schedule_failures AS f
 (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
 SELECT ?1, 1, ?2, ?3, ?2, ?3, ?4, ?5, ?6
 WHERE EXISTS (SELECT 1 FROM schedule_failures k WHERE k.schedule_id = ?1 AND k.first_run_at <= ?2)
  OR NOT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_schedule WHERE e.sid = ?7
   AND e.run_at >= ?2 AND e.status = 5 AND (e.run_at, e.completed_at) >= (?2, ?3))
 ON CONFLICT (schedule_id) DO UPDATE SET failures = f.failures + 1,
 first_ended_at = CASE WHEN excluded.first_run_at < f.first_run_at THEN excluded.first_ended_at ELSE f.first_ended_at END,
 first_run_at = min(f.first_run_at, excluded.first_run_at),
 last_run_at = max(f.last_run_at, excluded.last_run_at),
 last_ended_at = CASE WHEN ` + failedLater + ` THEN excluded.last_ended_at ELSE f.last_ended_at END,
 idempotency_key = CASE WHEN ` + failedLater + ` THEN excluded.idempotency_key ELSE f.idempotency_key END,
 reason = CASE WHEN ` + failedLater + ` THEN excluded.reason ELSE f.reason END,
 error_code = CASE WHEN ` + failedLater + ` THEN excluded.error_code ELSE f.error_code END`
	failedLater = `(excluded.last_run_at, excluded.last_ended_at) >= (f.last_run_at, f.last_ended_at)`

	sqlAnyFailing = `SELECT EXISTS (SELECT 1 FROM schedule_failures)`
	// ?1 is a list of schedule_id, run_at and completed_at.
	sqlSucceeded = `DELETE FROM schedule_failures WHERE rowid IN (SELECT f.rowid FROM json_each(?1) j
 CROSS JOIN schedule_failures f ON f.schedule_id = j.value ->> 0
 WHERE (f.last_run_at, f.last_ended_at) <= (j.value ->> 1, j.value ->> 2))`
	sqlDropFailures = `DELETE FROM schedule_failures WHERE schedule_id IN (SELECT value FROM json_each(?))`

	failureColumns = `f.schedule_id, f.failures, f.first_run_at, f.first_ended_at, f.last_run_at, f.last_ended_at, f.idempotency_key, f.reason, f.error_code,
 (SELECT r.error_message FROM ended_runs r INDEXED BY ended_runs_key WHERE r.idempotency_key = f.idempotency_key)`
	sqlFailures       = `SELECT ` + failureColumns + ` FROM json_each(?) j CROSS JOIN schedule_failures f ON f.schedule_id = j.value`
	sqlRecentOutcomes = `SELECT r.idempotency_key, r.run_at, r.completed_at, r.status, r.reason, r.error_code
 FROM ended_runs r INDEXED BY ended_runs_schedule WHERE r.sid = (SELECT sid FROM schedules WHERE schedule_id = ?)
 ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT ?`
	sqlCountEnded = `SELECT s.schedule_id, n.status, n.reason, n.error_code, n.runs FROM (
 SELECT sid, status, COALESCE(reason, '') AS reason, COALESCE(error_code, '') AS error_code, count(*) AS runs FROM (
  SELECT sid, status, reason, error_code FROM ended_runs INDEXED BY ended_runs_recorded
  WHERE recorded_at >= ?1 AND completed_at >= ?1 ORDER BY recorded_at DESC LIMIT ?2) GROUP BY 1, 2, 3, 4) n
 CROSS JOIN schedules s ON s.sid = n.sid`
	// sqlCountCalls has one row per result and error code, and one without a result
	// for the runs read: how many, and the oldest update.
	sqlCountCalls = `WITH recent AS MATERIALIZED (SELECT s.schedule_id, n.* FROM (
  SELECT * FROM (SELECT ` + calledRun + `, reason, completed_at, recorded_at AS updated_at FROM ended_runs INDEXED BY ended_runs_recorded
   WHERE recorded_at >= ?1 ORDER BY recorded_at DESC LIMIT ?2)
  UNION ALL
  SELECT * FROM (SELECT ` + calledRun + `, NULL, NULL, updated_at FROM open_runs INDEXED BY open_runs_due
   WHERE state = 3 AND updated_at >= ?1 ORDER BY updated_at DESC LIMIT ?2)
  ORDER BY updated_at DESC LIMIT ?2) n CROSS JOIN schedules s ON s.sid = n.sid),
 calls AS (
 SELECT 'accepted' AS result, '' AS code, launched_at AS at, schedule_id, '' AS message FROM recent WHERE launched_at >= ?1
 UNION ALL
 SELECT 'refused', COALESCE(error_code, ''), completed_at, schedule_id, COALESCE(error_message, '') FROM recent
 WHERE status = 6 AND reason = 'launch_refused' AND deliveries > 0 AND launched_at IS NULL AND completed_at >= ?1
 UNION ALL
 SELECT j.value ->> 'result', COALESCE(j.value ->> 'code', ''), j.value ->> 'at', c.schedule_id, COALESCE(j.value ->> 'message', '')
 FROM recent c CROSS JOIN json_each(c.attempt_log) j WHERE c.attempt_log IS NOT NULL AND j.value ->> 'at' >= ?1)
 SELECT '', '', count(*), min(updated_at), '', '' FROM recent HAVING count(*) > 0
 UNION ALL
 SELECT result, code, calls, at, schedule_id, message FROM (SELECT *, count(*) OVER (PARTITION BY result, code) AS calls,
  row_number() OVER (PARTITION BY result, code ORDER BY at DESC, schedule_id) AS place FROM calls) WHERE place = 1`
	calledRun = `sid, status, error_code, error_message, launched_at, deliveries, attempt_log`

	sqlFailureGroups = `SELECT f.reason, f.error_code, count(*), sum(f.failures), min(f.first_ended_at), max(f.last_ended_at)
 FROM schedule_failures f CROSS JOIN schedules s ON s.schedule_id = f.schedule_id
 WHERE s.deleted_at IS NULL AND (?1 = '' OR s.user_id = ?1)
 GROUP BY f.reason, f.error_code ORDER BY count(*) DESC, f.reason, f.error_code`
	sqlFailureExamples = `SELECT f.schedule_id FROM schedule_failures f CROSS JOIN schedules s ON s.schedule_id = f.schedule_id
 WHERE s.deleted_at IS NULL AND (?1 = '' OR s.user_id = ?1) AND f.reason = ?2 AND f.error_code = ?3
 ORDER BY f.last_ended_at DESC, f.schedule_id LIMIT ?4`
	sqlWhereFailing = ` AND s.schedule_id IN (SELECT schedule_id FROM schedule_failures)`

	// sqlExpectFailures adds expectations for failures without one.
	sqlExpectFailures = `INSERT INTO expectations (schedule_id, kind, status, watched_since, judged_until, judge_at)
 SELECT f.schedule_id, 'failure', 'ok', ?1, ?1, ?1 FROM schedule_failures f
 WHERE NOT EXISTS (SELECT 1 FROM expectations e WHERE e.schedule_id = f.schedule_id AND e.kind = 'failure')
 ORDER BY f.schedule_id LIMIT ?2`
	// sqlWakeFailures has those judged that changed since they were judged: one more
	// failure, a success, or both.
	sqlWakeFailures = `UPDATE expectations SET judge_at = ?1 WHERE kind = 'failure' AND schedule_id IN (` + changedFailures + ` LIMIT ?2)`
	changedFailures = `SELECT x.schedule_id FROM expectations x INDEXED BY expectations_failure
 LEFT JOIN schedule_failures f ON f.schedule_id = x.schedule_id WHERE x.kind = 'failure' AND (x.judge_at IS NULL OR x.judge_at > ?1)
 AND (f.schedule_id IS NULL OR f.failures <> x.late OR f.first_run_at IS NOT x.late_since)`
	sqlAnyFailureChanged = `SELECT EXISTS (` + changedFailures + `) OR EXISTS (SELECT 1 FROM schedule_failures f
 WHERE NOT EXISTS (SELECT 1 FROM expectations e WHERE e.schedule_id = f.schedule_id AND e.kind = 'failure'))`
)
