package postgres

// sqlPlanDue reads schedules_plan_at in order up to the limit; rows that others have
// locked do not count. An edit locks a schedule FOR UPDATE, so a plan never overwrites
// it. num_nulls hides the condition on deleted_at from partial indexes: while statistics
// lag, all of schedules_user looks as short as the due rows.
//
// The condition on a term's buckets is a CASE here and everywhere: for BETWEEN with
// parameters a generic plan estimates one row in 200, but without shards it matches all.
const sqlPlanDue = `
SELECT` + planColumns + `, s.sid, s.planned_until
FROM schedules s
WHERE s.plan_at <= $1 AND num_nulls(s.deleted_at) = 1
	AND (NOT s.paused OR s.paused_until <= $2)
	AND CASE WHEN s.shard < $4 THEN false ELSE s.shard <= $5 END
ORDER BY s.plan_at LIMIT $3
FOR NO KEY UPDATE SKIP LOCKED`

// sqlPlanLateOwners finds schedules with late rows that sqlPlanDue did not return. Late
// rows are at the beginning of open_runs_due. A schedule in quarantine waits for its
// plan_at. The bucket is the schedule's: its rows may be of another, from before an edit.
const sqlPlanLateOwners = `
SELECT` + planColumns + `, s.sid, s.planned_until
FROM schedules s
WHERE s.schedule_id = ANY (ARRAY(SELECT DISTINCT ` + scheduleOfOpen + ` FROM open_runs o WHERE ` + late + `))
	AND s.schedule_id <> ALL($4::text[])
	AND num_nulls(s.deleted_at) = 1 AND (NOT s.paused OR s.paused_until <= $3)
	AND (s.plan_failures = 0 OR s.plan_at <= $3)
	AND CASE WHEN s.shard < $6 THEN false ELSE s.shard <= $7 END
ORDER BY s.schedule_id LIMIT $5
FOR NO KEY UPDATE SKIP LOCKED`

// late is a slot that is later than the grace and that the leader of its shard has
// not seen in time. $1 = now - grace, $2 = seen_until of each shard. The row may be of
// another shard than its schedule, from before an edit. Its shard follows from its
// bucket: see schedule.Term.Buckets. The least of all is for the index.
const late = `o.state = 1 AND o.due_at < $1 AND o.run_at < $1 AND o.trigger = 1
	AND o.due_at > (SELECT min(seen_until) FROM unnest($2::timestamptz[]) AS u(seen_until))
	AND o.due_at > ($2::timestamptz[])[1 + o.bucket * cardinality($2::timestamptz[]) / 1024]`

// sqlSeenUntil: a shard without a row was never led.
const sqlSeenUntil = `
SELECT l.shard, coalesce(l.seen_until, '-infinity') FROM leaders l WHERE l.shard BETWEEN $1 AND $2`

const sqlPlanLateRuns = `
SELECT` + openColumns + fromOpen + `
WHERE o.sid = ANY(ARRAY(SELECT s.sid FROM schedules s WHERE s.schedule_id = ANY($3::text[]))) AND ` + late + `
ORDER BY o.run_at, o.idempotency_key`

// sqlPlanned are the slots since the beginning of an open backlog that have a row.
const (
	sqlPlanned = `
SELECT s.schedule_id, r.run_at FROM schedules s CROSS JOIN LATERAL (
	SELECT r.run_at FROM open_runs r` + sinceBacklog + `
	UNION ALL
	SELECT r.run_at FROM ended_runs r` + sinceBacklog + `) r
WHERE s.schedule_id = ANY ($1::text[]) AND s.backlog_from IS NOT NULL
ORDER BY s.schedule_id, r.run_at`

	sinceBacklog = `
	WHERE r.sid = s.sid AND r.run_at >= s.backlog_from AND (s.next_run_at IS NULL OR r.run_at < s.next_run_at) AND r.trigger IN (1, 2)`
)

// sqlPlanSchedules moves the cursors. The rows are locked, and updated_at is the
// user's: planning leaves it. The end of a pause is a change that the leader reads.
const sqlPlanSchedules = `
WITH planned AS (
UPDATE schedules s SET next_run_at = u.next_run_at, plan_at = u.plan_at,
	backlog_from = u.backlog_from, backlog_until = u.backlog_until,
	backlog_revision = u.backlog_revision, backlog_at = u.backlog_at, plan_failures = 0,
	planned_until = greatest(s.planned_until, u.planned_until),
	paused = s.paused AND NOT u.end_pause,
	pause_note = CASE WHEN NOT u.end_pause THEN s.pause_note END,
	paused_by = CASE WHEN NOT u.end_pause THEN s.paused_by END,
	paused_until = CASE WHEN NOT u.end_pause THEN s.paused_until END
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
	$6::bigint[], $7::timestamptz[], $8::boolean[], $9::timestamptz[])
	AS u(schedule_id, next_run_at, plan_at, backlog_from, backlog_until, backlog_revision, backlog_at, end_pause, planned_until)
WHERE s.schedule_id = u.schedule_id
RETURNING s.schedule_id, s.shard, u.end_pause
)
INSERT INTO changes (kind, first_bucket, last_bucket, schedule_ids)
SELECT 1, min(shard), max(shard), array_agg(schedule_id) FROM planned WHERE end_pause HAVING count(*) > 0`

const sqlPlanFailures = `
UPDATE schedules s SET plan_at = u.plan_at, plan_failures = u.failures
FROM unnest($1::text[], $2::timestamptz[], $3::integer[]) AS u(schedule_id, plan_at, failures)
WHERE s.schedule_id = u.schedule_id`

// sqlPlanFire gives late rows that still fire their new fire_at and trigger.
const sqlPlanFire = `
WITH changed AS (
UPDATE open_runs o SET fire_at = u.fire_at, due_at = u.fire_at, trigger = u.trigger, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[], $4::smallint[]) AS u(key, fire_at, trigger)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 1 AND o.waiting_since IS NULL
RETURNING o.idempotency_key, o.bucket
)` + noteChanged

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
	WHERE s.deleted_at < $1 AND NOT EXISTS (SELECT FROM open_runs r WHERE r.sid = s.sid)
		AND NOT EXISTS (SELECT FROM ended_runs r WHERE r.sid = s.sid)
		AND NOT EXISTS (SELECT FROM schedule_events e WHERE e.schedule_id = s.schedule_id)
	ORDER BY s.schedule_id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING schedule_id`

const sqlPruneRevisions = `
DELETE FROM schedule_revisions WHERE schedule_id = ANY($1::text[])`
