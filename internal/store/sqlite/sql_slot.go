package sqlite

const revisionColumns = `schedule_id, revision, definition, changed_by, created_at`

// One instant of a schedule. ?1 = the schedule, ?2 = the instant.
const (
	slotRevisions = ` SELECT * FROM (SELECT ` + revisionColumns + ` FROM schedule_revisions WHERE schedule_id = ?1`

	sqlSlotRevisions = slotRevisions + ` AND created_at < ?2 ORDER BY revision DESC LIMIT 2)
 UNION` + slotRevisions + ` AND created_at >= ?2 ORDER BY revision LIMIT 1)
 UNION` + slotRevisions + ` ORDER BY revision LIMIT 1)
 UNION` + slotRevisions + ` AND revision IN (SELECT CAST(value AS INTEGER) FROM json_each(?3)))
 ORDER BY 2 DESC`

	sqlSlotRuns = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_history` + ofRevision + `
 WHERE r.schedule_id = ? AND r.run_at >= ? AND r.run_at < ?
 ORDER BY r.idempotency_key = ? DESC, r.idempotency_key LIMIT ?`

	slotEvents = ` SELECT * FROM (SELECT ` + eventColumns + ` FROM schedule_events WHERE schedule_id = ?1 AND kind IN (SELECT value FROM json_each(`

	sqlSlotEvents = slotEvents + `?3)) AND time < ?2 ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?4)) AND time < ?2 ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?3)) AND time >= ?2 ORDER BY event_id LIMIT ?7)
 UNION ALL` + slotEvents + `?4)) AND time >= ?2 ORDER BY event_id LIMIT ?7)
 UNION ALL` + slotEvents + `?5)) ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?6)) AND from_at <= ?2 AND to_at >= ?2 ORDER BY event_id DESC LIMIT ?8)
 ORDER BY 1`

	// Exclusive runs and others have an index each.
	sqlBlockingNow = `SELECT ` + runColumns + ` FROM (
  SELECT rowid AS id FROM schedule_runs INDEXED BY schedule_runs_in_flight WHERE overlap_key = ?1 AND NOT exclusive AND ` + inFlight + `
  UNION ALL
  SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_one_in_flight WHERE overlap_key = ?1 AND exclusive AND ` + inFlight + `
 ) f CROSS JOIN schedule_runs r ON r.rowid = f.id` + ofRevision + `
 WHERE r.idempotency_key <> ?2
 ORDER BY r.claimed_at DESC, r.idempotency_key LIMIT ?3`

	// A run that was in flight was due not later than an hour, the most that
	// jitter moves, after: there the walk back through a history begins.
	blockingThen = runColumns + ` FROM schedule_runs r` + ofRevision + ` WHERE r.idempotency_key IN (
  SELECT (SELECT x.idempotency_key FROM schedule_runs x INDEXED BY schedule_runs_history
   WHERE x.schedule_id = k.schedule_id AND x.overlap_key = ?1 AND x.idempotency_key <> ?2 AND x.run_at <= ?4 + 3660000000
    AND x.claimed_at <= ?4 AND (x.completed_at IS NULL OR x.completed_at >= ?5)
   ORDER BY x.run_at DESC, x.idempotency_key DESC LIMIT 1)
  FROM (`
	blockingOrder = `) k) ORDER BY r.claimed_at DESC, r.idempotency_key LIMIT ?3`

	// What should have been done by ?1, by both indexes of what is due.
	sqlLag = `SELECT late.due, late.oldest, behind.unplanned, behind.oldest FROM
 (SELECT count(*) AS due, min(fire_at) AS oldest FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= ?1) late,
 (SELECT count(*) AS unplanned, min(plan_at) AS oldest FROM schedules WHERE plan_at IS NOT NULL AND plan_at <= ?1) behind`

	// The schedules that have the key now, and one more.
	sqlBlockingKin = `SELECT ` + blockingThen + `SELECT s.schedule_id FROM schedules s WHERE s.user_id || '/' || s.overlap_key = ?1 UNION SELECT ?6` + blockingOrder
	// All of an owner: one of them had the key then.
	sqlBlockingOwner = `SELECT ` + blockingThen + `SELECT s.schedule_id FROM schedules s WHERE s.user_id = ?6 AND s.deleted_at IS NULL
   UNION ALL SELECT s.schedule_id FROM schedules s WHERE s.user_id = ?6 AND s.deleted_at IS NOT NULL` + blockingOrder
)
