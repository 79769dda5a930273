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

	slotEvents = ` SELECT * FROM (SELECT ` + eventColumns + ` FROM schedule_events WHERE schedule_id = ?1 AND kind IN (SELECT value FROM json_each(`

	sqlSlotEvents = slotEvents + `?3)) AND time < ?2 ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?4)) AND time < ?2 ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?3)) AND time >= ?2 ORDER BY event_id LIMIT ?7)
 UNION ALL` + slotEvents + `?4)) AND time >= ?2 ORDER BY event_id LIMIT ?7)
 UNION ALL` + slotEvents + `?5)) ORDER BY event_id DESC LIMIT ?7)
 UNION ALL` + slotEvents + `?6)) AND from_at <= ?2 AND to_at >= ?2 ORDER BY event_id DESC LIMIT ?8)
 ORDER BY 1`
	// Jobs take no part in overlap.
	wasInFlight = `x.sid = kin.sid AND x.overlap_key = ?1 AND x.idempotency_key <> ?2 AND x.run_at <= ?4 + 3660000000
 AND (x.queue_no IS NULL OR x.epoch > 0) AND COALESCE(x.enqueued_at, x.claimed_at) <= ?4`
	newestOne = ` ORDER BY x.run_at DESC, x.idempotency_key DESC LIMIT 1`

	// sqlLag counts what is due by ?1.
	sqlLag = `SELECT late.due, late.oldest, behind.unplanned, behind.oldest FROM
 (SELECT count(*) AS due, min(due_at) AS oldest FROM open_runs INDEXED BY open_runs_due WHERE state = 1 AND due_at <= ?1) late,
 (SELECT count(*) AS unplanned, min(plan_at) AS oldest FROM schedules WHERE plan_at IS NOT NULL AND plan_at <= ?1) behind`
)

var (
	sqlSlotRuns = `SELECT * FROM (
  SELECT ` + openRunColumns + ` FROM open_runs o INDEXED BY open_runs_schedule` + ofOpen + ` WHERE o.sid = ` + sidOfFirst + ` AND o.run_at >= ?2 AND o.run_at < ?3 AND (o.queue_no IS NULL OR o.epoch > 0)
  UNION ALL
  SELECT ` + endedRunColumns + ` FROM ended_runs e INDEXED BY ended_runs_schedule` + ofEnded + ` WHERE e.sid = ` + sidOfFirst + ` AND e.run_at >= ?2 AND e.run_at < ?3 AND (e.queue_no IS NULL OR e.epoch > 0)
 ) found ORDER BY found.idempotency_key = ?4 DESC, found.idempotency_key LIMIT ?5`

	// Exclusive runs in flight have an index of their own.
	sqlBlockingNow = `SELECT ` + openRunColumns + ` FROM (
  SELECT rowid AS id FROM open_runs INDEXED BY open_runs_overlap WHERE overlap_key = ?1 AND state IN (2, 3, 4) AND NOT exclusive_flight AND state >= 3
  UNION ALL
  SELECT rowid FROM open_runs INDEXED BY open_runs_one_in_flight WHERE overlap_key = ?1 AND exclusive_flight
 ) flying CROSS JOIN open_runs o ON o.rowid = flying.id` + ofOpen + `
 WHERE o.idempotency_key <> ?2
 ORDER BY COALESCE(o.enqueued_at, o.claimed_at) DESC, o.idempotency_key LIMIT ?3`

	// blockingThen finds the newest run of each schedule that was in flight. Its
	// fire_at was not later, and jitter adds at most one hour to run_at.
	blockingThen = `, found(key) AS MATERIALIZED (
  SELECT (SELECT key FROM (
   SELECT * FROM (SELECT x.run_at AS at, x.idempotency_key AS key FROM open_runs x INDEXED BY open_runs_schedule WHERE ` + wasInFlight + ` AND ?5 IS NOT NULL` + newestOne + `)
   UNION ALL
   SELECT * FROM (SELECT x.run_at, x.idempotency_key FROM ended_runs x INDEXED BY ended_runs_schedule WHERE ` + wasInFlight + ` AND x.completed_at >= ?5` + newestOne + `)
   ORDER BY at DESC, key DESC LIMIT 1) newest)
  FROM kin)
 SELECT * FROM (
  SELECT ` + openRunColumns + ` FROM found CROSS JOIN open_runs o ON o.idempotency_key = found.key` + ofOpen + `
  UNION ALL
  SELECT ` + endedRunColumns + ` FROM found CROSS JOIN ended_runs e INDEXED BY ended_runs_key ON e.idempotency_key = found.key` + ofEnded + `
 ) flown ORDER BY COALESCE(flown.enqueued_at, flown.claimed_at) DESC, flown.idempotency_key LIMIT ?3`

	// The schedules that have the key now, and one more.
	sqlBlockingKin = `WITH kin(sid) AS MATERIALIZED (SELECT s.sid FROM schedules s INDEXED BY schedules_overlap_key WHERE s.user_id || '/' || s.overlap_key = ?1
  UNION SELECT s.sid FROM schedules s WHERE s.schedule_id = ?6)` + blockingThen
	// All schedules of an owner: one of them had the key then.
	sqlBlockingOwner = `WITH kin(sid) AS MATERIALIZED (SELECT s.sid FROM schedules s WHERE s.user_id = ?6 AND s.deleted_at IS NULL
  UNION ALL SELECT s.sid FROM schedules s WHERE s.user_id = ?6 AND s.deleted_at IS NOT NULL)` + blockingThen
)
