package postgres

const runColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.run_at, r.fire_at, r.status, r.reason, r.trigger,
r.overlap_key, r.overlap_policy, r.exclusive, r.max_queued, r.waiting_since, r.judged_at,
r.attempt, r.retry_of, r.deliveries, r.input, r.priority, r.run_id, r.trace_id,
r.epoch, r.claimed_at, r.claimed_until, r.cancel_requested_at, r.cancel_reason,
r.launched_at, r.started_at, r.completed_at, r.timeout_at, r.error_code, r.error_message,
r.created_at, r.updated_at`

// identityColumns come from the revision. Hot statements leave them out: the
// cached definition has them.
const identityColumns = `, d.user_id, d.workflow_id, d.version`

const joinRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = r.schedule_id AND d.revision = r.revision`

const sqlGetRun = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.idempotency_key = $1`

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
	AND (r.status <> 'PLANNED' OR r.run_at <= $9 OR 'PLANNED' = ANY($4::text[]))`

const sqlListRuns = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE ` + runFilter + `
	AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) < ($10, $11))
ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $12`

// sqlListRunsOf is sqlListRuns for one owner: a page of each of its schedules
// through schedule_runs_history, and the newest of those. An owner of few runs
// would else have the whole ledger read. (A schedule never changes its owner.)
const sqlListRunsOf = `
SELECT` + runColumns + identityColumns + `
FROM schedules s CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs r
	WHERE r.schedule_id = s.schedule_id
		AND ($3 = '' OR EXISTS (SELECT FROM schedule_revisions d
			WHERE d.schedule_id = r.schedule_id AND d.revision = r.revision AND d.workflow_id = $3))
		AND ` + runConditions + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) < ($10, $11))
	ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $12) r` + joinRevision + `
WHERE s.user_id = $2 AND d.user_id = $2 AND ($1 = '' OR s.schedule_id = $1)
ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT $12`

// sqlListRunsAscending is sqlListRuns from its other end, for exports: the same
// index, read backwards.
const sqlListRunsAscending = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE ` + runFilter + `
	AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) > ($10, $11))
ORDER BY r.run_at, r.idempotency_key LIMIT $12`

// sqlListRunsOfAscending is sqlListRunsOf from its other end.
const sqlListRunsOfAscending = `
SELECT` + runColumns + identityColumns + `
FROM schedules s CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs r
	WHERE r.schedule_id = s.schedule_id
		AND ($3 = '' OR EXISTS (SELECT FROM schedule_revisions d
			WHERE d.schedule_id = r.schedule_id AND d.revision = r.revision AND d.workflow_id = $3))
		AND ` + runConditions + `
		AND ($10::timestamptz IS NULL OR (r.run_at, r.idempotency_key) > ($10, $11))
	ORDER BY r.run_at, r.idempotency_key LIMIT $12) r` + joinRevision + `
WHERE s.user_id = $2 AND d.user_id = $2 AND ($1 = '' OR s.schedule_id = $1)
ORDER BY r.run_at, r.idempotency_key LIMIT $12`

// sqlListRunsUpdated is the feed that a watch follows.
const sqlListRunsUpdated = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE ` + runFilter + `
	AND (r.updated_at, r.idempotency_key) > ($10, $11)
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
UPDATE schedule_runs SET cancel_requested_at = $2, cancel_reason = $3, updated_at = $2
WHERE idempotency_key = $1 AND cancel_requested_at IS NULL
	AND status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED')`
