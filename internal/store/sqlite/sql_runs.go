package sqlite

// Runs.
const (
	sqlGetRun    = `SELECT ` + runColumns + ` FROM schedule_runs r` + ofRevision + ` WHERE r.idempotency_key = ?`
	sqlAskCancel = `UPDATE schedule_runs SET cancel_requested_at = ?1, cancel_reason = ?2, updated_at = ?1
 WHERE idempotency_key = ?3 AND cancel_requested_at IS NULL AND (status = 'PLANNED' OR ` + inFlight + `)`

	// updated_at stays: the run has not changed for those who watch.
	sqlNoteLateReport = `UPDATE schedule_runs SET late_reports = COALESCE(late_reports, 0) | ?1
 WHERE idempotency_key = ?2 AND COALESCE(late_reports, 0) & ?1 = 0 AND NOT ` + inFlight

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
	sqlRunsBehind       = ` AND (r.run_at, r.idempotency_key) > (?, ?)`
	sqlRunsOrder        = ` ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT ?`
	sqlRunsAscending    = ` ORDER BY r.run_at, r.idempotency_key LIMIT ?`
	sqlRunsUpdatedOrder = ` ORDER BY r.updated_at, r.idempotency_key LIMIT ?`
)
