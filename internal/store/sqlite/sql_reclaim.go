package sqlite

// Reclaim.
const (
	// sqlReclaimable finds runs that are still due: their answer may have come since
	// they were chosen. A run whose cancel is requested is not sent any more.
	sqlReclaimable = `SELECT ` + openRunColumns + ` FROM json_each(?3) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.status = 2 AND (o.epoch <> ?1 OR o.send_after IS NULL OR o.send_after <= ?2) AND o.cancel_requested_at IS NULL`
	sqlReclaim = `UPDATE open_runs SET epoch = ?1, send_after = ?2, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 2`

	sqlCancelRequests = `SELECT ` + openRunColumns + ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.cancel_requested_at IS NOT NULL AND o.state = 3
 ORDER BY o.cancel_requested_at, o.idempotency_key`
)
