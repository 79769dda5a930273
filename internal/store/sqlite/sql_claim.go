package sqlite

// Claim. Due rows and the heads of queues whose key is free are merged in the
// order of claims; only those that are taken are then read whole.
const (
	claimOrder = `r.trigger IN ('catchup','backfill'), r.priority DESC, r.fire_at, r.run_at, r.idempotency_key`

	// Within one transaction a row is found again fastest by its rowid.
	turnColumns = `r.rowid, r.idempotency_key, r.schedule_id, r.overlap_key, r.exclusive, r.trigger IN ('catchup','backfill'), r.priority, r.fire_at, r.run_at`

	// claimable rows are due by ?4 = now + ahead. Missable ones that are later
	// than the grace (?2) are the planner's.
	claimable = `r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= ?4
   AND NOT (r.trigger = 'schedule' AND r.judged_at IS NULL AND r.fire_at < ?2 AND r.run_at < ?2)`

	// By schedule_runs_due. What is only close (?1 = now) comes last.
	sqlClaimDue = `SELECT ` + claimDue + `r.fire_at > ?1, ` + claimOrder + ` LIMIT ?3`
	// sqlClaimFirst is the same in the order of that index, whatever comes first in
	// a claim: if it finds fewer than ?3 rows those are all there are, and if not, it
	// has not sorted 27,000 to say so.
	sqlClaimFirst = `SELECT ` + claimDue + `r.fire_at, r.priority DESC LIMIT ?3`
	claimDue      = turnColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_due
 WHERE ` + claimable + ` AND r.shard BETWEEN ?5 AND ?6 AND ` + unblocked + ` ORDER BY `

	// unblocked leaves out what could only be armed and cannot be, since another
	// run of its overlap key is in flight: it would be judged in vain in each pass.
	unblocked = `(r.fire_at <= ?1 OR NOT r.exclusive OR NOT EXISTS (
   SELECT 1 FROM schedule_runs f INDEXED BY schedule_runs_one_in_flight WHERE f.overlap_key = r.overlap_key AND f.exclusive AND ` + inFlight + `))`

	// By schedule_runs_waiting, from key to key (a plain DISTINCT reads every row
	// that waits), then the one that waits longest under each key that is free. Of
	// the keys of other shards, only that one is read.
	waitingKeys = `RECURSIVE waiting (overlap_key) AS (
  SELECT min(w.overlap_key) FROM schedule_runs w WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL
  UNION ALL
  SELECT (SELECT min(w.overlap_key) FROM schedule_runs w
           WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL AND w.overlap_key > waiting.overlap_key)
    FROM waiting WHERE waiting.overlap_key IS NOT NULL)`
	ready = ` FROM waiting CROSS JOIN schedule_runs r ON r.idempotency_key = (
  SELECT w.idempotency_key FROM schedule_runs w
   WHERE w.status = 'PLANNED' AND w.waiting_since IS NOT NULL AND w.overlap_key = waiting.overlap_key
   ORDER BY w.fire_at, w.run_at, w.idempotency_key LIMIT 1)
 WHERE r.shard BETWEEN ?5 AND ?6 AND NOT EXISTS (SELECT 1 FROM schedule_runs f INDEXED BY schedule_runs_one_in_flight
  WHERE f.overlap_key = waiting.overlap_key AND f.exclusive AND ` + inFlight + `)
 AND NOT EXISTS (SELECT 1 FROM schedule_runs f INDEXED BY schedule_runs_in_flight
  WHERE f.overlap_key = waiting.overlap_key AND NOT f.exclusive AND ` + inFlight + `)`
	sqlClaimReady = `WITH ` + waitingKeys + `
 SELECT ` + turnColumns + ready + `
 ORDER BY ` + claimOrder + ` LIMIT ?3`

	// Where a schedule is gone for good, its rows are too: nobody may fire them.
	// ?1 = now. The last says whether last_run_at speaks for the run: it only grows.
	standing = `, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL,
 COALESCE(s.paused AND (s.paused_until IS NULL OR s.paused_until > ?1), 0), COALESCE(r.run_at < s.last_run_at + ` + lastRunSlack + `, 0)`

	// By schedule_runs_due. Rows that were left to the planner, but whose schedule
	// it will not be shown any more.
	sqlClaimStranded = `SELECT ` + plannedColumns + standing + `
 FROM schedule_runs r INDEXED BY schedule_runs_due LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at < ?2
   AND r.trigger = 'schedule' AND r.judged_at IS NULL AND r.run_at < ?2
   AND (s.schedule_id IS NULL OR s.deleted_at IS NOT NULL OR s.paused AND (s.paused_until IS NULL OR s.paused_until > ?1))
   AND r.shard BETWEEN ?3 AND ?4
 LIMIT 1000`

	sqlClaimRuns = `SELECT ` + plannedColumns + standing + `
 FROM json_each(?3) j CROSS JOIN schedule_runs r LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE r.rowid = j.value`
	// For where the limit cut off the first reading: it may end the launches, not
	// what the judge sees. By the schedules that have the overlap keys now, and those
	// whose rows have one from before an edit (?5): a walk over all that is due took
	// a third of a second for 30,000 rows.
	sqlClaimGroups = `WITH holders AS MATERIALIZED (
  SELECT h.schedule_id AS holder FROM json_each(?3) j CROSS JOIN schedules h INDEXED BY schedules_overlap_key
   WHERE h.user_id || '/' || h.overlap_key = j.value
  UNION SELECT value FROM json_each(?5)
 ), due (due_row) AS MATERIALIZED (
  SELECT d.rowid FROM holders CROSS JOIN schedule_runs d INDEXED BY schedule_runs_planned
   WHERE d.schedule_id = holder AND d.fire_at <= ?4 AND d.status = 'PLANNED' AND ` + apart + `
  UNION ALL
  SELECT d.rowid FROM holders CROSS JOIN schedule_runs d INDEXED BY schedule_runs_history
   WHERE d.schedule_id = holder AND d.run_at BETWEEN max(?2, ` + firstDue + `) AND ?4 AND d.status = 'PLANNED' AND ` + onTime + `)
 SELECT ` + plannedColumns + standing + `
 FROM due CROSS JOIN schedule_runs r ON r.rowid = due_row LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE ` + claimable + ` AND r.exclusive AND r.overlap_key IN (SELECT value FROM json_each(?3))`
	sqlClaimWaiting = `SELECT ` + plannedColumns + standing + `
 FROM json_each(?3) j CROSS JOIN schedule_runs r INDEXED BY schedule_runs_waiting LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
 WHERE r.overlap_key = j.value AND r.status = 'PLANNED' AND r.waiting_since IS NOT NULL
 ORDER BY r.fire_at, r.run_at, r.idempotency_key`
	// What is in flight under each key, which runs of both kinds may hold together
	// after an edit of the policy.
	sqlClaimInFlight = `SELECT ` + runColumns + ` FROM json_each(?) j CROSS JOIN schedule_runs r INDEXED BY schedule_runs_in_flight` + ofRevision + `
 WHERE r.overlap_key = j.value AND NOT r.exclusive AND ` + inFlight
	sqlClaimInFlightAlone = `SELECT ` + runColumns + ` FROM json_each(?) j CROSS JOIN schedule_runs r INDEXED BY schedule_runs_one_in_flight` + ofRevision + `
 WHERE r.overlap_key = j.value AND r.exclusive AND ` + inFlight

	// What one_in_flight refuses is left out, and found by sqlClaimLost.
	sqlClaim = `UPDATE OR IGNORE schedule_runs SET status = 'LAUNCHING', waiting_since = NULL, epoch = ?1,
 claimed_at = ?2, claimed_until = ?3, timeout_at = max(fire_at, ?2) + ?4, updated_at = ?2
 WHERE rowid IN (SELECT value FROM json_each(?5)) AND status = 'PLANNED'`
	sqlClaimLost = `SELECT r.rowid FROM json_each(?) j CROSS JOIN schedule_runs r WHERE r.rowid = j.value AND r.status = 'PLANNED'`
	sqlClaimWait = `UPDATE schedule_runs SET waiting_since = ?1, updated_at = ?1
 WHERE idempotency_key = ?2 AND status = 'PLANNED' AND waiting_since IS NULL`
	sqlClaimEnd = `UPDATE schedule_runs SET status = ?1, reason = ?2, error_code = ?3, error_message = ?4, waiting_since = NULL,
 completed_at = ?5, updated_at = ?5 WHERE rowid IN (SELECT value FROM json_each(?6)) AND status = 'PLANNED'`

	// updated_at stays: nothing that anybody watches has changed, and its index
	// would double the cost of stamping a herd. Oldest first and so many at once;
	// what a pass leaves out, the next one finds. What is due by ?5 is stamped
	// (package seen); ?7: what was due by then.
	sqlClaimStamp = `UPDATE schedule_runs SET judged_at = ?1 WHERE status = 'PLANNED' AND rowid IN (
  SELECT r.rowid FROM schedule_runs r INDEXED BY schedule_runs_due
   WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= ?7 AND r.fire_at > ?5 AND r.judged_at IS NULL
     AND NOT (r.trigger = 'schedule' AND r.fire_at < ?2 AND r.run_at < ?2) AND r.shard BETWEEN ?3 AND ?4
   ORDER BY r.fire_at LIMIT ?6)`

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

	sqlNextFireAt = `SELECT min(fire_at) FROM schedule_runs INDEXED BY schedule_runs_due WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at > ?
 AND shard BETWEEN ? AND ?`
	sqlCancelsDue = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_cancel` + ofRevision + `
 WHERE r.cancel_requested_at IS NOT NULL AND ` + inFlight + ` AND r.shard BETWEEN ?2 AND ?3
 ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT ?1`
	// Of all buckets it counts by the indexes alone.
	sqlGauges    = `SELECT ` + gaugeLaunching + ofShard + `) + ` + gaugeLaunched + ofShard + `), ` + gaugeWaiting + ofShard + `), ` + gaugeDue + ofShard + `)`
	sqlGaugesAll = `SELECT ` + gaugeLaunching + `) + ` + gaugeLaunched + `), ` + gaugeWaiting + `), ` + gaugeDue + `)`

	gaugeLaunching = `(SELECT count(*) FROM schedule_runs INDEXED BY schedule_runs_launching WHERE status = 'LAUNCHING'`
	gaugeLaunched  = `(SELECT count(*) FROM schedule_runs INDEXED BY schedule_runs_timeout WHERE ` + launched
	gaugeWaiting   = `(SELECT count(*) FROM schedule_runs INDEXED BY schedule_runs_waiting WHERE status = 'PLANNED' AND waiting_since IS NOT NULL`
	gaugeDue       = `(SELECT count(*) FROM schedule_runs INDEXED BY schedule_runs_due WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= ?1`
	ofShard        = `
 AND shard BETWEEN ?2 AND ?3`
)
