package postgres

// Prune: each statement deletes one portion, oldest first. ARRAY keeps the outer
// part to an index; for IN a generic plan reads the whole table.

// Runs are deleted one by one only from the first and the last partition, before $3 and
// not before $4. The others are dropped as a whole.
const (
	sqlPruneRuns = `SELECT carillon_prune_history($1, $2, $3, $4)`

	// sqlPruneLastRuns runs before it, for the same runs: if the newest launched run of a schedule is
	// deleted, the schedule keeps its instant.
	sqlPruneLastRuns = `
UPDATE schedules s SET last_run_at = l.run_at
FROM (SELECT r.sid, max(r.run_at) AS run_at FROM ended_runs r
	WHERE r.idempotency_key = ANY(` + prunable + `) AND ` + singly + ` AND r.launched_at IS NOT NULL
	GROUP BY r.sid ORDER BY r.sid) l
WHERE s.sid = l.sid AND ` + launchedLast

	prunable = `ARRAY(
	SELECT r.idempotency_key FROM ended_runs r WHERE r.recorded_at < $1 AND ` + singly + `
	ORDER BY r.recorded_at, r.idempotency_key LIMIT $2)`

	singly = `(r.run_at < $3::timestamptz OR r.run_at >= $4::timestamptz)`

	// launchedLast: l is the newest run of s that was launched.
	launchedLast = `(s.last_run_at IS NULL OR s.last_run_at < l.run_at)
	AND (SELECT true FROM open_runs n WHERE n.sid = l.sid AND n.run_at > l.run_at AND n.launched_at IS NOT NULL LIMIT 1) IS NULL
	AND (SELECT true FROM ended_runs n WHERE n.sid = l.sid AND n.run_at > l.run_at AND n.launched_at IS NOT NULL LIMIT 1) IS NULL`
)

const sqlPruneEvents = `
DELETE FROM schedule_events WHERE event_id = ANY(ARRAY(
	SELECT event_id FROM schedule_events WHERE time < $1 ORDER BY time LIMIT $2))`

// The record of a key stays while a call of it is open.
const sqlPruneRequests = `
DELETE FROM execution_requests WHERE idempotency_key = ANY(ARRAY(
	SELECT e.idempotency_key FROM execution_requests e
	WHERE e.created_at < $1 AND (e.lease_until IS NULL OR e.lease_until < $1)
	ORDER BY e.created_at LIMIT $2))`

const sqlPruneDeploys = `
DELETE FROM deploys WHERE (managed_by, user_id, request_id) IN (
	SELECT managed_by, user_id, request_id FROM deploys WHERE applied_at < $1 ORDER BY applied_at LIMIT $2)`

// A tombstone stays while a run or an event of it does: its revisions have the run's
// owner, and the next owner of a free id would read the events.
const sqlPruneTombstones = `
DELETE FROM schedules WHERE schedule_id = ANY(ARRAY(
	SELECT s.schedule_id FROM schedules s
	WHERE s.deleted_at < $1 AND ` + nothingOf + `
	ORDER BY s.schedule_id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING schedule_id`

// nothingOf: no run, no event and no group that may still make a run names the schedule s.
const nothingOf = `NOT EXISTS (SELECT FROM open_runs r WHERE r.sid = s.sid)
		AND NOT EXISTS (SELECT FROM ended_runs r WHERE r.sid = s.sid)
		AND NOT EXISTS (SELECT FROM schedule_events e WHERE e.schedule_id = s.schedule_id)
		AND s.schedule_id NOT IN (SELECT g.on_complete::jsonb ->> 'schedule_id' FROM queue_groups g WHERE g.state = 'RUNNING' AND g.on_complete IS NOT NULL)`

// Templates that nobody has used for as long as retention. The first statement locks them. An
// entry that has used one since then has changed its row, so the lock finds it too young. One that
// was triggered has a run that only the second statement sees.
const (
	sqlUnusedTemplates = `
SELECT s.schedule_id FROM schedules s
WHERE s.updated_at < $1 AND s.deleted_at IS NULL AND starts_with(s.managed_by, 'queue:') AND ` + nothingOf + `
ORDER BY s.updated_at LIMIT $2 FOR UPDATE SKIP LOCKED`

	sqlPruneTemplates = `
DELETE FROM schedules s WHERE s.schedule_id = ANY($1::text[]) AND ` + nothingOf + `
RETURNING s.schedule_id`
)

const sqlPruneRevisions = `
DELETE FROM schedule_revisions WHERE schedule_id = ANY($1::text[])`
