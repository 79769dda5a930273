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

const sqlSlotRuns = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.schedule_id = $1 AND r.run_at >= $2 AND r.run_at < $3
ORDER BY (r.idempotency_key = $4) DESC, r.idempotency_key LIMIT $5`

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

// sqlBlockingNow goes through both partial indexes of what is in flight.
const sqlBlockingNow = `
SELECT` + runColumns + identityColumns + `
FROM (
	SELECT * FROM schedule_runs WHERE exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED') AND overlap_key = $1
	UNION ALL
	SELECT * FROM schedule_runs WHERE NOT exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED') AND overlap_key = $1) r` + joinRevision + `
WHERE r.idempotency_key <> $2
ORDER BY r.claimed_at DESC, r.idempotency_key LIMIT $3`

// A run that was in flight was due not later than an hour, the most that jitter
// moves, after: there the walk back through a history begins.
const blockingThen = `
CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs r
	WHERE r.schedule_id = k.schedule_id AND r.overlap_key = $1 AND r.idempotency_key <> $2
		AND r.run_at <= $4::timestamptz + interval '61 minutes'
		AND r.claimed_at <= $4 AND (r.completed_at IS NULL OR r.completed_at >= $5)
	ORDER BY r.run_at DESC, r.idempotency_key DESC LIMIT 1) r` + joinRevision + `
ORDER BY r.claimed_at DESC, r.idempotency_key LIMIT $3`

// sqlBlockingKin looks at the schedules that have the key now, and at one more.
const sqlBlockingKin = `
SELECT` + runColumns + identityColumns + `
FROM (SELECT schedule_id FROM schedules WHERE (user_id || '/' || overlap_key) = $1 UNION SELECT $6::text) k` + blockingThen

// sqlBlockingOwner looks at all of an owner: one of them had the key then.
const sqlBlockingOwner = `
SELECT` + runColumns + identityColumns + `
FROM (
	SELECT schedule_id FROM schedules WHERE user_id = $6::text AND deleted_at IS NULL
	UNION ALL
	SELECT schedule_id FROM schedules WHERE user_id = $6::text AND deleted_at IS NOT NULL) k` + blockingThen

// sqlLag reads both indexes of what is due.
const sqlLag = `
SELECT late.due, late.oldest, behind.unplanned, behind.oldest FROM
	(SELECT count(*) AS due, min(fire_at) AS oldest FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= $1) late,
	(SELECT count(*) AS unplanned, min(plan_at) AS oldest FROM schedules WHERE plan_at IS NOT NULL AND plan_at <= $1) behind`
