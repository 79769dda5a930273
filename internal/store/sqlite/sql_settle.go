package sqlite

// Sweeps; for settlements see sql_end.go.
const (
	// ?1 = now, ?2 and ?3 = the term's buckets.
	sqlDue = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofOpen + `
 WHERE o.state = 3 AND o.due_at <= ?1 AND o.bucket BETWEEN ?2 AND ?3 ORDER BY o.due_at LIMIT ?4`
	sqlPostpone = `UPDATE open_runs SET due_at = ?2 WHERE idempotency_key = ?1 AND state = 3`
)
