package postgres

// sqlFlights: a run that was delivered twice may have two calls open, with one effect.
const sqlFlights = `
SELECT r.idempotency_key, r.overlap_key, r.launched_at, r.completed_at FROM ended_runs r
WHERE r.recorded_at >= $1 AND r.recorded_at < $2 AND r.bucket >= $3 AND r.bucket <= $4
	AND r.policy <> 1 AND r.deliveries = 1 AND r.launched_at IS NOT NULL
ORDER BY r.recorded_at LIMIT $5`
