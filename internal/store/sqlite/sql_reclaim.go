package sqlite

// Reclaim.
const (
	// owner is schedule.Owner of a run's overlap key.
	owner = `substr(r.overlap_key, 1, length(rtrim(r.overlap_key, replace(r.overlap_key, '/', ''))) - 1)`

	// answered runs have an outcome in the launcher's memory: the next delivery
	// settles them, cancel or not.
	answered = `EXISTS (SELECT 1 FROM execution_requests q WHERE q.idempotency_key = r.idempotency_key AND q.state = 'DONE')`

	// What may be sent again; ?1 = epoch, ?2 = now, ?3 and ?4 = the term's buckets.
	reclaimable = ` FROM open_runs r INDEXED BY open_runs_due
   WHERE r.state = 3 AND r.status = 2 AND (r.epoch <> ?1 OR r.send_after IS NULL OR r.send_after <= ?2)
    AND (r.cancel_requested_at IS NULL OR ` + answered + `) AND r.bucket BETWEEN ?3 AND ?4`

	// The owners of what sqlReclaimable chooses from: mostly none.
	sqlReclaimOwners = `SELECT DISTINCT ` + owner + reclaimable

	// ?5 rows at most, of each owner so many as he has room for (?6): the first of
	// each before the second of any.
	sqlReclaimable = `WITH ranked AS (
  SELECT r.idempotency_key, r.fire_at, r.run_at, ` + owner + ` AS owner,
   row_number() OVER (PARTITION BY ` + owner + ` ORDER BY r.fire_at, r.run_at, r.idempotency_key) AS place` + reclaimable + `
 ), rooms AS MATERIALIZED (SELECT value ->> 0 AS owner, value ->> 1 AS room FROM json_each(?6)),
 chosen AS MATERIALIZED (SELECT k.idempotency_key AS chosen_key FROM ranked k JOIN rooms o ON o.owner = k.owner AND k.place <= o.room
  ORDER BY k.place, k.fire_at, k.run_at, k.idempotency_key LIMIT ?5)
 SELECT ` + openRunColumns + ` FROM chosen CROSS JOIN open_runs o ON o.idempotency_key = chosen_key` + ofOpen + `
 ORDER BY o.fire_at, o.run_at, o.idempotency_key`
	sqlReclaim = `UPDATE open_runs SET epoch = ?1, send_after = ?2, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 2`

	sqlCancelsDue = `SELECT ` + openRunColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofOpen + `
 WHERE o.state = 3 AND o.cancel_requested_at IS NOT NULL AND o.bucket BETWEEN ?2 AND ?3
 ORDER BY o.cancel_requested_at, o.idempotency_key LIMIT ?1`
)
