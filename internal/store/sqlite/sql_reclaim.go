package sqlite

// Reclaim.
const (
	// owner is schedule.Owner of a run's overlap key.
	owner = `substr(r.overlap_key, 1, length(rtrim(r.overlap_key, replace(r.overlap_key, '/', ''))) - 1)`

	// answered runs have an outcome in the launcher's memory: the next delivery
	// settles them, cancel or not.
	answered = `EXISTS (SELECT 1 FROM execution_requests q WHERE q.idempotency_key = r.idempotency_key AND q.state = 'DONE')`

	// What may be sent again; ?1 = epoch, ?2 = now, ?3 and ?4 = the term's buckets.
	// In pieces of schedule_runs_launching: a herd that is armed lies between them.
	launchingRows = ` SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_launching WHERE status = 'LAUNCHING' AND `
	unclaimed     = `unclaimed (unclaimed_row) AS MATERIALIZED (` +
		launchingRows + `epoch < ?1 UNION ALL` + launchingRows + `epoch > ?1 UNION ALL` +
		launchingRows + `epoch = ?1 AND claimed_until IS NULL UNION ALL` + launchingRows + `epoch = ?1 AND claimed_until <= ?2)`
	reclaimable = ` FROM unclaimed CROSS JOIN schedule_runs r ON r.rowid = unclaimed_row
   WHERE r.status = 'LAUNCHING' AND (r.cancel_requested_at IS NULL OR ` + answered + `) AND r.shard BETWEEN ?3 AND ?4`

	// The owners of what sqlReclaimable chooses from: mostly none.
	sqlReclaimOwners = `WITH ` + unclaimed + ` SELECT DISTINCT ` + owner + reclaimable

	// ?5 rows at most, of each owner so many as he has room for (?6): the first of
	// each before the second of any.
	sqlReclaimable = `WITH ` + unclaimed + `, ranked AS (
  SELECT r.idempotency_key, r.fire_at, r.run_at, ` + owner + ` AS owner,
   row_number() OVER (PARTITION BY ` + owner + ` ORDER BY r.fire_at, r.run_at, r.idempotency_key) AS place` + reclaimable + `
 ), rooms AS MATERIALIZED (SELECT value ->> 0 AS owner, value ->> 1 AS room FROM json_each(?6)),
 chosen AS MATERIALIZED (SELECT k.idempotency_key AS chosen_key FROM ranked k JOIN rooms o ON o.owner = k.owner AND k.place <= o.room
  ORDER BY k.place, k.fire_at, k.run_at, k.idempotency_key LIMIT ?5)
 SELECT ` + runColumns + ` FROM chosen CROSS JOIN schedule_runs r ON r.idempotency_key = chosen_key` + ofRevision + `
 ORDER BY r.fire_at, r.run_at, r.idempotency_key`
	sqlReclaim = `UPDATE schedule_runs SET epoch = ?1, claimed_until = ?2, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 'LAUNCHING'`

	sqlCancelsDue = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_cancel` + ofRevision + `
 WHERE r.cancel_requested_at IS NOT NULL AND ` + inFlight + ` AND r.shard BETWEEN ?2 AND ?3
 ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT ?1`
)
