package sqlite

// Claim. Rows are read by their keys once, and then found by their rowids.
const (
	// The last column says whether last_run_at speaks for the run already: it only
	// grows.
	sqlClaimPlanned = `SELECT ` + plannedColumns + `, COALESCE(r.run_at < s.last_run_at + ` + lastRunSlack + `, 0)
 FROM json_each(?) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)` + ofSchedule + `
 WHERE r.status = 'PLANNED'`
	sqlClaimInFlight = `SELECT ` + runColumns + ` FROM json_each(?) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)` + ofRevision + `
 WHERE ` + inFlight + `
 ORDER BY j.key`
	sqlWhichInFlight = `SELECT r.idempotency_key FROM json_each(?) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)
 WHERE ` + inFlight

	// What one_in_flight refuses is left out, and found by sqlClaimRefused.
	sqlClaim = `UPDATE OR IGNORE schedule_runs SET status = 'LAUNCHING', waiting_since = NULL, epoch = ?1,
 claimed_at = ?2, claimed_until = ?3, timeout_at = max(fire_at, ?2) + ?4, updated_at = ?2
 WHERE rowid IN (SELECT value FROM json_each(?5)) AND status = 'PLANNED'`
	sqlClaimRefused = `SELECT r.rowid FROM json_each(?) j CROSS JOIN schedule_runs r WHERE r.rowid = j.value AND r.status = 'PLANNED'`
	sqlClaimWait    = `UPDATE schedule_runs SET waiting_since = ?1, updated_at = ?1
 WHERE rowid IN (SELECT value FROM json_each(?2)) AND status = 'PLANNED' AND waiting_since IS NULL`
	sqlClaimEnd = `UPDATE schedule_runs SET status = ?1, reason = ?2, error_code = ?3, error_message = ?4, waiting_since = NULL,
 completed_at = ?5, updated_at = ?5 WHERE rowid IN (SELECT value FROM json_each(?6)) AND status = 'PLANNED'`
)
