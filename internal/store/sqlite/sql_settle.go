package sqlite

// Settle: one statement for each status, with the statuses that it may leave; a
// test compares them with schedule.Status.Predecessors. They follow ledger.Settle;
// package storetest compares the two. The rule is repeated in SQL because reading each
// run first would double the statements of a settlement. settleLaunching keeps the
// last ten attempts (schedule.KeptAttempts).
const (
	settleLaunching = `UPDATE schedule_runs SET claimed_until = COALESCE(?2, claimed_until), updated_at = ?3,
 error_code = COALESCE(?4, error_code), error_message = COALESCE(?5, error_message), deliveries = max(deliveries, ?6),
 failed_attempts = failed_attempts + (?7 IS NOT NULL), attempt_log = CASE WHEN ?7 IS NULL THEN attempt_log
  WHEN json_array_length(attempt_log) >= 10 THEN json_insert(json_remove(attempt_log, '$[0]'), '$[#]', json(?7))
  ELSE json_insert(COALESCE(attempt_log, '[]'), '$[#]', json(?7)) END
 WHERE idempotency_key = ?1 AND status = 'LAUNCHING'`

	// settleReason is the reason that a settlement leaves; a CANCELLED run always has one.
	settleReason       = ` reason = COALESCE(?4, reason),`
	settleCancelReason = ` reason = COALESCE(?4, reason, cancel_reason, 'cancelled'),`

	settleSet = ` waiting_since = NULL, claimed_until = NULL, updated_at = ?3, run_id = COALESCE(?5, run_id), trace_id = COALESCE(?6, trace_id),
 error_code = CASE WHEN status = 'LAUNCHING' THEN ?7 ELSE COALESCE(?7, error_code) END,
 error_message = CASE WHEN status = 'LAUNCHING' THEN ?8 ELSE COALESCE(?8, error_message) END,
 launched_at = COALESCE(?9, launched_at), started_at = COALESCE(started_at, ?10),
 timeout_at = COALESCE(?11, timeout_at), completed_at = COALESCE(?2, completed_at),
 deliveries = max(deliveries, ?12, CASE WHEN ?12 = 0 AND status = 'LAUNCHING' THEN ` + callsMade + ` ELSE 0 END)
 ` + settleByKey + ` AND `
	// callsMade is how many calls of a run may have reached the executor.
	callsMade = `COALESCE((SELECT q.calls FROM execution_requests q WHERE q.idempotency_key = schedule_runs.idempotency_key AND q.sent), 0)`

	settleByKey = `WHERE idempotency_key = ?1`
	settleByRow = `WHERE rowid = ?13 AND +idempotency_key = ?1`

	settleEnqueued  = `UPDATE schedule_runs SET status = 'ENQUEUED',` + settleReason + settleSet + `status = 'LAUNCHING'`
	settleStarted   = `UPDATE schedule_runs SET status = 'STARTED',` + settleReason + settleSet + inFlight
	settleSuccess   = `UPDATE schedule_runs SET status = 'SUCCESS',` + settleReason + settleSet + inFlight
	settleFailed    = `UPDATE schedule_runs SET status = 'FAILED',` + settleReason + settleSet + `(status = 'PLANNED' OR ` + inFlight + `)`
	settleSkipped   = `UPDATE schedule_runs SET status = 'SKIPPED',` + settleReason + settleSet + `(status = 'PLANNED' OR status = 'LAUNCHING')`
	settleCancelled = `UPDATE schedule_runs SET status = 'CANCELLED',` + settleCancelReason + settleSet + `(status = 'PLANNED' OR ` + inFlight + `)`

	// last_run_at is written only where it would fall behind by lastRunSlack, and
	// reading (lastRun) looks for what came after it: of a schedule with a slot
	// each second it was as dear as a third of the settlement.
	sqlLastRunAt = `UPDATE schedules SET last_run_at = newest.run_at
 FROM (SELECT r.schedule_id, max(r.run_at) AS run_at FROM json_each(?) j
   CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value) GROUP BY r.schedule_id) newest
 WHERE schedules.schedule_id = newest.schedule_id
   AND (schedules.last_run_at IS NULL OR schedules.last_run_at + ` + lastRunSlack + ` <= newest.run_at)`
)

// The candidates of a sweep: rows in flight with the instant of a bound at or before
// ?1 and after (?5, ?6). ledger.Sweep decides which of them end.
const (
	launchingRows = ` SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_launching WHERE status = 'LAUNCHING' AND `

	sqlSweepCancelled = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_cancel` + ofRevision + `
 WHERE r.cancel_requested_at <= ?1 AND (r.cancel_requested_at, r.idempotency_key) > (?5, ?6) AND ` + inFlight + ` AND r.shard BETWEEN ?3 AND ?4
 ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT ?2`
	sqlSweepLaunching = `WITH past (past_row) AS MATERIALIZED (` + launchingRows + `timeout_at <= ?1)
 SELECT ` + runColumns + ` FROM past CROSS JOIN schedule_runs r ON r.rowid = past_row` + ofRevision + `
 WHERE r.status = 'LAUNCHING' AND (r.timeout_at, r.idempotency_key) > (?5, ?6) AND r.shard BETWEEN ?3 AND ?4
 ORDER BY r.timeout_at, r.idempotency_key LIMIT ?2`
	sqlSweepTimedOut = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_timeout` + ofRevision + `
 WHERE r.timeout_at <= ?1 AND (r.timeout_at, r.idempotency_key) > (?5, ?6) AND ` + launched + ` AND r.shard BETWEEN ?3 AND ?4
 ORDER BY r.timeout_at, r.idempotency_key LIMIT ?2`
	sqlSweep = `UPDATE schedule_runs SET status = ?1, reason = ?2, error_code = ?5, deliveries = ?6, claimed_until = NULL, completed_at = ?3, updated_at = ?3
 WHERE idempotency_key = ?4 AND ` + inFlight
)
