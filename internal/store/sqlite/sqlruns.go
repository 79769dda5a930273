package sqlite

// Claim. Due rows and the heads of queues whose key is free are merged in the
// order of claims; only those that are taken are then read whole.
const (
	claimOrder = `r.trigger IN ('catchup','backfill'), r.priority DESC, r.fire_at, r.run_at, r.idempotency_key`

	turnColumns = `r.idempotency_key, r.overlap_key, r.exclusive, r.trigger IN ('catchup','backfill'), r.priority, r.fire_at, r.run_at`

	// By schedule_runs_due. Missable rows that are later than the grace (?2) are
	// the planner's.
	sqlClaimDue = `SELECT ` + turnColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_due
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= ?1
   AND NOT (r.trigger = 'schedule' AND r.judged_at IS NULL AND r.fire_at < ?2 AND r.run_at < ?2)
 ORDER BY ` + claimOrder + ` LIMIT ?3`

	// By schedule_runs_waiting, from key to key (a plain DISTINCT reads every row
	// that waits), then the one that waits longest under each key that is free.
	sqlClaimReady = `WITH RECURSIVE waiting (overlap_key) AS (
  SELECT min(w.overlap_key) FROM schedule_runs w WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL
  UNION ALL
  SELECT (SELECT min(w.overlap_key) FROM schedule_runs w
           WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL AND w.overlap_key > waiting.overlap_key)
    FROM waiting WHERE waiting.overlap_key IS NOT NULL)
 SELECT ` + turnColumns + ` FROM waiting CROSS JOIN schedule_runs r ON r.idempotency_key = (
  SELECT w.idempotency_key FROM schedule_runs w
   WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL AND w.overlap_key = waiting.overlap_key
   ORDER BY w.fire_at, w.run_at, w.idempotency_key LIMIT 1)
 WHERE NOT EXISTS (SELECT 1 FROM schedule_runs f
  WHERE f.overlap_key = waiting.overlap_key AND ` + inFlight + `)
 ORDER BY ` + claimOrder + ` LIMIT ?`

	// Where a schedule is gone for good, its rows are too: nobody may fire them.
	standing = `, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL,
 COALESCE(s.paused AND (s.paused_until IS NULL OR s.paused_until > ?2), 0)`

	sqlClaimRuns = `SELECT ` + runColumns + standing + `
 FROM json_each(?1) j CROSS JOIN schedule_runs r` + ofRevision + ` LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE r.idempotency_key = unhex(j.value)`
	sqlClaimWaiting = `SELECT ` + runColumns + standing + `
 FROM json_each(?1) j CROSS JOIN schedule_runs r INDEXED BY schedule_runs_waiting` + ofRevision + ` LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE r.overlap_key = j.value AND r.status = 'PLANNED' AND r.waiting_since IS NOT NULL
 ORDER BY r.fire_at, r.run_at, r.idempotency_key`
	sqlClaimInFlight = `SELECT ` + runColumns + ` FROM json_each(?) j CROSS JOIN schedule_runs r INDEXED BY schedule_runs_in_flight` + ofRevision + `
 WHERE r.overlap_key = j.value AND ` + inFlight + `
 ORDER BY r.fire_at, r.run_at, r.idempotency_key`

	sqlClaim = `UPDATE schedule_runs SET status = 'LAUNCHING', waiting_since = NULL, deliveries = deliveries + 1, epoch = ?1,
 claimed_at = ?2, claimed_until = ?3, timeout_at = ?4, updated_at = ?2 WHERE idempotency_key = ?5 AND status = 'PLANNED'`
	sqlClaimWait = `UPDATE schedule_runs SET waiting_since = ?1, updated_at = ?1
 WHERE idempotency_key = ?2 AND status = 'PLANNED' AND waiting_since IS NULL`
	sqlClaimEnd = `UPDATE schedule_runs SET status = ?1, reason = ?2, error_code = ?3, error_message = ?4, waiting_since = NULL,
 completed_at = ?5, updated_at = ?5 WHERE idempotency_key = ?6 AND status = 'PLANNED'`

	// updated_at stays: nothing that anybody watches has changed, and its index
	// would double the cost of stamping a herd.
	sqlClaimStamp = `UPDATE schedule_runs INDEXED BY schedule_runs_due SET judged_at = ?1
 WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= ?1 AND judged_at IS NULL
   AND NOT (trigger = 'schedule' AND fire_at < ?2 AND run_at < ?2)`

	sqlReclaimable = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_launching` + ofRevision + `
 WHERE r.status = 'LAUNCHING' AND r.cancel_requested_at IS NULL AND (r.epoch <> ?1 OR r.claimed_until IS NULL OR r.claimed_until <= ?2)
 ORDER BY r.fire_at, r.run_at, r.idempotency_key LIMIT ?3`
	sqlReclaim = `UPDATE schedule_runs SET epoch = ?1, claimed_until = ?2, deliveries = deliveries + 1, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 'LAUNCHING'`

	sqlNextFireAt = `SELECT min(fire_at) FROM schedule_runs INDEXED BY schedule_runs_due WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at > ?`
	sqlCancelsDue = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_cancel` + ofRevision + `
 WHERE r.cancel_requested_at IS NOT NULL AND ` + inFlight + `
 ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT ?`
	sqlGauges = `SELECT
 (SELECT count(*) FROM schedule_runs WHERE ` + inFlight + `),
 (SELECT count(*) FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NOT NULL),
 (SELECT count(*) FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= ?)`
)

// Settle: one statement per status, each with the statuses that it may leave;
// a test compares them with schedule.Status.Predecessors. What a settlement
// does not say stays.
const (
	settleLaunching = `UPDATE schedule_runs SET claimed_until = COALESCE(?2, claimed_until), updated_at = ?3
 WHERE idempotency_key = ?1 AND status = 'LAUNCHING'`

	settleSet = ` waiting_since = NULL, claimed_until = NULL, updated_at = ?3,
 reason = COALESCE(?4, reason), run_id = COALESCE(?5, run_id), trace_id = COALESCE(?6, trace_id),
 error_code = COALESCE(?7, error_code), error_message = COALESCE(?8, error_message),
 launched_at = COALESCE(?9, launched_at), started_at = COALESCE(?10, started_at),
 timeout_at = COALESCE(?11, timeout_at), completed_at = COALESCE(?2, completed_at)
 WHERE idempotency_key = ?1 AND `

	settleEnqueued  = `UPDATE schedule_runs SET status = 'ENQUEUED',` + settleSet + `status = 'LAUNCHING'`
	settleStarted   = `UPDATE schedule_runs SET status = 'STARTED',` + settleSet + inFlight
	settleSuccess   = `UPDATE schedule_runs SET status = 'SUCCESS',` + settleSet + inFlight
	settleFailed    = `UPDATE schedule_runs SET status = 'FAILED',` + settleSet + `(status = 'PLANNED' OR ` + inFlight + `)`
	settleSkipped   = `UPDATE schedule_runs SET status = 'SKIPPED',` + settleSet + `(status = 'PLANNED' OR status = 'LAUNCHING')`
	settleCancelled = `UPDATE schedule_runs SET status = 'CANCELLED',` + settleSet + `(status = 'PLANNED' OR ` + inFlight + `)`
	// A cancel that was asked for says why, unless the settlement does.
	sqlSettleCancelReason = `UPDATE schedule_runs SET reason = COALESCE(reason, cancel_reason)
 WHERE idempotency_key = ? AND status = 'CANCELLED'`

	sqlLastRunAt = `UPDATE schedules SET last_run_at = newest.run_at
 FROM (SELECT r.schedule_id, max(r.run_at) AS run_at FROM json_each(?) j
   CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value) GROUP BY r.schedule_id) newest
 WHERE schedules.schedule_id = newest.schedule_id
   AND (schedules.last_run_at IS NULL OR schedules.last_run_at < newest.run_at)`
)

// Sweep.
const (
	sqlSweepCancelled = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_cancel` + ofRevision + `
 WHERE r.cancel_requested_at <= ? AND ` + inFlight + `
 ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT ?`
	// What was recorded as DONE has an outcome: the next delivery will learn it.
	sqlSweepUnavailable = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_launching` + ofRevision + `
 WHERE r.status = 'LAUNCHING' AND r.claimed_at <= ? AND NOT EXISTS (SELECT 1 FROM execution_requests q
  WHERE q.idempotency_key = r.idempotency_key AND (q.sent OR q.state = 'DONE'))
 ORDER BY r.claimed_at, r.idempotency_key LIMIT ?`
	sqlSweepTimedOut = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_timeout` + ofRevision + `
 WHERE r.timeout_at <= ? AND ` + inFlight + `
 ORDER BY r.timeout_at, r.idempotency_key LIMIT ?`
	sqlSweep = `UPDATE schedule_runs SET status = ?1, reason = ?2, claimed_until = NULL, completed_at = ?3, updated_at = ?3
 WHERE idempotency_key = ?4 AND ` + inFlight
)

// Runs.
const (
	sqlGetRun    = `SELECT ` + runColumns + ` FROM schedule_runs r` + ofRevision + ` WHERE r.idempotency_key = ?`
	sqlAskCancel = `UPDATE schedule_runs SET cancel_requested_at = ?1, cancel_reason = ?2, updated_at = ?1
 WHERE idempotency_key = ?3 AND cancel_requested_at IS NULL AND (status = 'PLANNED' OR ` + inFlight + `)`

	// ListRuns puts its filters and an order behind one of these, each with the
	// index that has its rows in that order. IS keeps the revision outside of it.
	sqlListRuns         = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_run_at` + ofRevision + ` WHERE 1`
	sqlListRunsSchedule = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_history` + ofRevision + ` WHERE r.schedule_id = ?`
	sqlListRunsUpdated  = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_updated` + ofRevision + `
 WHERE (r.updated_at, r.idempotency_key) > (?, ?)`
	sqlRunsSchedule     = ` AND r.schedule_id = ?`
	sqlRunsUser         = ` AND v.user_id IS ?`
	sqlRunsWorkflow     = ` AND v.workflow_id IS ?`
	sqlRunsStatuses     = ` AND r.status IN (SELECT value FROM json_each(?))`
	sqlRunsReason       = ` AND r.reason = ?`
	sqlRunsTrigger      = ` AND r.trigger = ?`
	sqlRunsFrom         = ` AND r.run_at >= ?`
	sqlRunsTo           = ` AND r.run_at < ?`
	sqlRunsNotAhead     = ` AND NOT (r.status = 'PLANNED' AND r.run_at > ?)`
	sqlRunsBefore       = ` AND (r.run_at, r.idempotency_key) < (?, ?)`
	sqlRunsOrder        = ` ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT ?`
	sqlRunsUpdatedOrder = ` ORDER BY r.updated_at, r.idempotency_key LIMIT ?`
)

// Execution requests.
const (
	sqlRequests = `SELECT ` + requestColumns + ` FROM json_each(?) j
 CROSS JOIN execution_requests q ON q.idempotency_key = unhex(j.value)`
	sqlBeginRuns = `SELECT r.idempotency_key, r.schedule_id, r.status, r.reason, r.trigger, r.cancel_requested_at, r.cancel_reason
 FROM json_each(?) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)`
	sqlBeginSchedules = `SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until
 FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`

	// While a call is open it counts as sent: whoever made it may be dead and
	// cannot say.
	sqlBeginInsert = `INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, lease_until, created_at, updated_at)
 VALUES (?1, ?2, 'IN_PROGRESS', 1, ?3, ?4, ?4)`
	sqlBeginAgain = `UPDATE execution_requests SET sent = 1, lease_until = ?1, updated_at = ?2
 WHERE idempotency_key = ?3 AND state = 'IN_PROGRESS'`
	// Begin's refusals and CloseKey: DONE without a call.
	sqlRefuse = `INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, ok, status, reason, created_at, updated_at)
 VALUES (?1, ?2, 'DONE', 0, 0, ?3, ?4, ?5, ?5)
 ON CONFLICT (idempotency_key) DO UPDATE SET state = 'DONE', lease_until = NULL, ok = 0,
 status = excluded.status, reason = excluded.reason, updated_at = excluded.updated_at
 WHERE execution_requests.state = 'IN_PROGRESS'`
	sqlFinish = `UPDATE execution_requests SET state = 'DONE', lease_until = NULL, ok = ?1, status = ?2, reason = ?3, run_id = ?4,
 trace_id = ?5, error_code = ?6, error_message = ?7, updated_at = ?8 WHERE idempotency_key = ?9 AND state = 'IN_PROGRESS'`
	sqlRelease = `UPDATE execution_requests SET lease_until = NULL, sent = ?1, updated_at = ?2
 WHERE idempotency_key = ?3 AND state = 'IN_PROGRESS'`
)

// Workflow versions.
const (
	sqlPutWorkflow = `INSERT INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at) VALUES (?, ?, ?, ?, ?)
 ON CONFLICT (workflow_id, version) DO NOTHING`
	sqlGetWorkflow   = `SELECT workflow_id, version, dag, dag_hash, created_at FROM workflow_versions WHERE workflow_id = ? AND version = ?`
	sqlListWorkflows = `SELECT workflow_id, version, NULL, dag_hash, created_at FROM workflow_versions
 WHERE workflow_id = ? AND version < ? ORDER BY version DESC LIMIT ?`
	sqlLoadDAG = `SELECT dag FROM workflow_versions WHERE workflow_id = ? AND version = ?`
)
