package sqlite

// Execution requests.
const (
	sqlRequests = `SELECT ` + requestColumns + ` FROM json_each(?) j
 CROSS JOIN execution_requests q ON q.idempotency_key = unhex(j.value)`
	// sqlBeginRuns are those that are open; nearly all are.
	sqlBeginRuns = `SELECT o.idempotency_key, s.schedule_id, o.status, o.trigger, o.cancel_requested_at, o.cancel_reason,
 s.deleted_at, s.paused, s.paused_until, ` + requestColumns + ofKeys + ` CROSS JOIN schedules s ON s.sid = o.sid
 LEFT JOIN execution_requests q ON q.idempotency_key = o.idempotency_key`
	sqlBeginEnded = `SELECT e.idempotency_key, e.status, e.reason, e.trigger, e.cancel_requested_at, e.cancel_reason
 FROM json_each(?) j CROSS JOIN ended_runs e INDEXED BY ended_runs_key ON e.idempotency_key = unhex(j.value)`
	sqlBeginSchedules = `SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until
 FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`

	// While a call is open it counts as sent: its process may be dead and cannot say.
	sqlBeginInsert = `INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, lease_until, holder, created_at, updated_at)
 VALUES ` + beginInsertRow
	beginInsertRow = `(?, ?, 'IN_PROGRESS', 1, ?, nullif(?, 0), ?, ?)`
	sqlBeginAgain  = `UPDATE execution_requests SET sent_at = CASE WHEN sent THEN sent_at ELSE ?2 END, sent = 1, calls = CASE WHEN sent THEN calls ELSE 0 END + 1, lease_until = ?1, holder = nullif(?4, 0), updated_at = ?2
 WHERE idempotency_key = ?3 AND state = 'IN_PROGRESS'`
	// Begin's refusals and CloseKey: DONE without a call.
	sqlRefuse = `INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, ok, status, reason, created_at, updated_at, error_message)
 VALUES (?1, ?2, 'DONE', 0, 0, ?3, ?4, ?5, ?5, ?6)
 ON CONFLICT (idempotency_key) DO UPDATE SET state = 'DONE', lease_until = NULL, ok = 0,
 status = excluded.status, reason = excluded.reason, error_message = excluded.error_message, updated_at = excluded.updated_at
 WHERE execution_requests.state = 'IN_PROGRESS'`
	sqlFinish = `UPDATE execution_requests SET state = 'DONE', lease_until = NULL, ok = ?1, status = ?2, reason = ?3, run_id = ?4,
 trace_id = ?5, error_code = ?6, error_message = ?7, calls = calls - ?10, updated_at = ?8 WHERE idempotency_key = ?9 AND state = 'IN_PROGRESS'`
	sqlFinishSuperseded = `UPDATE execution_requests SET ok = ?1, status = ?2, reason = ?3, run_id = ?4,
 trace_id = ?5, error_code = ?6, error_message = ?7, calls = calls - ?10, updated_at = ?8 WHERE idempotency_key = ?9 AND state = 'DONE' AND status = 'ENQUEUED'`
	// The lease identifies the call, also after it has expired, as long as no other call
	// was granted the key.
	sqlExtend = `UPDATE execution_requests SET lease_until = ?1, updated_at = ?2
 WHERE idempotency_key = ?3 AND state = 'IN_PROGRESS' AND lease_until = ?4`
	sqlFirstSent = `SELECT COALESCE(sent_at, created_at) FROM execution_requests WHERE idempotency_key = ? AND sent`
	sqlRelease   = `UPDATE execution_requests SET lease_until = NULL, sent = ?1 > 0, calls = ?1, updated_at = ?2
 WHERE idempotency_key = ?3 AND state = 'IN_PROGRESS' AND lease_until = ?4`
)

var sqlBeginInserts = ofMany(sqlBeginInsert, beginInsertRow)
