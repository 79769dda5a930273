package sqlite

// Claim.
const (
	ofKeys = ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)`
	inKeys = `idempotency_key IN (SELECT unhex(value) FROM json_each(?5))`

	sqlClaimPlanned  = `SELECT ` + plannedColumns + ofKeys + ` CROSS JOIN schedules s ON s.sid = o.sid WHERE o.state IN (1, 2)`
	sqlClaimInFlight = `SELECT ` + openRunColumns + ofKeys + ofOpen + ` WHERE o.state = 3 ORDER BY j.key`
	sqlWhichInFlight = `SELECT o.idempotency_key` + ofKeys + ` WHERE o.state = 3`

	// What one_in_flight refuses is left out, and found by sqlClaimRefused.
	sqlClaim = `UPDATE OR IGNORE open_runs SET state = 3, status = 2, exclusive_flight = (policy <> 1), waiting_since = NULL, epoch = ?1,
 claimed_at = ?2, send_after = ?3, timeout_at = max(fire_at, ?2) + ?4, due_at = ?3, updated_at = ?2
 WHERE ` + inKeys + ` AND +state IN (1, 2)`
	sqlClaimRefused = `SELECT o.idempotency_key` + ofKeys + ` WHERE o.state IN (1, 2)`
	// 9223372036854775807: the end of another run moves it.
	sqlClaimWait = `UPDATE open_runs SET state = 2, due_at = 9223372036854775807, waiting_since = ?1, updated_at = ?1
 WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?2)) AND +state = 1`
)
