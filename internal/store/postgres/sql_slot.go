package postgres

const revisionColumns = `schedule_id, revision, definition, changed_by, created_at`

// sqlSlotRevisions: what was in force around an instant, and what the runs name.
const sqlSlotRevisions = `
SELECT ` + revisionColumns + ` FROM (
	(SELECT ` + revisionColumns + ` FROM schedule_revisions
		WHERE schedule_id = $1 AND created_at < $2 ORDER BY revision DESC LIMIT 2)
	UNION ALL
	(SELECT ` + revisionColumns + ` FROM schedule_revisions
		WHERE schedule_id = $1 AND created_at >= $2 ORDER BY revision LIMIT 1)
	UNION ALL
	(SELECT ` + revisionColumns + ` FROM schedule_revisions WHERE schedule_id = $1 ORDER BY revision LIMIT 1)
	UNION ALL
	(SELECT ` + revisionColumns + ` FROM schedule_revisions WHERE schedule_id = $1 AND revision = ANY($3::bigint[]))) v
ORDER BY revision DESC`

var sqlSlotRuns = `
SELECT` + listColumns + `
FROM ((SELECT * FROM ` + openOfSchedule + ` r WHERE` + atSlot + `) UNION ALL (SELECT * FROM ` + endedOfSchedule + ` r WHERE` + atSlot + `)) r` + joinSchedule + `
ORDER BY (r.idempotency_key = $4) DESC, r.idempotency_key LIMIT $5`

const atSlot = ` r.run_at >= $2 AND r.run_at < $3 AND (r.queue_no IS NULL OR r.epoch > 0)`

const eventsOfSchedule = `
	SELECT event_id, schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision
	FROM schedule_events WHERE schedule_id = $1 AND kind = ANY(`

const sqlSlotEvents = `
SELECT * FROM (
	(` + eventsOfSchedule + `$3::text[]) AND time < $2 ORDER BY event_id DESC LIMIT $7)
	UNION ALL
	(` + eventsOfSchedule + `$4::text[]) AND time < $2 ORDER BY event_id DESC LIMIT $7)
	UNION ALL
	(` + eventsOfSchedule + `$3::text[]) AND time >= $2 ORDER BY event_id LIMIT $7)
	UNION ALL
	(` + eventsOfSchedule + `$4::text[]) AND time >= $2 ORDER BY event_id LIMIT $7)
	UNION ALL
	(` + eventsOfSchedule + `$5::text[]) ORDER BY event_id DESC LIMIT $7)
	UNION ALL
	(` + eventsOfSchedule + `$6::text[]) AND from_at <= $2 AND to_at >= $2 ORDER BY event_id DESC LIMIT $8)) e
ORDER BY event_id`

// sqlBlockingNow reads both indexes of an overlap group.
var sqlBlockingNow = `
SELECT` + listColumns + `
FROM (
	SELECT ` + openFields + ` FROM open_runs r WHERE r.overlap_key = $1 AND r.exclusive_flight
	UNION ALL
	SELECT ` + openFields + ` FROM open_runs r WHERE r.overlap_key = $1 AND r.state IN (2, 3, 4) AND NOT r.exclusive_flight AND r.state >= 3) r` + joinSchedule + `
WHERE r.idempotency_key <> $2
ORDER BY coalesce(r.enqueued_at, r.claimed_at) DESC, r.idempotency_key LIMIT $3`

// blockingThen: the newest run of each schedule that was in flight. Its fire_at was
// not later, and jitter adds at most one hour to run_at. Jobs take no part in overlap.
const (
	blockingOne = `
	WHERE r.sid = k.sid AND r.overlap_key = $1 AND r.idempotency_key <> $2 AND (r.queue_no IS NULL OR r.epoch > 0)
		AND r.run_at <= $4::timestamptz + interval '61 minutes'
		AND coalesce(r.enqueued_at, r.claimed_at) <= $4 AND (r.completed_at IS NULL OR r.completed_at >= $5)` + newestFirst + ` LIMIT 1`
)

var blockingThen = `
CROSS JOIN LATERAL (SELECT * FROM (
	(SELECT * FROM ` + endedRuns + ` r` + blockingOne + `)
	UNION ALL
	(SELECT * FROM ` + openRuns + ` r` + blockingOne + `)) r` + newestFirst + ` LIMIT 1) r` + joinSchedule + `
ORDER BY coalesce(r.enqueued_at, r.claimed_at) DESC, r.idempotency_key LIMIT $3`

// sqlBlockingKin looks at the schedules that have the key now, and at one more.
var sqlBlockingKin = `
SELECT` + listColumns + `
FROM (SELECT sid FROM schedules WHERE (user_id || '/' || overlap_key) = $1
	UNION SELECT sid FROM schedules WHERE schedule_id = $6::text) k` + blockingThen

// sqlBlockingOwner looks at all of an owner: one of them had the key then.
var sqlBlockingOwner = `
SELECT` + listColumns + `
FROM (
	SELECT sid FROM schedules WHERE user_id = $6::text AND deleted_at IS NULL
	UNION ALL
	SELECT sid FROM schedules WHERE user_id = $6::text AND deleted_at IS NOT NULL) k` + blockingThen

// sqlLag reads both indexes of what is due.
const sqlLag = `
SELECT late.due, late.oldest, behind.unplanned, behind.oldest FROM
	(SELECT count(*) AS due, min(due_at) AS oldest FROM open_runs WHERE state = 1 AND due_at <= $1) late,
	(SELECT count(*) AS unplanned, min(plan_at) AS oldest FROM schedules WHERE plan_at IS NOT NULL AND plan_at <= $1) behind`
