package postgres

const runColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.run_at, r.fire_at, r.status, r.reason, r.trigger,
r.overlap_key, r.overlap_policy, r.exclusive, r.max_queued, r.waiting_since, r.judged_at,
r.attempt, r.retry_of, r.deliveries, r.input, r.priority, r.run_id, r.trace_id,
r.epoch, r.claimed_at, r.claimed_until, r.cancel_requested_at, r.cancel_reason,
r.launched_at, r.started_at, r.completed_at, r.timeout_at, r.error_code, r.error_message, r.failed_attempts,
r.created_at, r.updated_at`

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

const runFilter = `
	($1 = '' OR r.schedule_id = $1)
	AND ($2 = '' OR d.user_id = $2)
	AND ($3 = '' OR d.workflow_id = $3)
	AND ` + runConditions

const runConditions = `
	(cardinality($4::text[]) = 0 OR r.status = ANY($4::text[]))
	AND ($5 = '' OR r.reason = $5)
	AND ($6 = '' OR r.trigger = $6)
	AND ($7::timestamptz IS NULL OR r.run_at >= $7)
	AND ($8::timestamptz IS NULL OR r.run_at < $8)
	AND (r.status <> 'PLANNED' OR r.run_at <= $9 OR 'PLANNED' = ANY($4::text[]))
	AND ($13 = '' OR r.run_id = $13)
	AND ($14 = '' OR r.trace_id = $14 OR r.idempotency_key BETWEEN $15::bytea AND $16::bytea)
	AND ($17::timestamptz IS NULL OR r.fire_at < $17 AND (r.status = 'LAUNCHING' OR r.status = 'PLANNED' AND r.waiting_since IS NULL))
	AND ($18::bytea IS NULL OR r.idempotency_key BETWEEN $18 AND $19::bytea)`

// The sources of schedule.RunFilter. Each says the condition of its index, which
// no plan can see in parameters. OFFSET 0 keeps the order and the limit of the page
// out: for them the planner would walk schedule_runs_run_at and compare every row.
const (
	runsAll     = `schedule_runs r`
	runsKeys    = `(SELECT * FROM schedule_runs WHERE idempotency_key BETWEEN $18::bytea AND $19::bytea OFFSET 0) r`
	runsRunID   = `(SELECT * FROM schedule_runs WHERE run_id = $13 OFFSET 0) r`
	runsTraceID = `((SELECT * FROM schedule_runs WHERE trace_id = $14 OFFSET 0) UNION ALL
	(SELECT * FROM schedule_runs WHERE idempotency_key BETWEEN $15::bytea AND $16::bytea AND trace_id IS DISTINCT FROM $14 OFFSET 0)) r`
	runsSchedule    = `(SELECT * FROM schedule_runs WHERE schedule_id = $1) r`
	runsUnscheduled = `(SELECT * FROM schedule_runs WHERE trigger <> 'schedule') r`
	runsEnded       = `(SELECT * FROM schedule_runs WHERE status IN ('FAILED','SKIPPED','CANCELLED')) r`
	runsDue         = `(SELECT * FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at < $17
	UNION ALL SELECT * FROM schedule_runs WHERE lower(status) = 'launching' AND fire_at < $17 OFFSET 0) r`
	runsInFlight = `(SELECT * FROM schedule_runs WHERE exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED')
	UNION ALL SELECT * FROM schedule_runs WHERE NOT exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED')) r`
	runsUnfinished = `(SELECT * FROM schedule_runs WHERE exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED')
	UNION ALL SELECT * FROM schedule_runs WHERE NOT exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED')
	UNION ALL SELECT * FROM schedule_runs WHERE status = 'PLANNED') r`
)

// ListRuns is a source between these two, or between the first and one of the
// other order, which an export asks for: the same index, read backwards.
const (
	runsSelect = `
SELECT` + runColumns + identityColumns + `
FROM `
	runsNewest = joinRevision + `
WHERE ` + runFilter + `
	AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) < ($10, $11::bytea))
ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $12`
	runsOldest = joinRevision + `
WHERE ` + runFilter + `
	AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) > ($10, $11::bytea))
ORDER BY r.run_at, r.idempotency_key LIMIT $12`
)

// The first runs of a source in the order of the page, for those of an owner or a
// workflow: (SELECT * FROM source recentNewest or recentOldest.
const (
	recentSelect = `(SELECT * FROM `
	recentWindow = `
	WHERE ($7::timestamptz IS NULL OR r.run_at >= $7) AND ($8::timestamptz IS NULL OR r.run_at < $8)
		AND (r.status <> 'PLANNED' OR r.run_at <= $9 OR 'PLANNED' = ANY($4::text[]))`
	recentNewest = recentWindow + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) < ($10, $11::bytea))
	ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $20) r`
	recentOldest = recentWindow + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) > ($10, $11::bytea))
	ORDER BY r.run_at, r.idempotency_key LIMIT $20) r`
)

// The runs of an owner or a workflow, by the histories of its schedules: a page of
// each through schedule_runs_history. Such an owner has few runs; see
// schedule.RecentRuns.
const (
	historiesOfUser     = `(SELECT DISTINCT schedule_id FROM schedule_revisions WHERE user_id = $2) s`
	historiesOfWorkflow = `(SELECT DISTINCT schedule_id FROM schedule_revisions WHERE workflow_id = $3) s`
	historiesSelect     = `(SELECT r.* FROM `
	historiesEach       = ` CROSS JOIN LATERAL (
	SELECT r.* FROM schedule_runs r JOIN schedule_revisions d ON d.schedule_id = r.schedule_id AND d.revision = r.revision
	WHERE r.schedule_id = s.schedule_id AND ` + runFilter
	historiesNewest = historiesEach + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) < ($10, $11::bytea))
	ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $12) r) r`
	historiesOldest = historiesEach + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) > ($10, $11::bytea))
	ORDER BY r.run_at, r.idempotency_key LIMIT $12) r) r`
)

// sqlListRunsUpdated is the feed that a watch follows.
const sqlListRunsUpdated = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE ` + runFilter + `
	AND (r.updated_at, r.idempotency_key) > ($10::timestamptz, $11::bytea)
ORDER BY r.updated_at, r.idempotency_key LIMIT $12`

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

// CountFleet: runs. The owner stands in the revision.
const sqlCountRuns = `
SELECT
	(SELECT count(*) FROM ` + runsInFlightOf + `),
	(SELECT count(*) FROM schedule_runs r WHERE upper(r.status) = 'PLANNED' AND r.waiting_since IS NOT NULL AND ` + countedOf + `),
	(SELECT count(*) FROM schedule_runs r WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at < $2::timestamptz AND ` + countedOf + `)
	+ (SELECT count(*) FROM schedule_runs r WHERE lower(r.status) = 'launching' AND r.fire_at < $2::timestamptz AND ` + countedOf + `),
	(SELECT count(*) FROM schedule_runs r
		WHERE r.status IN ('FAILED','SKIPPED','CANCELLED') AND r.status = 'FAILED' AND r.run_at >= $3::timestamptz AND ` + countedOf + `)`

const (
	runsInFlightOf = runsInFlight + ` WHERE ` + countedOf
	countedOf      = `($1 = '' OR EXISTS (SELECT FROM schedule_revisions d
		WHERE d.schedule_id = r.schedule_id AND d.revision = r.revision AND d.user_id = $1))`
)
