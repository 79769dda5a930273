package sqlite

// Runs.
const (
	sqlLaunchAttempts = `SELECT attempt_log FROM schedule_runs WHERE idempotency_key = ?`
	sqlAskCancel      = `UPDATE open_runs SET cancel_requested_at = ?1, cancel_reason = ?2, due_at = min(due_at, ?1), updated_at = ?1
 WHERE idempotency_key = ?3 AND cancel_requested_at IS NULL AND (state IN (3, 4) OR queue_state IN (4, 5))`

	// sqlRedriven: runs that were retried by hand are no longer dead.
	sqlRedriven = `UPDATE ended_runs INDEXED BY ended_runs_key SET dead = 0
 WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?)) AND dead`

	// recorded_at stays: the run has not changed for those who watch.
	sqlNoteLateReport = `UPDATE ended_runs INDEXED BY ended_runs_key SET late_reports = COALESCE(late_reports, 0) | ?1
 WHERE idempotency_key = ?2 AND COALESCE(late_reports, 0) & ?1 = 0`
	// sqlNoteEarlyReport is the same of a run that is not in flight yet.
	sqlNoteEarlyReport = `UPDATE open_runs SET late_reports = COALESCE(late_reports, 0) | ?1
 WHERE idempotency_key = ?2 AND COALESCE(late_reports, 0) & ?1 = 0 AND (state IN (1, 2) OR queue_state IN (1, 2, 3))`
)

var (
	sqlGetOpenRun  = `SELECT ` + openRunColumns + ` FROM open_runs o` + ofOpen + ` WHERE o.idempotency_key = ?`
	sqlGetEndedRun = `SELECT ` + endedRunColumns + ` FROM ended_runs e INDEXED BY ended_runs_key` + ofEnded + ` WHERE e.idempotency_key = ?`
	sqlEndedRuns   = `SELECT ` + endedRunColumns + ` FROM json_each(?) j CROSS JOIN ended_runs e INDEXED BY ended_runs_key ON e.idempotency_key = unhex(j.value)` + ofEnded
)
