package sqlite

// Records of keys that the ledger does not have; see package tables.
const (
	sqlLockRecords = `SELECT q.idempotency_key, q.request_hash, q.state = 'DONE', q.calls, q.holder, q.lease_until, q.status, q.reason,
 q.run_id, q.trace_id, q.error_code, q.error_message, q.snooze_ms * 1000000
 FROM json_each(?) j CROSS JOIN execution_requests q ON q.idempotency_key = unhex(j.value)`
	sqlReleaseRequest = `UPDATE execution_requests SET lease_until = NULL, calls = ?3, updated_at = ?4 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlExtendRequest  = `UPDATE execution_requests SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2`
	sqlMoveRequest    = `UPDATE execution_requests SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL`
)
