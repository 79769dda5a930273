package postgres

const sqlGetRun = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.idempotency_key = $1`

const sqlLaunchAttempts = `
SELECT r.attempt_log::text FROM schedule_runs r WHERE r.idempotency_key = $1`

// sqlChangeRunSchedule locks the run's schedule before the run. Not FOR UPDATE:
// reports come in thousands and must not hold up claims, which only share it.
const sqlChangeRunSchedule = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = (SELECT schedule_id FROM schedule_runs WHERE idempotency_key = $1)
FOR NO KEY UPDATE`

const sqlChangeRunLock = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.idempotency_key = $1
FOR UPDATE OF r`

// sqlNoteLateReport leaves updated_at: the run has not changed for those who watch.
const sqlNoteLateReport = `
UPDATE schedule_runs SET late_reports = COALESCE(late_reports, 0) | $2::integer
WHERE idempotency_key = $1 AND COALESCE(late_reports, 0) & $2::integer = 0
	AND status IN ('PLANNED','SUCCESS','FAILED','SKIPPED','CANCELLED')`

const sqlAskCancel = `
WITH changed AS (
UPDATE schedule_runs SET cancel_requested_at = $2, cancel_reason = $3, updated_at = $2
WHERE idempotency_key = $1 AND cancel_requested_at IS NULL
	AND status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED')
RETURNING idempotency_key, shard
), noted AS (` + noteCancelled + `)
SELECT FROM changed`
