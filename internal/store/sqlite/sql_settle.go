package sqlite

import "time"

// lastRunSlack is how far last_run_at may fall behind.
const (
	lastRunSlack       = 30 * time.Second
	lastRunSlackMicros = `30000000`
)

// Settlements and sweeps; see sql_end.go.
const (
	sqlLastRunAt = `UPDATE schedules SET last_run_at = ?2 WHERE sid = ?1 AND (last_run_at IS NULL OR last_run_at < ?2)`

	// ?1 = now, ?2 and ?3 = the term's buckets.
	sqlDue = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofOpen + `
 WHERE o.state = 3 AND o.due_at <= ?1 AND o.bucket BETWEEN ?2 AND ?3 ORDER BY o.due_at LIMIT ?4`
	sqlPostpone = `UPDATE open_runs SET due_at = ?2 WHERE idempotency_key = ?1 AND state = 3`
)
