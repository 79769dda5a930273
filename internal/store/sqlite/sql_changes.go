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
	openColumns = `o.idempotency_key, s.schedule_id, o.revision, o.overlap_key, o.run_at, o.fire_at, o.status, CASE WHEN o.state = 2 THEN o.waiting_since END,
 o.trigger, o.policy, o.policy <> 1, o.max_queued, o.priority, o.epoch, o.send_after, o.cancel_requested_at IS NOT NULL,
 s.deleted_at IS NOT NULL OR s.paused, o.start_by, o.retry_of, o.state = 4`
	ofSchedule = ` CROSS JOIN schedules s ON s.sid = o.sid`

	sqlOpenOfKeys        = `SELECT ` + openColumns + ofKeys + ofSchedule + ` WHERE o.bucket BETWEEN ?2 AND ?3`
	sqlPlannedOfSchedule = `SELECT ` + openColumns + ` FROM open_runs o INDEXED BY open_runs_schedule` + ofSchedule + `
 WHERE o.sid = ` + sidOfFirst + ` AND o.state IN (1, 2) AND o.bucket BETWEEN ?2 AND ?3`
	sqlStopped = `SELECT j.value, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL, s.paused, s.pause_note, s.paused_by, s.paused_until
 FROM json_each(?1) j LEFT JOIN schedules s ON s.schedule_id = j.value`

	// Runs that wait and runs in flight.
	sqlLoadGroups = `SELECT ` + openColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofSchedule + `
 WHERE o.state IN (2, 3, 4) AND o.bucket BETWEEN ?1 AND ?2`
	sqlLoadPlanned = `SELECT ` + openColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofSchedule + `
 WHERE o.state = 1 AND o.due_at > ?3 AND o.due_at <= ?4 AND o.bucket BETWEEN ?1 AND ?2`

	sqlSeenUntil = `SELECT seen_until FROM leaders WHERE shard = ?`
	sqlNoteSeen  = `UPDATE leaders SET seen_until = ?1 WHERE shard = ?2 AND (seen_until IS NULL OR seen_until < ?1)`
)
