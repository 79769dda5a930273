package postgres

const runColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.run_at, r.fire_at, r.status, r.reason, r.trigger,
r.overlap_key, r.overlap_policy, r.exclusive, r.max_queued, r.waiting_since` + noJudgedAt + `,
r.attempt, r.retry_of, r.deliveries, r.input, r.priority, r.run_id, r.trace_id,
r.epoch, r.claimed_at, r.claimed_until, r.cancel_requested_at, r.cancel_reason,
r.launched_at, r.started_at, r.completed_at, r.timeout_at, r.error_code, r.error_message, r.failed_attempts,
r.created_at, r.updated_at`

const noJudgedAt = `, NULL::timestamptz` // until runRow has no judgedAt

// identityColumns come from the revision, or from a report. Hot statements leave
// them out: the cached definition has the former, and no claim needs the latter.
const identityColumns = `, d.user_id, d.workflow_id, d.version, r.exit_code, r.log_url`

const joinRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = r.schedule_id AND d.revision = r.revision`

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
