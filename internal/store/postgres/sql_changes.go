package postgres

// sqlNote notes runs of an array.
const sqlNote = `
INSERT INTO changes (kind, first_bucket, last_bucket, keys) VALUES ($1, $2, $3, $4)`

const sqlNoteWoken = `
INSERT INTO changes (kind, first_bucket, last_bucket, schedule_ids) VALUES ($1, $2, $3, $4)`

// Each statement that changes a schedule or an open run also adds a row to changes. A
// statement that changes runs collects them in a list named changed (idempotency_key,
// bucket) and continues with one of these. They write no row if nothing changed. The
// kinds are those of schema/postgres/00028_core.sql.
const (
	noteRuns = `
INSERT INTO changes (first_bucket, last_bucket, keys, kind) SELECT min(bucket), max(bucket), array_agg(idempotency_key), `

	noteChanged   = noteRuns + `2 FROM changed HAVING count(*) > 0`
	noteEnded     = noteRuns + `3 FROM changed HAVING count(*) > 0`
	noteCancelled = noteRuns + `4 FROM changed HAVING count(*) > 0`
)

// position is a read position: the server's generation and a snapshot. After a crash of
// the server, transaction numbers can repeat with the same start time.
const position = serverGeneration + ` || ' ' || pg_current_snapshot()::text`

// sqlChanges returns each change once to a reader that continues from the returned
// position, even if the change's transaction was open for long: a change that the
// snapshot $1 did not see began later or was in progress then. The row with the position
// has no kind.
const (
	sqlChanges = `
SELECT ` + position + `, NULL::smallint, NULL::text[], NULL::bytea[]` +
		changesOf + `c.xid >= pg_snapshot_xmax($1::pg_snapshot)` +
		changesOf + `c.xid = ANY(ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))`

	changesOf = `
UNION ALL
SELECT NULL, c.kind, c.schedule_ids, c.keys FROM changes c WHERE c.first_bucket <= $3 AND c.last_bucket >= $2 AND `
)

const shardColumns = `
o.idempotency_key, o.sid, o.revision, o.overlap_key, o.run_at, o.fire_at, o.status, CASE WHEN o.state = 2 THEN o.waiting_since END,
o.trigger, o.policy, o.policy <> 1, o.max_queued, o.priority, o.epoch, o.send_after, o.cancel_requested_at IS NOT NULL, o.bucket,
o.start_by, o.retry_of, o.state = 4`

const sqlChangedRuns = `
SELECT` + shardColumns + fromOpen + `
WHERE o.idempotency_key = ANY($1::bytea[])`

// sqlScheduleStates: a schedule without a row was deleted.
const sqlScheduleStates = `
SELECT u.schedule_id, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL,
	coalesce(s.paused, false), s.pause_note, s.paused_by, s.paused_until
FROM unnest($1::text[]) AS u(schedule_id) LEFT JOIN schedules s ON s.schedule_id = u.schedule_id`

// sqlStopped are those of schedules that are paused or deleted.
const sqlStopped = scheduleStateOf + `s.sid = ANY($1::integer[]) AND (s.paused OR s.deleted_at IS NOT NULL)`

const sqlStatesNamed = scheduleStateOf + `s.schedule_id = ANY($1::text[])`

const scheduleStateOf = `
SELECT s.schedule_id, s.deleted_at IS NOT NULL, s.paused, s.pause_note, s.paused_by, s.paused_until
FROM schedules s WHERE `

const sqlPlannedOfSchedules = `
SELECT` + shardColumns + fromOpen + `
WHERE o.sid = ANY(ARRAY(SELECT s.sid FROM schedules s WHERE s.schedule_id = ANY($1::text[]))) AND o.status = 1
	AND CASE WHEN o.bucket < $2 THEN false ELSE o.bucket <= $3 END`

const sqlInFlight = `
SELECT o.idempotency_key FROM open_runs o WHERE o.idempotency_key = ANY($1::bytea[]) AND o.status > 1`

// The open runs of a shard: planned runs that fire in a window, and all others.
const (
	sqlOpenPosition = `
SELECT ` + position + `, (SELECT l.seen_until FROM leaders l WHERE l.shard = $1)`

	sqlOpenPlanned = `
SELECT` + shardColumns + fromOpen + `
WHERE o.state = 1 AND o.due_at > $1 AND o.due_at <= $2
	AND CASE WHEN o.bucket < $3 THEN false ELSE o.bucket <= $4 END`

	sqlOpenOthers = `
SELECT` + shardColumns + fromOpen + `
WHERE o.state IN (2, 3, 4) AND CASE WHEN o.bucket < $1 THEN false ELSE o.bucket <= $2 END`
)

// sqlDropFutureChanges removes what a restore has brought from another server. Its
// transaction numbers are still to come here.
const sqlDropFutureChanges = `
DELETE FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())`
