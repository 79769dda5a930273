package sqlite

// Schedules.
const (
	scheduleColumns = scheduleDefinition + lastRun + scheduleTimes
	// planColumns have last_run_at as it was last written: plans and queues do not need it.
	planColumns = scheduleDefinition + `s.last_run_at` + scheduleTimes

	// lastRun is the run_at of the newest run that was launched; see ledger.WasLaunched. A
	// schedule keeps it for runs that were pruned, and for the time before its last edit.
	// To write it with each launch would cost a third of the settlement. Of open runs it reads
	// the newest thousand: more are planned ahead or wait in queues only.
	lastRun = `(SELECT max(l.at) FROM (SELECT s.last_run_at AS at
  UNION ALL SELECT max(run_at) FROM (SELECT o.run_at, o.launched_at FROM open_runs o INDEXED BY open_runs_schedule WHERE o.sid = s.sid AND ` + sinceLastRun + ` LIMIT 1000) WHERE launched_at IS NOT NULL
  UNION ALL SELECT * FROM (SELECT e.run_at FROM ended_runs e INDEXED BY ended_runs_schedule WHERE e.sid = s.sid AND launched_at IS NOT NULL AND ` + sinceLastRun + ` LIMIT 1)) l)`
	sinceLastRun = `run_at > COALESCE(s.last_run_at, -9223372036854775808) ORDER BY run_at DESC`

	sqlUpsertSchedule = `INSERT INTO schedules (schedule_id, workflow_id, version, user_id, cron_expr, interval_ms, once_at,
 timezone, start_at, end_at, dst, jitter_ms, overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms,
 run_timeout_ms, priority, input, execution_grant_id, labels, managed_by, expect, launch_timeout_ms, retry, queue_id, limits, webhook, max_run_ms, expires_ms, fair_key, run_group, consume,
 revision, revised_at, next_run_at, plan_at, backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
 paused, pause_note, paused_by, paused_until, shard, last_run_at, created_at, updated_at, deleted_at, sid)
 VALUES (?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?, (SELECT COALESCE(max(sid), 0) + 1 FROM schedules))
 ON CONFLICT (schedule_id) DO UPDATE SET workflow_id = excluded.workflow_id, version = excluded.version,
 user_id = excluded.user_id, cron_expr = excluded.cron_expr, interval_ms = excluded.interval_ms, once_at = excluded.once_at,
 timezone = excluded.timezone, start_at = excluded.start_at, end_at = excluded.end_at, dst = excluded.dst,
 jitter_ms = excluded.jitter_ms, overlap_policy = excluded.overlap_policy, overlap_key = excluded.overlap_key,
 max_queued = excluded.max_queued, catchup_policy = excluded.catchup_policy, catchup_window_ms = excluded.catchup_window_ms,
 run_timeout_ms = excluded.run_timeout_ms, priority = excluded.priority, input = excluded.input,
 execution_grant_id = excluded.execution_grant_id, labels = excluded.labels, managed_by = excluded.managed_by, expect = excluded.expect, launch_timeout_ms = excluded.launch_timeout_ms, retry = excluded.retry,
 queue_id = excluded.queue_id, limits = excluded.limits, webhook = excluded.webhook, max_run_ms = excluded.max_run_ms, expires_ms = excluded.expires_ms, fair_key = excluded.fair_key, run_group = excluded.run_group, consume = excluded.consume,
 revision = excluded.revision, revised_at = excluded.revised_at, next_run_at = excluded.next_run_at,
 plan_at = excluded.plan_at, backlog_from = excluded.backlog_from, backlog_until = excluded.backlog_until,
 backlog_revision = excluded.backlog_revision, backlog_at = excluded.backlog_at, plan_failures = excluded.plan_failures,
 paused = excluded.paused, pause_note = excluded.pause_note, paused_by = excluded.paused_by,
 paused_until = excluded.paused_until, shard = excluded.shard, last_run_at = excluded.last_run_at,
 created_at = excluded.created_at, updated_at = excluded.updated_at, deleted_at = excluded.deleted_at`

	sqlInsertRevision = `INSERT INTO schedule_revisions
 (schedule_id, revision, definition, workflow_id, version, user_id, changed_by, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDefinitions = `SELECT v.schedule_id, v.revision, v.definition FROM json_each(?) j
 CROSS JOIN schedule_revisions v ON v.schedule_id = j.value ->> 0 AND v.revision = j.value ->> 1`

	sqlQuotaCount = `SELECT s.user_id, count(*) FROM json_each(?) j CROSS JOIN schedules s ON s.user_id = j.value
 WHERE s.deleted_at IS NULL` + sqlNotOfQueue + ` GROUP BY s.user_id ORDER BY s.user_id`

	sqlSchedules = `SELECT ` + scheduleColumns + ` FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`
	// sqlScheduleBucket comes before sqlUpsertSchedule: the bucket may change.
	sqlScheduleBucket = `SELECT shard FROM schedules WHERE schedule_id = ?`

	sqlManaged      = `SELECT s.schedule_id FROM schedules s WHERE s.managed_by = ?1 AND s.deleted_at IS NULL AND (?2 = '' OR s.user_id = ?2) ORDER BY s.schedule_id`
	sqlGetSchedule  = `SELECT ` + scheduleColumns + ` FROM schedules s WHERE s.schedule_id = ?`
	sqlPeekSchedule = `SELECT ` + planColumns + ` FROM schedules s WHERE s.schedule_id = ?`

	sqlCountInFlight = `SELECT (SELECT count(*) FROM open_runs INDEXED BY open_runs_overlap
  WHERE overlap_key = ?1 AND state IN (2, 3, 4) AND NOT exclusive_flight AND state >= 3)
 + (SELECT count(*) FROM open_runs INDEXED BY open_runs_one_in_flight WHERE overlap_key = ?1 AND exclusive_flight)`

	sqlOverlapKeys = `SELECT DISTINCT s.user_id || '/' || s.overlap_key FROM schedules s INDEXED BY schedules_coalesce
 WHERE s.overlap_policy = 'coalesce' AND s.deleted_at IS NULL AND s.user_id || '/' || s.overlap_key > ?2 AND (?1 = '' OR s.user_id = ?1)
 ORDER BY 1 LIMIT ?3`

	sqlDropPlanned = `DELETE FROM open_runs WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?)) AND +state IN (1, 2)`

	eventColumns   = `event_id, schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision`
	sqlInsertEvent = `INSERT INTO schedule_events (schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlListEvents    = `SELECT ` + eventColumns + ` FROM schedule_events WHERE schedule_id = ? AND event_id < ? ORDER BY event_id DESC LIMIT ?`
	sqlListRevisions = `SELECT schedule_id, revision, definition, changed_by, created_at FROM schedule_revisions
 WHERE schedule_id = ? AND revision < ? ORDER BY revision DESC LIMIT ?`
)

var sqlPlannedOf = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_schedule` + ofOpen + `
 WHERE o.sid = ` + sidOfFirst + ` AND o.state IN (1, 2)`

// ListSchedules puts its filters between these two.
const (
	sqlListSchedules      = `SELECT ` + scheduleColumns + ` FROM schedules s WHERE s.deleted_at IS NULL AND s.schedule_id > ?`
	sqlListSchedulesOrder = ` ORDER BY s.schedule_id LIMIT ?`

	sqlWhereUser      = ` AND s.user_id = ?`
	sqlWhereWorkflow  = ` AND s.workflow_id = ?`
	sqlWhereManagedBy = ` AND s.managed_by = ?`
	// sqlNotOfQueue leaves out the schedules that queues make (schedule.ManagedByQueue).
	sqlNotOfQueue = ` AND (s.managed_by IS NULL OR s.managed_by NOT GLOB 'queue:*')`
	sqlWhereGrant = ` AND s.execution_grant_id = ?`
	sqlWhereText  = ` AND (instr(lower(concat_ws(char(10), s.schedule_id, s.workflow_id, s.user_id, s.cron_expr, s.timezone, s.managed_by)), ?)
  OR EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(s.labels) THEN s.labels ELSE '{}' END) l WHERE instr(lower(l.key || '=' || l.value), ?)))`
	// A row whose labels cannot be read has none.
	sqlWhereLabel      = ` AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(s.labels) THEN s.labels ELSE '{}' END) l WHERE l.key = ?)`
	sqlWhereLabelValue = ` AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(s.labels) THEN s.labels ELSE '{}' END) l WHERE l.key = ? AND l.value = ?)`
	sqlWherePaused     = ` AND s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)`
	sqlWhereExhausted  = ` AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)) AND s.next_run_at IS NULL AND s.backlog_from IS NULL`
	sqlWhereActive     = ` AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)) AND (s.next_run_at IS NOT NULL OR s.backlog_from IS NOT NULL)`
)

// ListUpcoming. A slot later than now is a PLANNED row, or, at or behind its
// schedule's cursor, none yet. plan_at is never later than the cursor: it says,
// in an index, which schedules may have a slot before an instant.
const (
	// Arguments: now, and the instant that the next slots are before.
	sqlNextSlots = `WITH next(schedule_id, at) AS MATERIALIZED (
  SELECT schedule_id, min(at) FROM (
   SELECT s.schedule_id, planned.at FROM (SELECT sid, min(run_at) AS at FROM open_runs INDEXED BY open_runs_due
     WHERE state = 1 AND trigger = 1 AND run_at > ? AND run_at < ? GROUP BY sid) planned
    CROSS JOIN schedules s ON s.sid = planned.sid
   UNION ALL
   SELECT s.schedule_id, max(s.next_run_at, ?) FROM schedules s INDEXED BY schedules_plan_at
    WHERE s.plan_at IS NOT NULL AND s.plan_at < ? AND s.next_run_at < ?)
  GROUP BY schedule_id)`
	sqlListUpcoming = `, page(id, at) AS MATERIALIZED (SELECT s.schedule_id, next.at FROM next CROSS JOIN schedules s ON s.schedule_id = next.schedule_id
  WHERE s.deleted_at IS NULL`
	sqlListUpcomingOrder = ` ORDER BY next.at, s.schedule_id LIMIT ?)
 SELECT page.at, ` + scheduleColumns + ` FROM page CROSS JOIN schedules s ON s.schedule_id = page.id ORDER BY page.at, page.id`
	sqlWhereAfterNext = ` AND (next.at, s.schedule_id) > (?, ?)`
	// CountFleet counts those by their cursors, then those by their planned rows alone.
	sqlCountCursors = `SELECT count(*), COALESCE(sum(s.next_run_at <= ?), 0) FROM schedules s INDEXED BY schedules_plan_at
 WHERE s.plan_at IS NOT NULL AND s.plan_at < ? AND s.next_run_at < ? AND s.deleted_at IS NULL`
	sqlCountPlanned = `SELECT count(DISTINCT s.schedule_id) FROM open_runs r INDEXED BY open_runs_due CROSS JOIN schedules s ON s.sid = r.sid
 WHERE r.state = 1 AND r.trigger = 1 AND r.run_at > ? AND r.run_at < ?
  AND (s.next_run_at IS NULL OR s.next_run_at >= ?) AND s.deleted_at IS NULL`
	sqlCountSchedules = `SELECT count(*) FROM schedules s WHERE s.deleted_at IS NULL`
)
