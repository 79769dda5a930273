package sqlite

// A list merges the rows of open_runs and ended_runs. It finds the rows of its page
// first, each table with the page's limit, and then reads their columns: a sorted
// view would be read as a whole. Conditions compare codes.

// Sources: where the runs of a list come from, as r. A list adds its conditions.
const (
	endedOfAll     = ` FROM ended_runs r INDEXED BY ended_runs_slot WHERE 1`
	endedOfKeys    = ` FROM ended_runs r INDEXED BY ended_runs_key WHERE r.idempotency_key >= ? AND r.idempotency_key <= ?`
	endedOfRunID   = ` FROM ended_runs r INDEXED BY ended_runs_run_id WHERE r.run_id = ?`
	endedOfTraceID = ` FROM ended_runs r WHERE r.rowid IN (
   SELECT rowid FROM ended_runs INDEXED BY ended_runs_trace_id WHERE trace_id = ?
   UNION SELECT rowid FROM ended_runs INDEXED BY ended_runs_key WHERE idempotency_key >= ? AND idempotency_key <= ?)`
	endedOfGroup       = ` FROM ended_runs r INDEXED BY ended_runs_group WHERE r.group_no = ?`
	endedOfDead        = ` FROM ended_runs r INDEXED BY ended_runs_dead WHERE r.dead`
	endedOfSchedule    = ` FROM ended_runs r INDEXED BY ended_runs_schedule WHERE r.sid = ` + sidOf
	endedOfUnscheduled = ` FROM ended_runs r INDEXED BY ended_runs_unscheduled WHERE r.trigger <> 1`
	endedOfNotSuccess  = ` FROM ended_runs r INDEXED BY ended_runs_not_success WHERE r.status <> 5`
	endedOfUpdated     = ` FROM ended_runs r INDEXED BY ended_runs_recorded WHERE r.recorded_at >= ?`

	// open_runs has no index by run_at: a list sorts the rows that it finds, and keeps
	// as many as the page has.
	openOfAll     = ` FROM open_runs r WHERE 1`
	openOfKeys    = ` FROM open_runs r WHERE r.idempotency_key >= ? AND r.idempotency_key <= ?`
	openOfRunID   = ` FROM open_runs r INDEXED BY open_runs_run_id WHERE r.run_id = ?`
	openOfTraceID = ` FROM open_runs r WHERE r.rowid IN (
   SELECT rowid FROM open_runs INDEXED BY open_runs_trace_id WHERE trace_id = ?
   UNION SELECT rowid FROM open_runs WHERE idempotency_key >= ? AND idempotency_key <= ?)`
	openOfSchedule = ` FROM open_runs r INDEXED BY open_runs_schedule WHERE r.sid = ` + sidOf
	openOfGroup    = ` FROM open_runs r INDEXED BY open_runs_group WHERE r.group_no = ?`
	openOfDue      = ` FROM open_runs r WHERE r.rowid IN (
   SELECT rowid FROM open_runs INDEXED BY open_runs_due WHERE state = 1 AND due_at < ?
   UNION ALL SELECT rowid FROM open_runs INDEXED BY open_runs_due WHERE state = 3)`
	// States 4 and 5: those of dispatch queues, also waiting ones.
	openOfInFlight = ` FROM open_runs r INDEXED BY open_runs_due WHERE r.state IN (3, 4, 5)`
	openOfUpdated  = ` FROM open_runs r WHERE r.updated_at >= ?`

	sidOf = `(SELECT sid FROM schedules WHERE schedule_id = ?)`

	// The histories of the schedules of an owner or a workflow: short ones, see
	// schedule.RecentRuns.
	ofUser       = `(SELECT h.sid FROM schedules h WHERE h.schedule_id IN (SELECT schedule_id FROM schedule_revisions WHERE user_id = ?)) h CROSS JOIN `
	ofWorkflow   = `(SELECT h.sid FROM schedules h WHERE h.schedule_id IN (SELECT schedule_id FROM schedule_revisions WHERE workflow_id = ?)) h CROSS JOIN `
	endedOfOwned = `ended_runs r INDEXED BY ended_runs_schedule ON r.sid = h.sid WHERE 1`
	openOfOwned  = `open_runs r INDEXED BY open_runs_schedule ON r.sid = h.sid WHERE 1`

	// The newest runs of a source, and the list then takes those of an owner.
	endedOfRecent = ` FROM recent CROSS JOIN ended_runs r ON r.rowid = recent.id WHERE recent.ended`
	openOfRecent  = ` FROM recent CROSS JOIN open_runs r ON r.rowid = recent.id WHERE NOT recent.ended`
)

// Conditions. The owner is a scalar subquery: SQLite would begin a join with it.
const (
	runsSchedule     = ` AND r.sid = ` + sidOf
	runsUser         = ` AND (SELECT v.user_id` + revisionOfRun + `) = ?`
	runsWorkflow     = ` AND (SELECT v.workflow_id` + revisionOfRun + `) = ?`
	runsStatuses     = ` AND r.status IN (SELECT value FROM json_each(?))`
	runsReason       = ` AND r.reason = ?`
	runsDead         = ` AND r.dead`
	runsErrorCode    = ` AND r.error_code = ?`
	runsClass        = ` AND r.failure_class = ?`
	runsAnyOf        = ` AND r.idempotency_key IN (SELECT unhex(value) FROM json_each(?))`
	runsTrigger      = ` AND r.trigger = ?`
	runsQueue        = ` AND r.queue_no = ?`
	runsGroup        = ` AND r.group_no = ?`
	runsRunID        = ` AND r.run_id = ?`
	runsTraceID      = ` AND (r.trace_id = ? OR r.idempotency_key >= ? AND r.idempotency_key <= ?)`
	runsKeys         = ` AND r.idempotency_key >= ? AND r.idempotency_key <= ?`
	runsDue          = ` AND r.fire_at < ? AND (r.status = 2 OR r.state = 1)`
	runsFrom         = ` AND r.run_at >= ?`
	runsTo           = ` AND r.run_at < ?`
	runsNewest       = ` AND r.run_at <= ? AND (r.run_at, r.idempotency_key) < (?, ?)`
	runsOldest       = ` AND r.run_at >= ? AND (r.run_at, r.idempotency_key) > (?, ?)`
	runsEndedUpdated = ` AND (r.recorded_at, r.idempotency_key) > (?, ?)`
	runsOpenUpdated  = ` AND (r.updated_at, r.idempotency_key) > (?, ?)`

	revisionOfRun = ` FROM schedules s CROSS JOIN schedule_revisions v ON v.schedule_id = s.schedule_id WHERE s.sid = r.sid AND v.revision = r.revision`

	// Planned slots later than now are left out. The index has run_at: open_runs may
	// hold many planned slots, and their rows are not read.
	runsNotAhead = ` AND r.rowid IN (SELECT rowid FROM open_runs INDEXED BY open_runs_due WHERE state > 1
   UNION ALL SELECT rowid FROM open_runs INDEXED BY open_runs_schedule WHERE run_at <= ?)`
	// The same for sources with few runs.
	runsNoneAhead = ` AND (r.state > 1 OR r.run_at <= ?)`
)

// The parts of a list around its sources and conditions, by its order.
const (
	foundEndedAt      = `1 AS ended, r.rowid AS id, r.run_at AS at, r.idempotency_key AS key`
	foundOpenAt       = `0 AS ended, r.rowid AS id, r.run_at AS at, r.idempotency_key AS key`
	foundEndedUpdated = `1 AS ended, r.rowid AS id, r.recorded_at AS at, r.idempotency_key AS key`
	foundOpenUpdated  = `0 AS ended, r.rowid AS id, r.updated_at AS at, r.idempotency_key AS key`

	endedNewest  = ` ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT ?`
	endedOldest  = ` ORDER BY r.run_at, r.idempotency_key LIMIT ?`
	endedUpdated = ` ORDER BY r.recorded_at, r.idempotency_key LIMIT ?`
	openUpdated  = ` ORDER BY r.updated_at, r.idempotency_key LIMIT ?`

	foundNewest = ` ORDER BY at DESC, key DESC LIMIT ?`
	foundOldest = ` ORDER BY at, key LIMIT ?`

	pageNewest  = ` ORDER BY o.run_at DESC, o.idempotency_key DESC`
	pageOldest  = ` ORDER BY o.run_at, o.idempotency_key`
	pageUpdated = ` ORDER BY o.updated_at, o.idempotency_key`
)

// The columns of the runs that were found.
var runsOfPage = ` SELECT ` + openRunColumns + ` FROM page CROSS JOIN open_runs o ON o.rowid = page.id` + ofOpen + ` WHERE NOT page.ended
 UNION ALL SELECT ` + endedRunColumns + ` FROM page CROSS JOIN ended_runs e ON e.rowid = page.id` + ofEnded + ` WHERE page.ended`

// CountFleet.
const (
	sqlCountFlying    = `SELECT count(*) FROM open_runs r INDEXED BY open_runs_due WHERE r.state = 3`
	sqlCountWaiting   = `SELECT count(*) FROM open_runs r INDEXED BY open_runs_due WHERE r.state = 2`
	sqlCountDue       = `SELECT count(*) FROM open_runs r INDEXED BY open_runs_due WHERE r.state = 1 AND r.due_at < ?`
	sqlCountLaunching = `SELECT count(*) FROM open_runs r INDEXED BY open_runs_due WHERE r.state = 3 AND r.status = 2 AND r.fire_at < ?`
	sqlCountFailed    = `SELECT count(*) FROM ended_runs r INDEXED BY ended_runs_not_success WHERE r.status <> 5 AND r.status = 6 AND r.run_at >= ?`
)
