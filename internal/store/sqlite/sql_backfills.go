package sqlite

// Backfills.
const (
	backfillColumns = `b.backfill_id, b.schedule_id, b.request_id, b.request_hash, b.user_id, b.revision, b.overlap_key,
 b.from_at, b.to_at, b.reprocess, b.slot_order, b.overlap_policy, b.concurrency, b.rate_per_minute, b.note, b.created_by,
 b.state, b.reason, b.state_note, b.changed_by, b.cursor_at, b.next_at, b.slots, b.to_run, b.passed_over, b.put_down,
 b.succeeded, b.failed, b.skipped, b.cancelled, b.unfinished, b.created_at, b.updated_at, b.ended_at`

	sqlGetBackfill = `SELECT ` + backfillColumns + ` FROM backfills b WHERE b.backfill_id = ?`

	// ListBackfills puts its filters and the order behind one of these, each with
	// the index that has its rows in that order.
	sqlListBackfills         = `SELECT ` + backfillColumns + ` FROM backfills b INDEXED BY backfills_created WHERE 1`
	sqlListBackfillsSchedule = `SELECT ` + backfillColumns + ` FROM backfills b INDEXED BY backfills_schedule WHERE b.schedule_id = ?`
	sqlListBackfillsUser     = `SELECT ` + backfillColumns + ` FROM backfills b INDEXED BY backfills_user WHERE b.user_id = ?`
	sqlBackfillsUser         = ` AND b.user_id = ?`
	sqlBackfillsState        = ` AND b.state = ?`
	sqlBackfillsBefore       = ` AND (b.created_at, b.backfill_id) < (?, ?)`
	sqlBackfillsOrder        = ` ORDER BY b.created_at DESC, b.backfill_id DESC LIMIT ?`

	sqlCountBackfills = `SELECT COALESCE(sum(schedule_id = ?1), 0), COALESCE(sum(user_id = ?2), 0) FROM backfills
 INDEXED BY backfills_unfinished WHERE unfinished AND state IN ('running', 'paused') AND backfill_id <> ?3`

	// sqlBackfillCounts counts the runs that are not settled by status, which is NULL if
	// there is no run.
	sqlBackfillCounts = `SELECT e.backfill_id, COALESCE(o.status, h.status), h.reason, count(*)
 FROM json_each(?) j CROSS JOIN backfill_runs e INDEXED BY backfill_runs_unsettled LEFT JOIN open_runs o ON o.idempotency_key = e.idempotency_key
 LEFT JOIN ended_runs h ON o.idempotency_key IS NULL AND h.idempotency_key = e.idempotency_key
 WHERE e.backfill_id = j.value AND NOT e.settled GROUP BY 1, 2, 3`

	unsettledKeys        = `(SELECT e.idempotency_key FROM backfill_runs e INDEXED BY backfill_runs_unsettled WHERE e.backfill_id = ?1 AND NOT e.settled)`
	sqlBackfillDrop      = `DELETE FROM open_runs WHERE idempotency_key IN ` + unsettledKeys + ` AND state IN (1, 2) RETURNING idempotency_key, bucket`
	sqlBackfillAskCancel = `UPDATE open_runs SET cancel_requested_at = ?3, cancel_reason = ?2, due_at = min(due_at, ?3), updated_at = ?3
 WHERE idempotency_key IN ` + unsettledKeys + ` AND cancel_requested_at IS NULL AND state IN (3, 4) RETURNING idempotency_key, bucket`

	// sqlReadSlotStates returns for each slot whether a run is open, has succeeded or has
	// failed, of any trigger except manual. ?2 = the slots.
	sqlReadSlotStates = `SELECT run_at, max(status < 5), max(status = 5), max(status = 6) FROM (
  SELECT r.run_at, r.status FROM json_each(?2) j CROSS JOIN open_runs r INDEXED BY open_runs_schedule WHERE ` + runsOfReadSlot + `
  UNION ALL
  SELECT r.run_at, r.status FROM json_each(?2) j CROSS JOIN ended_runs r INDEXED BY ended_runs_schedule WHERE ` + runsOfReadSlot + `)
 GROUP BY run_at`
	runsOfReadSlot = `r.sid = ` + sidOfFirst + ` AND r.run_at = j.value AND r.trigger <> 3`

	// Those that were not looked at for the longest time.
	sqlFeedAny       = `SELECT EXISTS (SELECT 1 FROM backfills b INDEXED BY backfills_unfinished WHERE b.unfinished AND b.shard BETWEEN ? AND ?)`
	sqlFeedBackfills = `SELECT ` + backfillColumns + ` FROM backfills b INDEXED BY backfills_unfinished
 WHERE b.unfinished AND b.shard BETWEEN ? AND ? ORDER BY b.looked_at, b.backfill_id LIMIT ?`
	sqlFeedSlots = `SELECT e.run_at, e.idempotency_key FROM backfill_runs e INDEXED BY backfill_runs_unsettled
 WHERE e.backfill_id = ? AND NOT e.settled ORDER BY e.run_at`
	// An overlap group as ledger.GroupNow has it. Its planned runs are those of the
	// schedules that have its overlap key now: no index has planned runs by their group.
	sqlFeedGroup = `SELECT EXISTS (SELECT 1 FROM open_runs WHERE overlap_key = ?1 AND exclusive_flight)
 OR EXISTS (SELECT 1 FROM open_runs WHERE overlap_key = ?1 AND state IN (2, 3, 4) AND NOT exclusive_flight),
 (SELECT min(o.fire_at) FROM schedules h INDEXED BY schedules_overlap_key
  CROSS JOIN open_runs o INDEXED BY open_runs_schedule ON o.sid = h.sid
  WHERE h.user_id || '/' || h.overlap_key = ?1 AND o.state = 1 AND o.overlap_key = ?1 AND o.policy <> 1)`
	sqlFeedPending = `SELECT count(*) FROM backfills b INDEXED BY backfills_unfinished
 CROSS JOIN backfill_runs e INDEXED BY backfill_runs_unsettled ON e.backfill_id = b.backfill_id AND NOT e.settled
 CROSS JOIN open_runs o ON o.idempotency_key = e.idempotency_key
 WHERE b.unfinished AND b.shard BETWEEN ? AND ? AND o.status IN (1, 2)`
	sqlFeedWrite = `INSERT INTO backfill_runs (backfill_id, run_at, idempotency_key, settled) VALUES (?, ?, ?, ?)
 ON CONFLICT (backfill_id, run_at) DO UPDATE SET idempotency_key = excluded.idempotency_key, settled = excluded.settled`

	sqlPruneBackfillRuns = `DELETE FROM backfill_runs WHERE rowid IN (SELECT e.rowid FROM backfills b INDEXED BY backfills_ended
 CROSS JOIN backfill_runs e ON e.backfill_id = b.backfill_id WHERE b.ended_at < ? AND NOT b.unfinished LIMIT ?)`
	sqlPruneBackfills = `DELETE FROM backfills WHERE rowid IN (SELECT b.rowid FROM backfills b INDEXED BY backfills_ended
 WHERE b.ended_at < ? AND NOT b.unfinished AND NOT EXISTS (SELECT 1 FROM backfill_runs e WHERE e.backfill_id = b.backfill_id)
 ORDER BY b.ended_at LIMIT ?)`
)

var (
	sqlPlannedOfBackfill = `SELECT ` + openRowColumns + ` FROM backfill_runs u INDEXED BY backfill_runs_unsettled
 CROSS JOIN open_runs o ON o.idempotency_key = u.idempotency_key` + ofOpen + `
 WHERE u.backfill_id = ?1 AND NOT u.settled AND o.state IN (1, 2)`
	sqlFeedRuns = `SELECT ` + openRunColumns + ` FROM backfill_runs b INDEXED BY backfill_runs_unsettled
  CROSS JOIN open_runs o ON o.idempotency_key = b.idempotency_key` + ofOpen + ` WHERE b.backfill_id = ?1 AND NOT b.settled
 UNION ALL SELECT ` + endedRunColumns + ` FROM backfill_runs b INDEXED BY backfill_runs_unsettled
  CROSS JOIN ended_runs e INDEXED BY ended_runs_key ON e.idempotency_key = b.idempotency_key` + ofEnded + ` WHERE b.backfill_id = ?1 AND NOT b.settled`
)
