package sqlite

// Runs.
const (
	sqlLaunchAttempts = `SELECT attempt_log FROM schedule_runs WHERE idempotency_key = ?`
	sqlGetOpenRun     = `SELECT ` + openRunColumns + ` FROM open_runs o` + ofOpen + ` WHERE o.idempotency_key = ?`
	sqlGetEndedRun    = `SELECT ` + endedRunColumns + ` FROM ended_runs e INDEXED BY ended_runs_key` + ofEnded + ` WHERE e.idempotency_key = ?`
	sqlAskCancel      = `UPDATE open_runs SET cancel_requested_at = ?1, cancel_reason = ?2, updated_at = ?1,
 due_at = CASE state WHEN 3 THEN min(due_at, ?1) ELSE due_at END
 WHERE idempotency_key = ?3 AND cancel_requested_at IS NULL AND state IN (1, 2, 3)`

	// recorded_at stays: the run has not changed for those who watch.
	sqlNoteLateReport = `UPDATE ended_runs INDEXED BY ended_runs_key SET late_reports = COALESCE(late_reports, 0) | ?1
 WHERE idempotency_key = ?2 AND COALESCE(late_reports, 0) & ?1 = 0`
	// sqlNoteEarlyReport is the same of a run that is not in flight yet.
	sqlNoteEarlyReport = `UPDATE open_runs SET late_reports = COALESCE(late_reports, 0) | ?1
 WHERE idempotency_key = ?2 AND COALESCE(late_reports, 0) & ?1 = 0 AND state IN (1, 2)`

	// ListRuns puts its filters and an order behind one of these, each with the
	// index of its source. IS keeps the revision outside of it.
	sqlListRuns            = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_run_at` + ofRevision + ` WHERE 1`
	sqlListRunsKeys        = `SELECT ` + runColumns + ` FROM schedule_runs r` + ofRevision + ` WHERE r.idempotency_key >= ? AND r.idempotency_key <= ?`
	sqlListRunsRunID       = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_run_id` + ofRevision + ` WHERE r.run_id = ?`
	sqlListRunsSchedule    = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_history` + ofRevision + ` WHERE r.schedule_id = ?`
	sqlListRunsUnscheduled = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_unscheduled` + ofRevision + ` WHERE r.trigger <> 'schedule'`
	sqlListRunsEnded       = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_ended` + ofRevision + ` WHERE ` + ended
	sqlListRunsUpdated     = `SELECT ` + runColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_updated` + ofRevision + `
 WHERE (r.updated_at, r.idempotency_key) > (?, ?)`

	// These find their rows by several indexes first.
	ofRows = `
 SELECT ` + runColumns + ` FROM found CROSS JOIN schedule_runs r ON r.rowid = found.id` + ofRevision + ` WHERE 1`
	sqlListRunsTraceID = `WITH found(id) AS (
  SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_trace_id WHERE trace_id = ?
  UNION SELECT rowid FROM schedule_runs WHERE idempotency_key >= ? AND idempotency_key <= ?)` + ofRows
	flying = `SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_one_in_flight WHERE exclusive AND ` + inFlight + `
  UNION ALL SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_in_flight WHERE NOT exclusive AND ` + inFlight
	sqlListRunsDue = `WITH found(id) AS (
  SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_due WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at < ?1
  UNION ALL SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_launching WHERE status = 'LAUNCHING' AND fire_at < ?1)` + ofRows
	sqlListRunsInFlight   = `WITH found(id) AS (` + flying + `)` + ofRows
	sqlListRunsUnfinished = `WITH found(id) AS (` + flying + `
  UNION ALL SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_due WHERE status = 'PLANNED' AND waiting_since IS NULL
  UNION ALL SELECT rowid FROM schedule_runs INDEXED BY schedule_runs_waiting WHERE status = 'PLANNED' AND waiting_since IS NOT NULL)` + ofRows
	// The histories of an owner's or a workflow's schedules: short ones, see
	// schedule.RecentRuns.
	sqlListRunsUser     = `WITH found(id) AS MATERIALIZED (SELECT DISTINCT schedule_id FROM schedule_revisions WHERE user_id = ?)` + ofFound
	sqlListRunsWorkflow = `WITH found(id) AS MATERIALIZED (SELECT DISTINCT schedule_id FROM schedule_revisions WHERE workflow_id = ?)` + ofFound
	ofFound             = `
 SELECT ` + runColumns + ` FROM found CROSS JOIN schedule_runs r INDEXED BY schedule_runs_history ON r.schedule_id = found.id` + ofRevision + ` WHERE 1`

	// The newest rows of a source; sqlRunsNewest closes each.
	sqlRecentRuns            = `WITH found(id) AS MATERIALIZED (SELECT r.rowid FROM schedule_runs r INDEXED BY schedule_runs_run_at WHERE 1`
	sqlRecentRunsEnded       = `WITH found(id) AS MATERIALIZED (SELECT r.rowid FROM schedule_runs r INDEXED BY schedule_runs_ended WHERE ` + ended
	sqlRecentRunsUnscheduled = `WITH found(id) AS MATERIALIZED (SELECT r.rowid FROM schedule_runs r INDEXED BY schedule_runs_unscheduled WHERE r.trigger <> 'schedule'`

	sqlRunsSchedule     = ` AND r.schedule_id = ?`
	sqlRunsUser         = ` AND v.user_id IS ?`
	sqlRunsWorkflow     = ` AND v.workflow_id IS ?`
	sqlRunsStatuses     = ` AND r.status IN (SELECT value FROM json_each(?))`
	sqlRunsReason       = ` AND r.reason = ?`
	sqlRunsTrigger      = ` AND r.trigger = ?`
	sqlRunsRunID        = ` AND r.run_id = ?`
	sqlRunsTraceID      = ` AND (r.trace_id = ? OR r.idempotency_key >= ? AND r.idempotency_key <= ?)`
	sqlRunsKeys         = ` AND r.idempotency_key >= ? AND r.idempotency_key <= ?`
	sqlRunsDue          = ` AND r.fire_at < ? AND (r.status = 'LAUNCHING' OR r.status = 'PLANNED' AND r.waiting_since IS NULL)`
	sqlRunsFrom         = ` AND r.run_at >= ?`
	sqlRunsTo           = ` AND r.run_at < ?`
	sqlRunsNotAhead     = ` AND NOT (r.status = 'PLANNED' AND r.run_at > ?)`
	sqlRunsBefore       = ` AND (r.run_at, r.idempotency_key) < (?, ?)`
	sqlRunsBehind       = ` AND (r.run_at, r.idempotency_key) > (?, ?)`
	sqlRunsOrder        = ` ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT ?`
	sqlRunsAscending    = ` ORDER BY r.run_at, r.idempotency_key LIMIT ?`
	sqlRunsUpdatedOrder = ` ORDER BY r.updated_at, r.idempotency_key LIMIT ?`
)

// CountFleet. SQLite leaves the revision out where no owner is asked for.
const (
	sqlCountFlyingExclusive = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_one_in_flight` + ofRevision + ` WHERE r.exclusive AND ` + inFlight
	sqlCountFlying          = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_in_flight` + ofRevision + ` WHERE NOT r.exclusive AND ` + inFlight
	sqlCountWaiting         = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_waiting` + ofRevision + ` WHERE r.status = 'PLANNED' AND r.waiting_since IS NOT NULL`
	sqlCountDue             = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_due` + ofRevision + ` WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at < ?`
	sqlCountLaunching       = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_launching` + ofRevision + ` WHERE r.status = 'LAUNCHING' AND r.fire_at < ?`
	sqlCountFailed          = `SELECT count(*) FROM schedule_runs r INDEXED BY schedule_runs_ended` + ofRevision + ` WHERE ` + ended + ` AND r.status = 'FAILED' AND r.run_at >= ?`
)
