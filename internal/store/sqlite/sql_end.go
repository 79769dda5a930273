package sqlite

import "strings"

// Runs that are not over, and their way into history.
const (
	sqlOpenRows = `SELECT ` + openRowColumns + ` FROM json_each(?) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen

	// due_at only comes closer: a heartbeat then changes no index entry but its own,
	// and the sweep moves due_at on. An acceptance (3) is the answer to the call that
	// holds the key.
	sqlWriteOpen = `UPDATE open_runs SET status = ?2, due_at = min(due_at, ?3), deliveries = ?4, failed_attempts = ?5, send_after = ?6,
 launched_at = ?7, started_at = ?8, timeout_at = ?9, run_id = ?10, trace_id = ?11, error_code = ?12, error_message = ?13, attempt_log = ?14,
 updated_at = ?15, holder = CASE WHEN ?2 = 3 THEN NULL ELSE holder END, lease_until = CASE WHEN ?2 = 3 THEN NULL ELSE lease_until END
 WHERE idempotency_key = ?1 AND state = 3`

	sqlDeleteOpen  = `DELETE FROM open_runs WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?))`
	sqlInsertEnded = `INSERT INTO ended_runs (run_at, fire_at, created_at, claimed_at, launched_at, started_at,
 completed_at, recorded_at, cancel_requested_at, timeout_at, epoch,
 sid, nth, revision, priority, max_queued, attempt, deliveries, failed_attempts,
 late_reports, exit_code, bucket, status, trigger, policy,
 idempotency_key, overlap_key, reason, cancel_reason, retry_of, input, run_id, trace_id,
 error_code, error_message, attempt_log, log_url, first_sent_at) VALUES ` + insertEndedRow
	insertEndedRow = `(?,?,?,?,?,?, ?,?,?,?,?, ?,?,?,?,?,?,?,?, ?,?,?,?,?,?, ?,?,?,?,?,?,?,?, ?,?,?,?,?)`
	sqlEndedTwice  = `SELECT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_slot WHERE e.run_at = ?2 AND e.sid = ?3 AND e.idempotency_key = ?1)`
)

var (
	sqlInsertManyEnded = ofMany(sqlInsertEnded, insertEndedRow)
	endedColumns       = strings.Count(insertEndedRow, "?")
)
