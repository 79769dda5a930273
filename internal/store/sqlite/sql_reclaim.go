package sqlite

// Reclaim.
const (
	// sqlReclaimable finds runs that are still due: their answer may have come since
	// they were chosen. A run whose cancel is requested is sent only if its outcome is
	// recorded: the launcher answers from the record, and that settles the run.
	sqlReclaimable = `SELECT ` + runColumns + ` FROM json_each(?3) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)` + ofRevision + `
 WHERE r.status = 'LAUNCHING' AND (r.epoch <> ?1 OR r.claimed_until IS NULL OR r.claimed_until <= ?2) AND (r.cancel_requested_at IS NULL
  OR EXISTS (SELECT 1 FROM execution_requests q WHERE q.idempotency_key = r.idempotency_key AND q.state = 'DONE'))`
	sqlReclaim = `UPDATE schedule_runs SET epoch = ?1, claimed_until = ?2, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 'LAUNCHING'`

	sqlCancelRequests = `SELECT ` + runColumns + ` FROM json_each(?1) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)` + ofRevision + `
 WHERE r.cancel_requested_at IS NOT NULL AND ` + inFlight + `
 ORDER BY r.cancel_requested_at, r.idempotency_key`
)
