package sqlite

// Changes and what a leader reads of them.
const (
	sqlNoteChange = `INSERT INTO changes (at, first_bucket, last_bucket, kind, schedule_ids, keys) VALUES (?, ?, ?, ?, ?, ?)`

	// The greatest change_id that there ever was. A rollback takes numbers back, so
	// only pruned rows leave gaps.
	sqlLastChange = `SELECT seq FROM sqlite_sequence WHERE name = 'changes'`
	sqlChanges    = `SELECT kind, schedule_ids, keys FROM changes WHERE change_id > ?1 AND first_bucket <= ?3 AND last_bucket >= ?2 ORDER BY change_id`

	// The greatest change_id that was pruned. Kinds are pruned at different ages, so
	// the oldest row that is left does not tell.
	sqlPrunedChange = `SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'changes_pruned'`
	sqlNotePruned   = `INSERT INTO settings (name, value) SELECT 'changes_pruned', max(change_id) FROM (` + prunableChanges + `) HAVING count(*) > 0
 ON CONFLICT (name) DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`
	sqlPruneChanges = `DELETE FROM changes WHERE change_id IN (` + prunableChanges + `)`
	// ?1 = kept so long if runs have ended (kind 3), ?2 = all others.
	prunableChanges = `SELECT change_id FROM changes WHERE at < ?1 AND (kind = 3 OR at < ?2) ORDER BY change_id LIMIT ?3`
	// sqlLoseChanges has every reader rebuild: all positions lie before what is
	// noted as pruned.
	sqlLoseChanges = `INSERT INTO settings (name, value) SELECT 'changes_pruned', seq FROM sqlite_sequence WHERE name = 'changes'
 ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// openColumns are what a leader keeps of an open run (ledger.Run), then whether
	// its schedule is deleted or paused.
	openColumns = `r.idempotency_key, r.schedule_id, r.revision, r.overlap_key, r.run_at, r.fire_at, r.status, r.waiting_since IS NOT NULL,
 r.trigger, r.overlap_policy, r.exclusive, r.max_queued, r.priority, r.epoch, r.claimed_until, r.cancel_requested_at IS NOT NULL,
 s.schedule_id IS NULL OR s.deleted_at IS NOT NULL OR s.paused`
	ofSchedule = ` LEFT JOIN schedules s ON s.schedule_id = r.schedule_id`
	isOpen     = `(r.status = 'PLANNED' OR ` + inFlight + `)`

	sqlOpenOfKeys = `SELECT ` + openColumns + ` FROM json_each(?1) j CROSS JOIN schedule_runs r ON r.idempotency_key = unhex(j.value)` + ofSchedule + `
 WHERE r.shard BETWEEN ?2 AND ?3 AND ` + isOpen
	// What stands in the history as it was planned is found there, see onTime.
	sqlPlannedOfSchedule = `SELECT ` + openColumns + ` FROM (
  SELECT rowid AS id FROM schedule_runs INDEXED BY schedule_runs_planned WHERE schedule_id = ?1 AND status = 'PLANNED' AND ` + apart + `
  UNION ALL SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_history
   WHERE schedule_id = ?1 AND run_at >= ` + firstDue + ` AND status = 'PLANNED' AND ` + onTime + `
 ) f CROSS JOIN schedule_runs r ON r.rowid = f.id` + ofSchedule + ` WHERE r.shard BETWEEN ?2 AND ?3`
	sqlStopped = `SELECT j.value, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL, s.paused, s.pause_note, s.paused_by, s.paused_until
 FROM json_each(?1) j LEFT JOIN schedules s ON s.schedule_id = j.value`

	sqlLoadFlying = `SELECT ` + openColumns + ` FROM (` + flying + `) f CROSS JOIN schedule_runs r ON r.rowid = f.rowid` + ofSchedule + `
 WHERE r.shard BETWEEN ?1 AND ?2`
	sqlLoadWaiting = `SELECT ` + openColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_waiting` + ofSchedule + `
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NOT NULL AND r.shard BETWEEN ?1 AND ?2`
	sqlLoadPlanned = `SELECT ` + openColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_due` + ofSchedule + `
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at > ?3 AND r.fire_at <= ?4 AND r.shard BETWEEN ?1 AND ?2`

	sqlSeenUntil = `SELECT seen_until FROM leaders WHERE shard = ?`
	sqlNoteSeen  = `UPDATE leaders SET seen_until = ?1 WHERE shard = ?2 AND (seen_until IS NULL OR seen_until < ?1)`
)
