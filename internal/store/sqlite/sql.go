package sqlite

// One constant per statement, named after the method that runs it. Arguments
// are numbered where a statement uses one twice, and bound in order elsewhere.
// Lists come as one JSON array (json_each), keys in it as hex (unhex).
//
// Hot statements say INDEXED BY: SQLite knows nothing of how the rows are
// spread, and would rather read a history than the few rows that are due.

// inFlight is how the schema says it in its partial indexes, word by word:
// SQLite uses one only for a condition that it can recognise.
const inFlight = `(status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED')`

const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`

	sqlWaitShort = `PRAGMA busy_timeout = 50`
	sqlWaitLong  = `PRAGMA busy_timeout = 5000`

	sqlPing       = `SELECT count(*) FROM sqlite_schema`
	sqlHasWorkers = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'workers'`
	sqlLastSeen   = `SELECT max(seen_at) FROM workers`

	sqlHeartbeatLower = `UPDATE workers SET seen_at = ?1 WHERE seen_at > ?1`
	sqlHeartbeat      = `INSERT INTO workers (worker_id, started_at, seen_at) VALUES (?, ?, ?)
 ON CONFLICT (worker_id) DO UPDATE SET started_at = excluded.started_at, seen_at = excluded.seen_at`
)

// Leaders. Fence comes first in every transaction that names a term.
const (
	sqlFence = `SELECT count(*) FROM leaders WHERE shard = ? AND holder = ? AND epoch = ?`

	sqlTakeover = `INSERT INTO leaders (shard, holder, epoch, expires_at) VALUES (?1, ?2, 1, ?3)
 ON CONFLICT (shard) DO UPDATE SET holder = excluded.holder, epoch = leaders.epoch + 1, expires_at = excluded.expires_at
 WHERE ?4 OR leaders.expires_at <= ?5`
	sqlRenew  = `UPDATE leaders SET expires_at = ? WHERE shard = ? AND holder = ? AND epoch = ? AND expires_at > ?`
	sqlResign = `UPDATE leaders SET expires_at = min(expires_at, ?) WHERE shard = ? AND holder = ? AND epoch = ?`
	sqlLeader = `SELECT holder, epoch, expires_at FROM leaders WHERE shard = ?`
)

// Schedules.
const (
	sqlUpsertSchedule = `INSERT INTO schedules (schedule_id, workflow_id, version, user_id, cron_expr, interval_ms, once_at,
 timezone, start_at, end_at, dst, jitter_ms, overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms,
 run_timeout_ms, priority, input, execution_grant_id, labels, managed_by,
 revision, revised_at, next_run_at, plan_at, backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
 paused, pause_note, paused_by, paused_until, shard, last_run_at, created_at, updated_at, deleted_at)
 VALUES (?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?)
 ON CONFLICT (schedule_id) DO UPDATE SET workflow_id = excluded.workflow_id, version = excluded.version,
 user_id = excluded.user_id, cron_expr = excluded.cron_expr, interval_ms = excluded.interval_ms, once_at = excluded.once_at,
 timezone = excluded.timezone, start_at = excluded.start_at, end_at = excluded.end_at, dst = excluded.dst,
 jitter_ms = excluded.jitter_ms, overlap_policy = excluded.overlap_policy, overlap_key = excluded.overlap_key,
 max_queued = excluded.max_queued, catchup_policy = excluded.catchup_policy, catchup_window_ms = excluded.catchup_window_ms,
 run_timeout_ms = excluded.run_timeout_ms, priority = excluded.priority, input = excluded.input,
 execution_grant_id = excluded.execution_grant_id, labels = excluded.labels, managed_by = excluded.managed_by,
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

	sqlSchedules   = `SELECT ` + scheduleColumns + ` FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`
	sqlGetSchedule = `SELECT ` + scheduleColumns + ` FROM schedules s WHERE s.schedule_id = ?`

	sqlCountInFlight = `SELECT count(*) FROM schedule_runs INDEXED BY schedule_runs_in_flight
 WHERE overlap_key = ? AND ` + inFlight

	sqlDropPlanned = `DELETE FROM schedule_runs INDEXED BY schedule_runs_planned
 WHERE schedule_id = ? AND run_at > ? AND status = 'PLANNED' AND trigger IN ('schedule','catchup')`
	sqlEndDue = `UPDATE schedule_runs INDEXED BY schedule_runs_planned SET status = ?1, reason = ?2, waiting_since = NULL, completed_at = ?3, updated_at = ?3
 WHERE schedule_id = ?4 AND status = 'PLANNED' AND (?5 OR trigger IN ('schedule','catchup'))`

	sqlInsertEvent = `INSERT INTO schedule_events (schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlListEvents    = `SELECT ` + eventColumns + ` FROM schedule_events WHERE schedule_id = ? AND event_id < ? ORDER BY event_id DESC LIMIT ?`
	sqlListRevisions = `SELECT schedule_id, revision, definition, changed_by, created_at FROM schedule_revisions
 WHERE schedule_id = ? AND revision < ? ORDER BY revision DESC LIMIT ?`
)

// ListSchedules puts its filters between these two.
const (
	sqlListSchedules      = `SELECT ` + scheduleColumns + ` FROM schedules s WHERE s.deleted_at IS NULL AND s.schedule_id > ?`
	sqlListSchedulesOrder = ` ORDER BY s.schedule_id LIMIT ?`

	sqlWhereUser      = ` AND s.user_id = ?`
	sqlWhereWorkflow  = ` AND s.workflow_id = ?`
	sqlWhereManagedBy = ` AND s.managed_by = ?`
	// A row whose labels cannot be read has none.
	sqlWhereLabel      = ` AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(s.labels) THEN s.labels ELSE '{}' END) l WHERE l.key = ?)`
	sqlWhereLabelValue = ` AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(s.labels) THEN s.labels ELSE '{}' END) l WHERE l.key = ? AND l.value = ?)`
	sqlWherePaused     = ` AND s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)`
	sqlWhereExhausted  = ` AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)) AND s.next_run_at IS NULL AND s.backlog_from IS NULL`
	sqlWhereActive     = ` AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > ?)) AND (s.next_run_at IS NOT NULL OR s.backlog_from IS NOT NULL)`
)

// Plan.
const (
	// By schedules_plan_at, in its order: what is not due costs nothing.
	sqlPlanDue = `SELECT ` + scheduleColumns + ` FROM schedules s
 WHERE s.plan_at <= ?1 AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?2)
 ORDER BY s.plan_at, s.schedule_id LIMIT ?3`

	// Schedules that are not due to be planned, but have rows that nobody judged
	// in time. One that is in quarantine waits for its own turn.
	sqlPlanLate = `SELECT ` + scheduleColumns + ` FROM (
  SELECT r.schedule_id, min(r.run_at) AS oldest FROM schedule_runs r INDEXED BY schedule_runs_due
   WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at < ?3
     AND r.trigger = 'schedule' AND r.judged_at IS NULL AND r.run_at < ?3
   GROUP BY r.schedule_id) late
 CROSS JOIN schedules s ON s.schedule_id = late.schedule_id
 WHERE (s.plan_at IS NULL OR s.plan_at > ?1) AND s.plan_failures = 0
   AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?2)
 ORDER BY late.oldest, s.schedule_id LIMIT ?4`

	// By schedule_runs_due: the few rows of all schedules that are late. Later
	// than the grace means that both fire_at and run_at are.
	sqlPlanLateRuns = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_due` + ofRevision + `
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at < ?1
   AND r.trigger = 'schedule' AND r.judged_at IS NULL AND r.run_at < ?1
   AND r.schedule_id IN (SELECT value FROM json_each(?2))
 ORDER BY r.run_at, r.idempotency_key`

	// 1,000 rows in about 25 ms. One multi-row statement from a JSON array was
	// no faster, as SQLite then spends the time in its JSON functions.
	sqlInsertRun = `INSERT INTO schedule_runs (idempotency_key, schedule_id, revision, run_at, fire_at, status, reason, trigger,
 overlap_key, overlap_policy, exclusive, max_queued, waiting_since, judged_at, attempt, retry_of, input, priority, trace_id,
 created_at, updated_at) VALUES (?, ?, ?, ?, ?, 'PLANNED', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (idempotency_key) DO NOTHING`

	// The write lock makes the compare-and-set on revision and cursor: what the
	// candidate was read as still stands.
	sqlPlanSchedule = `UPDATE schedules SET next_run_at = ?, plan_at = ?, backlog_from = ?, backlog_until = ?,
 backlog_revision = ?, backlog_at = ?, plan_failures = 0 WHERE schedule_id = ?`
	sqlPlanFailed   = `UPDATE schedules SET plan_at = ?, plan_failures = ? WHERE schedule_id = ?`
	sqlPlanEndPause = `UPDATE schedules SET paused = 0, pause_note = NULL, paused_by = NULL, paused_until = NULL WHERE schedule_id = ?`

	sqlJudgeFire = `UPDATE schedule_runs SET fire_at = COALESCE(?1, fire_at), trigger = COALESCE(?2, trigger), judged_at = ?3,
 updated_at = ?3 WHERE idempotency_key = ?4 AND schedule_id = ?5 AND status = 'PLANNED'`
	sqlJudgeSkip = `UPDATE schedule_runs SET status = 'SKIPPED', reason = ?1, judged_at = ?2, completed_at = ?2, updated_at = ?2
 WHERE idempotency_key = ?3 AND schedule_id = ?4 AND status = 'PLANNED'`
)

// Prune deletes so many at a time. A row goes once nothing needs it: a request
// after its run has ended, a tombstone after its last run.
const (
	sqlPruneRuns = `DELETE FROM schedule_runs WHERE rowid IN (SELECT rowid FROM schedule_runs
 WHERE updated_at < ? AND status IN ('SUCCESS','FAILED','SKIPPED','CANCELLED') ORDER BY updated_at LIMIT ?)`
	sqlPruneEvents = `DELETE FROM schedule_events WHERE event_id IN (SELECT event_id FROM schedule_events
 WHERE time < ? ORDER BY time LIMIT ?)`
	sqlPruneRequests = `DELETE FROM execution_requests WHERE rowid IN (SELECT q.rowid FROM execution_requests q
 WHERE q.created_at < ? AND q.state = 'DONE' AND NOT EXISTS (SELECT 1 FROM schedule_runs r
  WHERE r.idempotency_key = q.idempotency_key AND (status = 'PLANNED' OR ` + inFlight + `))
 ORDER BY q.created_at LIMIT ?)`
	sqlPruneTombstones = `SELECT s.schedule_id FROM schedules s WHERE s.deleted_at < ?
 AND NOT EXISTS (SELECT 1 FROM schedule_runs r WHERE r.schedule_id = s.schedule_id) ORDER BY s.schedule_id LIMIT ?`
	sqlPruneRevisions = `DELETE FROM schedule_revisions WHERE schedule_id IN (SELECT value FROM json_each(?))`
	sqlPruneSchedules = `DELETE FROM schedules WHERE schedule_id IN (SELECT value FROM json_each(?))`
)
