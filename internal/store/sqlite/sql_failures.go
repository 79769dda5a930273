package sqlite

// Failing schedules and what lists show of a schedule's runs. See ledger.FollowUp for what
// an end changes.
const (
	sqlAnyFailing = `SELECT EXISTS (SELECT 1 FROM schedule_failures)`
	sqlFailing    = `SELECT f.schedule_id, f.failures, f.first_run_at, f.first_ended_at, f.last_run_at, f.last_ended_at,
 f.idempotency_key, f.reason, f.error_code, NULL FROM json_each(?) j CROSS JOIN schedule_failures f ON f.schedule_id = j.value`
	// ?1 = sid, ?2 = run_at.
	sqlNewestSuccess = `SELECT run_at, completed_at FROM ended_runs INDEXED BY ended_runs_schedule
 WHERE sid = ?1 AND run_at >= ?2 AND status = 5 ORDER BY run_at DESC, completed_at DESC LIMIT 1`
	sqlWriteFailure = `INSERT INTO schedule_failures
 (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (schedule_id) DO UPDATE SET failures = excluded.failures, first_run_at = excluded.first_run_at,
 first_ended_at = excluded.first_ended_at, last_run_at = excluded.last_run_at, last_ended_at = excluded.last_ended_at,
 idempotency_key = excluded.idempotency_key, reason = excluded.reason, error_code = excluded.error_code`
	sqlDropFailures = `DELETE FROM schedule_failures WHERE schedule_id IN (SELECT value FROM json_each(?))`

	failureColumns = `f.schedule_id, f.failures, f.first_run_at, f.first_ended_at, f.last_run_at, f.last_ended_at, f.idempotency_key, f.reason, f.error_code,
 (SELECT r.error_message FROM ended_runs r INDEXED BY ended_runs_key WHERE r.idempotency_key = f.idempotency_key)`
	sqlFailures       = `SELECT ` + failureColumns + ` FROM json_each(?) j CROSS JOIN schedule_failures f ON f.schedule_id = j.value`
	sqlRecentOutcomes = `SELECT s.schedule_id, r.idempotency_key, r.run_at, r.completed_at, r.status, r.reason, r.error_code,
  r.status = 6 AND r.dead IS NULL AND (r.attempt < r.max_attempts OR r.reason = 'interrupted')
 FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value CROSS JOIN ended_runs r ON r.rowid IN (
  SELECT l.rowid FROM ended_runs l INDEXED BY ended_runs_schedule WHERE l.sid = s.sid ORDER BY l.run_at DESC, l.idempotency_key DESC LIMIT ?2)
 ORDER BY r.run_at DESC, r.idempotency_key DESC`
	sqlCountEnded = `SELECT s.schedule_id, n.status, n.reason, n.error_code, n.runs FROM (
 SELECT sid, status, COALESCE(reason, '') AS reason, COALESCE(error_code, '') AS error_code, count(*) AS runs FROM (
  SELECT sid, status, reason, error_code FROM ended_runs INDEXED BY ended_runs_recorded
  WHERE recorded_at >= ?1 AND completed_at >= ?1 ORDER BY recorded_at DESC LIMIT ?2) GROUP BY 1, 2, 3, 4) n
 CROSS JOIN schedules s ON s.sid = n.sid`
	sqlCountDead = `SELECT s.schedule_id, n.runs FROM (
 SELECT sid, count(*) AS runs FROM (
  SELECT sid FROM ended_runs INDEXED BY ended_runs_dead WHERE dead AND run_at >= ?1 ORDER BY run_at DESC LIMIT ?2) GROUP BY sid) n
 CROSS JOIN schedules s ON s.sid = n.sid ORDER BY n.runs DESC, s.schedule_id`
	// sqlCountCalls has one row per result and error code, and one without a result
	// for the runs read: how many, and the oldest update. ?3 is since.
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
 FROM recent c CROSS JOIN json_each(c.attempt_log) j WHERE c.attempt_log IS NOT NULL AND j.value ->> 'at' >= ?3)
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
