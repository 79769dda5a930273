package sqlite

// Prune deletes a limited number of rows at a time, the oldest first. A row is
// deleted once nothing needs it: a request after its run and its call have ended, a
// tombstone after its last run.
const (
	// sqlPruneLastRuns runs before sqlPruneRuns: if the newest launched run of a schedule
	// is deleted, the schedule keeps its run_at.
	sqlPruneLastRuns = `UPDATE schedules SET last_run_at = newest.run_at
 FROM (SELECT r.sid, max(r.run_at) AS run_at FROM ended_runs r WHERE r.rowid IN (` + prunable + `)
  AND r.launched_at IS NOT NULL GROUP BY r.sid) newest
 WHERE schedules.sid = newest.sid AND (schedules.last_run_at IS NULL OR schedules.last_run_at < newest.run_at)
  AND NOT EXISTS (SELECT 1 FROM open_runs n INDEXED BY open_runs_schedule WHERE n.sid = newest.sid AND n.run_at > newest.run_at AND n.launched_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM ended_runs n INDEXED BY ended_runs_schedule WHERE n.sid = newest.sid AND n.run_at > newest.run_at AND n.launched_at IS NOT NULL)`
	sqlPruneRuns   = `DELETE FROM ended_runs WHERE rowid IN (` + prunable + `)`
	prunable       = `SELECT rowid FROM ended_runs INDEXED BY ended_runs_recorded WHERE recorded_at < ?1 ORDER BY recorded_at, sid, rowid LIMIT ?2`
	sqlPruneEvents = `DELETE FROM schedule_events WHERE event_id IN (SELECT event_id FROM schedule_events
 WHERE time < ? ORDER BY time LIMIT ?)`
	sqlPruneRequests = `DELETE FROM execution_requests WHERE rowid IN (SELECT q.rowid FROM execution_requests q
 WHERE q.created_at < ?1 AND (q.lease_until IS NULL OR q.lease_until < ?1)
 ORDER BY q.created_at LIMIT ?2)`
	sqlPruneDeploys    = `DELETE FROM deploys WHERE rowid IN (SELECT rowid FROM deploys WHERE applied_at < ? ORDER BY applied_at LIMIT ?)`
	sqlPruneTombstones = `SELECT s.schedule_id FROM schedules s WHERE s.deleted_at < ? AND ` + nothingOf + ` ORDER BY s.schedule_id LIMIT ?`
	// sqlUnusedTemplates are those that nobody has used for as long as retention.
	sqlUnusedTemplates = `SELECT s.schedule_id FROM schedules s INDEXED BY schedules_templates
 WHERE s.updated_at < ? AND s.deleted_at IS NULL AND s.managed_by GLOB 'queue:*' AND ` + nothingOf + ` ORDER BY s.updated_at LIMIT ?`
	// nothingOf: no run, no event and no group that may still make a run names the schedule s.
	nothingOf = `NOT EXISTS (SELECT 1 FROM open_runs o INDEXED BY open_runs_schedule WHERE o.sid = s.sid)
 AND NOT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_schedule WHERE e.sid = s.sid)
 AND NOT EXISTS (SELECT 1 FROM schedule_events e WHERE e.schedule_id = s.schedule_id)
 AND s.schedule_id NOT IN (SELECT g.on_complete ->> 'schedule_id' FROM queue_groups g WHERE g.state = 'RUNNING' AND g.on_complete IS NOT NULL)`
	sqlPruneRevisions = `DELETE FROM schedule_revisions WHERE schedule_id IN (SELECT value FROM json_each(?))`
	sqlPruneSchedules = `DELETE FROM schedules WHERE schedule_id IN (SELECT value FROM json_each(?))`
)
