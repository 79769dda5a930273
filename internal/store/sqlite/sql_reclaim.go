package sqlite

// Reclaim.
const (
	sqlResendable = `SELECT ` + openRunColumns + ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.status = 2`
	sqlResend = `UPDATE open_runs SET epoch = ?1, send_after = ?2, updated_at = ?3 WHERE idempotency_key = ?4 AND status = 2`

	sqlCancelRequests = `SELECT ` + openRunColumns + ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.cancel_requested_at IS NOT NULL AND o.state = 3
 ORDER BY o.cancel_requested_at, o.idempotency_key`
)
