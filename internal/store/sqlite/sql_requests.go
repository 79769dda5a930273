package sqlite

// Keys of runs, in their rows. They leave updated_at: nothing that anybody watches has
// changed. Of a lease its end identifies the call, also after it has expired, as long as
// no other call was granted the key.
const (
	sqlBeginRuns = `SELECT o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.status, o.trigger, o.input, o.deliveries,
 o.cancel_requested_at, o.cancel_reason, o.run_id, o.trace_id, s.deleted_at, s.paused, s.paused_until, ` + leaseColumns + ofKeys + `
 CROSS JOIN schedules s ON s.sid = o.sid`
	sqlBeginSchedules = `SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until
 FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`
	// While a call is open it counts as sent: its process may be dead and cannot say.
	sqlBeginCall = `UPDATE open_runs SET holder = nullif(?2, 0), lease_until = ?3, deliveries = deliveries + 1, first_sent_at = COALESCE(first_sent_at, ?4)
 WHERE idempotency_key = ?1 AND status = 2`
	sqlRelease = `UPDATE open_runs SET holder = NULL, lease_until = NULL, deliveries = ?3, first_sent_at = CASE WHEN ?3 > 0 THEN first_sent_at END
 WHERE idempotency_key = ?1 AND lease_until = ?2 AND status = 2`
	sqlExtend    = `UPDATE open_runs SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2 AND state = 3`
	sqlHasEnded  = `SELECT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?)`
	sqlMoveKey   = `UPDATE open_runs SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL AND state = 3`
	sqlFirstSent = `SELECT COALESCE((SELECT o.first_sent_at FROM open_runs o WHERE o.idempotency_key = ?1),
 (SELECT e.first_sent_at FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?1))`
)

// Records of keys that the ledger does not have: graph runs, and starts from workers on
// another database.
const (
	sqlRequests = `SELECT ` + requestColumns + ` FROM json_each(?) j
 CROSS JOIN execution_requests q ON q.idempotency_key = unhex(j.value)`
	sqlWriteRequest = `INSERT INTO execution_requests (idempotency_key, request_hash, state, calls, lease_until, holder,
 status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13)
 ON CONFLICT (idempotency_key) DO UPDATE SET state = excluded.state, calls = excluded.calls, lease_until = excluded.lease_until,
 holder = excluded.holder, status = excluded.status, reason = excluded.reason, run_id = excluded.run_id, trace_id = excluded.trace_id,
 error_code = excluded.error_code, error_message = excluded.error_message, updated_at = excluded.updated_at`
	sqlReleaseRequest = `UPDATE execution_requests SET lease_until = NULL, calls = ?3, updated_at = ?4 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlExtendRequest  = `UPDATE execution_requests SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlMoveRequest    = `UPDATE execution_requests SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL`
)
