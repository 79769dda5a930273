package sqlite

// sqlFlights: a run that was delivered twice may have two calls open, with one effect.
const sqlFlights = `SELECT idempotency_key, overlap_key, launched_at, completed_at FROM ended_runs INDEXED BY ended_runs_recorded
 WHERE recorded_at >= ?1 AND recorded_at < ?2 AND bucket >= ?3 AND bucket <= ?4
  AND policy <> 1 AND deliveries = 1 AND launched_at IS NOT NULL
 ORDER BY recorded_at LIMIT ?5`
