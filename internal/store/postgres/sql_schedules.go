package postgres

const (
	scheduleColumns = scheduleDefinition + lastRun + scheduleTimes
	// planColumns have last_run_at as it was last written: plans and queues do not need it.
	planColumns = scheduleDefinition + `s.last_run_at` + scheduleTimes

	// lastRun is the run_at of the newest run that was launched; see ledger.WasLaunched. A
	// schedule keeps it for runs that were pruned, and for the time before its last edit.
	// To write it with each launch costs half a settlement and waits for the planner. Of open
	// runs it reads the newest thousand: more are planned ahead or wait in queues only.
	lastRun = `greatest(s.last_run_at,
	(SELECT l.run_at FROM (SELECT o.run_at, o.launched_at FROM open_runs o WHERE o.sid = s.sid AND o.` + sinceLastRun + ` LIMIT 1000) l
		WHERE l.launched_at IS NOT NULL ORDER BY l.run_at DESC LIMIT 1),
	(SELECT l.run_at FROM ended_runs l WHERE l.sid = s.sid AND l.launched_at IS NOT NULL AND l.` + sinceLastRun + ` LIMIT 1))`

	sinceLastRun = `run_at > coalesce(s.last_run_at, '-infinity') ORDER BY run_at DESC`

	scheduleDefinition = `
s.schedule_id, s.workflow_id, s.version, s.user_id, s.cron_expr, s.interval_ms, s.once_at,
s.timezone, s.start_at, s.end_at, s.dst, s.jitter_ms,
s.overlap_policy, s.overlap_key, s.max_queued, s.catchup_policy, s.catchup_window_ms, s.run_timeout_ms, s.priority,
s.input, s.execution_grant_id, s.labels::text, s.managed_by, s.expect, s.launch_timeout_ms, s.retry, s.queue_id, s.limits, s.webhook, s.max_run_ms, s.expires_ms, s.fair_key, s.run_group, s.consume,
s.revision, s.revised_at, s.next_run_at, s.plan_at,
s.backlog_from, s.backlog_until, s.backlog_revision, s.backlog_at, s.plan_failures,
s.paused, s.pause_note, s.paused_by, s.paused_until,
`
	scheduleTimes = `, s.created_at, s.updated_at, s.deleted_at`
)

// scheduleRows are whole rows as scheduleArgs binds them.
const scheduleRows = `unnest(
	$1::text[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[],
	$8::text[], $9::timestamptz[], $10::timestamptz[], $11::text[], $12::bigint[],
	$13::text[], $14::text[], $15::bigint[], $16::text[], $17::bigint[], $18::bigint[], $19::integer[],
	$20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::bigint[],
	$26::bigint[], $27::timestamptz[], $28::timestamptz[], $29::timestamptz[],
	$30::timestamptz[], $31::timestamptz[], $32::bigint[], $33::timestamptz[], $34::integer[],
	$35::boolean[], $36::text[], $37::text[], $38::timestamptz[],
	$39::integer[], $40::timestamptz[], $41::timestamptz[], $42::timestamptz[], $43::timestamptz[], $44::text[], $45::text[], $46::text[], $47::text[], $48::bigint[], $49::bigint[], $50::text[], $51::text[], $52::text[]
) AS u(
	schedule_id, workflow_id, version, user_id, cron_expr, interval_ms, once_at,
	timezone, start_at, end_at, dst, jitter_ms,
	overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms, run_timeout_ms, priority,
	input, execution_grant_id, labels, managed_by, expect, launch_timeout_ms,
	revision, revised_at, next_run_at, plan_at,
	backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
	paused, pause_note, paused_by, paused_until,
	shard, last_run_at, created_at, updated_at, deleted_at, retry, queue_id, limits, webhook, max_run_ms, expires_ms, fair_key, run_group, consume)`

// sqlManagedLock serializes the deploys of one set, also of one without schedules yet.
// The first number is this lock's class.
const sqlManagedLock = `SELECT pg_advisory_xact_lock(1128354372, hashtext($1))`

// sqlQuotaLock serializes counts for one owner. The first number is this lock's class.
const sqlQuotaLock = `
SELECT pg_advisory_xact_lock(1128354381, hashtext(owner)) FROM unnest($1::text[]) AS owner`

// notOfQueue leaves out the schedules that queues make (schedule.ManagedByQueue).
const notOfQueue = `(s.managed_by IS NULL OR NOT starts_with(s.managed_by, 'queue:'))`

const sqlQuotaCount = `
SELECT s.user_id, count(*)::integer FROM schedules s
WHERE s.user_id = ANY($1::text[]) AND s.deleted_at IS NULL AND ` + notOfQueue + `
GROUP BY s.user_id ORDER BY s.user_id`

const sqlManaged = `
SELECT s.schedule_id FROM schedules s
WHERE s.managed_by = $1 AND s.deleted_at IS NULL AND ($2 = '' OR s.user_id = $2)
ORDER BY s.schedule_id`

const sqlReadSchedules = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = ANY($1::text[])`

const sqlChangeLock = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = ANY($1::text[])
ORDER BY s.schedule_id FOR UPDATE`

// sqlGroupLock skips rows that others have locked; sqlGroupThere finds them.
const sqlGroupLock = sqlChangeLock + ` SKIP LOCKED`

const sqlGroupThere = `
SELECT s.schedule_id FROM schedules s WHERE s.schedule_id = ANY($1::text[])`

const sqlCountInFlight = `
SELECT overlap_key, count(*) FROM (
	SELECT overlap_key FROM open_runs WHERE overlap_key = ANY($1::text[]) AND exclusive_flight
	UNION ALL
	SELECT overlap_key FROM open_runs WHERE overlap_key = ANY($1::text[]) AND state IN (2, 3, 4) AND NOT exclusive_flight AND state >= 3) r
GROUP BY overlap_key`

// sqlOverlapKeys: see schedules_coalesce.
const sqlOverlapKeys = `
SELECT DISTINCT (s.user_id || '/' || s.overlap_key) COLLATE "C" FROM schedules s
WHERE s.overlap_policy = 'coalesce' AND s.deleted_at IS NULL AND (s.user_id || '/' || s.overlap_key) COLLATE "C" > $2 AND ($1::text = '' OR s.user_id = $1)
ORDER BY 1 LIMIT $3`

// sqlInsertSchedules waits for another transaction that has inserted one of the
// ids and is not done; of those that are there it inserts none.
const sqlInsertSchedules = `
INSERT INTO schedules (
	schedule_id, workflow_id, version, user_id, cron_expr, interval_ms, once_at,
	timezone, start_at, end_at, dst, jitter_ms,
	overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms, run_timeout_ms, priority,
	input, execution_grant_id, labels, managed_by, expect, launch_timeout_ms,
	revision, revised_at, next_run_at, plan_at,
	backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
	paused, pause_note, paused_by, paused_until,
	shard, last_run_at, created_at, updated_at, deleted_at, retry, queue_id, limits, webhook, max_run_ms, expires_ms, fair_key, run_group, consume)
SELECT
	schedule_id, workflow_id, version, user_id, cron_expr, interval_ms, once_at,
	timezone, start_at, end_at, dst, jitter_ms,
	overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms, run_timeout_ms, priority,
	input, execution_grant_id, labels::jsonb, managed_by, expect, launch_timeout_ms,
	revision, revised_at, next_run_at, plan_at,
	backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
	paused, pause_note, paused_by, paused_until,
	shard, last_run_at, created_at, updated_at, deleted_at, retry, queue_id, limits, webhook, max_run_ms, expires_ms, fair_key, run_group, consume
FROM ` + scheduleRows + `
ON CONFLICT (schedule_id) DO NOTHING`

// sqlUpdateSchedules notes each schedule with the bucket that it leaves and the one
// that it enters: the leaders of both may have runs of it. The rows are locked, so
// that the snapshot, which does not see this update, has the bucket it leaves.
const sqlUpdateSchedules = `
WITH updated AS (
UPDATE schedules s SET
	workflow_id = u.workflow_id, version = u.version, user_id = u.user_id,
	cron_expr = u.cron_expr, interval_ms = u.interval_ms, once_at = u.once_at,
	timezone = u.timezone, start_at = u.start_at, end_at = u.end_at, dst = u.dst, jitter_ms = u.jitter_ms,
	overlap_policy = u.overlap_policy, overlap_key = u.overlap_key, max_queued = u.max_queued,
	catchup_policy = u.catchup_policy, catchup_window_ms = u.catchup_window_ms,
	run_timeout_ms = u.run_timeout_ms, priority = u.priority,
	input = u.input, execution_grant_id = u.execution_grant_id, labels = u.labels::jsonb, managed_by = u.managed_by, expect = u.expect, launch_timeout_ms = u.launch_timeout_ms, retry = u.retry,
	queue_id = u.queue_id, limits = u.limits, webhook = u.webhook, max_run_ms = u.max_run_ms, expires_ms = u.expires_ms, fair_key = u.fair_key, run_group = u.run_group, consume = u.consume,
	revision = u.revision, revised_at = u.revised_at, next_run_at = u.next_run_at, plan_at = u.plan_at,
	backlog_from = u.backlog_from, backlog_until = u.backlog_until, backlog_revision = u.backlog_revision,
	backlog_at = u.backlog_at, plan_failures = u.plan_failures,
	paused = u.paused, pause_note = u.pause_note, paused_by = u.paused_by, paused_until = u.paused_until,
	shard = u.shard, last_run_at = u.last_run_at, created_at = u.created_at, updated_at = u.updated_at,
	deleted_at = u.deleted_at
FROM ` + scheduleRows + `
WHERE s.schedule_id = u.schedule_id
RETURNING s.schedule_id, s.shard
)
INSERT INTO changes (kind, first_bucket, last_bucket, schedule_ids)
SELECT 1, min(least(u.shard, s.shard)), max(greatest(u.shard, s.shard)), array_agg(u.schedule_id)
FROM updated u JOIN schedules s ON s.schedule_id = u.schedule_id
HAVING count(*) > 0`

// A revision is immutable: writing one again changes nothing.
const sqlInsertRevisions = `
INSERT INTO schedule_revisions (schedule_id, revision, definition, workflow_id, version, user_id, changed_by, created_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::timestamptz[])
ON CONFLICT (schedule_id, revision) DO NOTHING`

// sqlDropPlanned notes nothing: the leader reads what is left of a changed schedule.
const sqlDropPlanned = `
DELETE FROM open_runs o WHERE o.idempotency_key = ANY($1::bytea[]) AND o.status = 1`

const sqlInsertEvents = `
INSERT INTO schedule_events (schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision)
SELECT schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision
FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::timestamptz[],
	$6::bigint[], $7::text[], $8::text[], $9::text[], $10::bigint[])
	WITH ORDINALITY AS u(schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision, place)
ORDER BY place`

const (
	sqlGetSchedule = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = $1`
	sqlPeekSchedule = `
SELECT` + planColumns + `
FROM schedules s WHERE s.schedule_id = $1`
)

// scheduleFilter takes $1 to $9; a state is judged at $9.
const scheduleFilter = `
	s.deleted_at IS NULL
	AND ($1 = '' OR s.user_id = $1)
	AND ($2 = '' OR s.workflow_id = $2)
	AND CASE WHEN $3 = '' THEN ` + notOfQueue + ` ELSE s.managed_by = $3 END
	AND ($4 = '' OR s.execution_grant_id = $4)
	AND ($5 = '' OR CASE WHEN $6 = '' THEN s.labels ? $5 ELSE s.labels ->> $5 = $6 END)
	AND ($7 = ''
		OR strpos(lower(concat_ws(E'\n', s.schedule_id, s.workflow_id, s.user_id, s.cron_expr, s.timezone, s.managed_by) COLLATE "C"), $7) > 0
		OR EXISTS (SELECT FROM jsonb_each_text(s.labels) l WHERE strpos(lower((l.key || '=' || l.value) COLLATE "C"), $7) > 0))
	AND CASE $8
		WHEN 'paused' THEN s.paused AND (s.paused_until IS NULL OR s.paused_until > $9)
		WHEN 'exhausted' THEN s.next_run_at IS NULL AND s.backlog_from IS NULL AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > $9))
		WHEN 'active' THEN (s.next_run_at IS NOT NULL OR s.backlog_from IS NOT NULL) AND NOT (s.paused AND (s.paused_until IS NULL OR s.paused_until > $9))
		ELSE true
	END`

const sqlListSchedules = `
SELECT` + scheduleColumns + `
FROM schedules s
WHERE ` + scheduleFilter + ` AND s.schedule_id > $10
ORDER BY s.schedule_id LIMIT $11`

// sqlListFailing begins at the failing schedules: they are few.
const sqlListFailing = `
SELECT` + scheduleColumns + `
FROM schedule_failures f JOIN schedules s ON s.schedule_id = f.schedule_id
WHERE ` + scheduleFilter + ` AND s.schedule_id > $10
ORDER BY s.schedule_id LIMIT $11`

// nextSlots are the schedules with a slot later than $9 and before $10. Such a
// slot is a PLANNED row, or, at or behind its schedule's cursor, none yet. plan_at
// is never later than the cursor: it says, in an index, which schedules may have a
// slot before an instant.
const nextSlots = `(
	SELECT schedule_id, min(at) AS at FROM (
		SELECT s.schedule_id, r.at
		FROM (SELECT sid, min(run_at) AS at FROM open_runs WHERE state = 1 AND trigger = 1 AND run_at > $9 AND run_at < $10 GROUP BY sid) r
		JOIN schedules s ON s.sid = r.sid
		UNION ALL
		SELECT s.schedule_id, greatest(s.next_run_at, $9) FROM schedules s
		WHERE s.plan_at IS NOT NULL AND s.plan_at < $10 AND s.next_run_at < $10) slots
	GROUP BY schedule_id) next`

const sqlListUpcoming = `
SELECT page.at,` + scheduleColumns + `
FROM (
	SELECT s.schedule_id AS id, next.at FROM ` + nextSlots + ` JOIN schedules s ON s.schedule_id = next.schedule_id
	WHERE ` + scheduleFilter + ` AND ($11::timestamptz IS NULL OR (next.at, s.schedule_id) > ($11, $12))
	ORDER BY next.at, s.schedule_id LIMIT $13) page
JOIN schedules s ON s.schedule_id = page.id
ORDER BY page.at, page.id`

const sqlCountSchedules = `
SELECT (SELECT count(*) FROM schedules s WHERE ` + scheduleFilter + `), count(*) FILTER (WHERE next.at > $9), count(*) FILTER (WHERE next.at <= $9)
FROM ` + nextSlots + ` JOIN schedules s ON s.schedule_id = next.schedule_id
WHERE ` + scheduleFilter

const sqlListEvents = `
SELECT event_id, schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision
FROM schedule_events
WHERE schedule_id = $1 AND event_id < $2
ORDER BY event_id DESC LIMIT $3`

const sqlListRevisions = `
SELECT schedule_id, revision, definition, changed_by, created_at
FROM schedule_revisions
WHERE schedule_id = $1 AND revision < $2
ORDER BY revision DESC LIMIT $3`

const sqlDefinitions = `
SELECT d.schedule_id, d.revision, d.definition
FROM unnest($1::text[], $2::bigint[]) AS u(schedule_id, revision)
JOIN schedule_revisions d ON d.schedule_id = u.schedule_id AND d.revision = u.revision`

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
