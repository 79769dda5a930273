package postgres

// One run by its key: first in open_runs, then in history. In this order a run that ends
// in between is found.
var (
	sqlGetOpenRun = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.idempotency_key = $1`

	sqlLockOpenRun = sqlGetOpenRun + `
FOR UPDATE OF o`

	sqlGetEndedRun = `
SELECT` + endedColumns + ownerColumns + fromEnded + joinEndedRevision + `
WHERE e.idempotency_key = $1`
)

// sqlEndedRuns reads by key even while history is empty; see openrow.go.
var sqlEndedRuns = `
SELECT` + endedColumns + ownerColumns + `
FROM ended_runs e
CROSS JOIN LATERAL (SELECT schedule_id FROM schedules WHERE sid = e.sid OFFSET 0) s
LEFT JOIN LATERAL (SELECT user_id, workflow_id, version FROM schedule_revisions
	WHERE schedule_id = s.schedule_id AND revision = e.revision OFFSET 0) d ON true
WHERE e.idempotency_key = ANY($1::bytea[])`

const sqlLaunchAttempts = `
SELECT coalesce((SELECT o.attempt_log FROM open_runs o WHERE o.idempotency_key = $1),
	(SELECT e.attempt_log FROM ended_runs e WHERE e.idempotency_key = $1))::text`

// sqlChangeRunSchedule locks the run's schedule before the run. Not FOR UPDATE: many
// reports must not hold up claims, which share the lock.
const sqlChangeRunSchedule = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.sid = coalesce(
	(SELECT o.sid FROM open_runs o WHERE o.idempotency_key = $1),
	(SELECT e.sid FROM ended_runs e WHERE e.idempotency_key = $1))
FOR NO KEY UPDATE`

// A late report leaves updated_at: for a watch the run has not changed.
const (
	sqlNoteLateReport = `
UPDATE ended_runs SET late_reports = coalesce(late_reports, 0) | $2::integer
WHERE idempotency_key = $1 AND coalesce(late_reports, 0) & $2::integer = 0`

	sqlNoteEarlyReport = `
UPDATE open_runs SET late_reports = coalesce(late_reports, 0) | $2::integer
WHERE idempotency_key = $1 AND (status = 1 OR queue_state <= 3) AND coalesce(late_reports, 0) & $2::integer = 0`
)

const sqlAskCancel = `
WITH changed AS (
UPDATE open_runs SET cancel_requested_at = $2, cancel_reason = $3, due_at = least(due_at, $2), updated_at = $2
WHERE idempotency_key = $1 AND cancel_requested_at IS NULL AND (state IN (3, 4) OR queue_state >= 4)
RETURNING idempotency_key, bucket, queue_no, epoch
), noted AS (` + noteRuns + `4 FROM changed WHERE queue_no IS NULL OR epoch > 0 HAVING count(*) > 0)
SELECT FROM changed`
