package postgres

// Whatever changes a schedule or an open run notes it in changes, in the same
// statement. A statement that changes runs collects them in a list named changed
// (idempotency_key, shard) and continues with one of these. They write no row if
// nothing changed. The kinds are those of schema/postgres/00027_changes.sql.
const (
	noteRuns = `
INSERT INTO changes (first_bucket, last_bucket, keys, kind) SELECT min(shard), max(shard), array_agg(idempotency_key), `

	noteChanged   = noteRuns + `2 FROM changed HAVING count(*) > 0`
	noteEnded     = noteRuns + `3 FROM changed HAVING count(*) > 0`
	noteCancelled = noteRuns + `4 FROM changed HAVING count(*) > 0`

	// noteInserted: what the planner inserts further ahead the leader loads when its
	// time comes. Its window is ten seconds, and a plan takes ten seconds at most.
	noteInserted = noteRuns + `2 FROM changed
WHERE trigger NOT IN ('schedule','catchup') OR waiting_since IS NOT NULL OR fire_at <= $1::timestamptz + interval '30 seconds'
HAVING count(*) > 0`
)

// A read position: which server it was read on since when, and a snapshot.
const position = `extract(epoch FROM pg_postmaster_start_time())::text || ' ' || pg_current_snapshot()::text`

// sqlChanges returns each change once to a reader that goes on from the position
// that it returns, even one whose transaction was open for long: what the snapshot
// $1 did not see either began later or was in progress then. The row with the
// position has no kind.
const (
	sqlChanges = `
SELECT ` + position + `, NULL::smallint, NULL::text[], NULL::bytea[]` +
		changesOf + `c.xid >= pg_snapshot_xmax($1::pg_snapshot)` +
		changesOf + `c.xid = ANY(ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))`

	changesOf = `
UNION ALL
SELECT NULL, c.kind, c.schedule_ids, c.keys FROM changes c WHERE c.first_bucket <= $3 AND c.last_bucket >= $2 AND `
)

const openColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.overlap_key, r.run_at, r.fire_at, r.status, r.waiting_since IS NOT NULL,
r.trigger, r.overlap_policy, r.exclusive, r.max_queued, r.priority, r.epoch, r.claimed_until, r.cancel_requested_at IS NOT NULL, r.shard`

const sqlChangedRuns = `
SELECT` + openColumns + `
FROM schedule_runs r WHERE r.idempotency_key = ANY($1::bytea[])`

// sqlScheduleStates: a schedule without a row was deleted.
const sqlScheduleStates = `
SELECT u.schedule_id, s.schedule_id IS NULL OR s.deleted_at IS NOT NULL,
	coalesce(s.paused, false), s.pause_note, s.paused_by, s.paused_until
FROM unnest($1::text[]) AS u(schedule_id) LEFT JOIN schedules s ON s.schedule_id = u.schedule_id`

const sqlStoppedSchedules = sqlScheduleStates + `
WHERE s.schedule_id IS NULL OR s.deleted_at IS NOT NULL OR s.paused`

const sqlPlannedOfSchedules = `
SELECT` + openColumns + `
FROM unnest($1::text[]) AS u(schedule_id) JOIN schedule_runs r ON r.schedule_id = u.schedule_id AND r.status = 'PLANNED'
WHERE CASE WHEN r.shard < $2 THEN false ELSE r.shard <= $3 END`

const sqlInFlight = `
SELECT r.idempotency_key FROM schedule_runs r
WHERE r.idempotency_key = ANY($1::bytea[]) AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED')`

// What a shard has open. Each kind of run is read through the index that has the
// same condition.
const (
	sqlOpenPosition = `
SELECT ` + position + `, (SELECT l.seen_until FROM leaders l WHERE l.shard = $1)`

	sqlOpenPlanned = `
SELECT` + openColumns + `
FROM schedule_runs r
WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at > $1 AND r.fire_at <= $2
	AND CASE WHEN r.shard < $3 THEN false ELSE r.shard <= $4 END`

	sqlOpenOthers = openSelect + `r.exclusive AND r.status IN ('LAUNCHING','ENQUEUED','STARTED')` + openBuckets + `
UNION ALL` + openSelect + `NOT r.exclusive AND r.status IN ('LAUNCHING','ENQUEUED','STARTED')` + openBuckets + `
UNION ALL` + openSelect + `upper(r.status) = 'PLANNED' AND r.waiting_since IS NOT NULL` + openBuckets

	openSelect = `
SELECT` + openColumns + `
FROM schedule_runs r WHERE `
	openBuckets = ` AND CASE WHEN r.shard < $1 THEN false ELSE r.shard <= $2 END`
)

// sqlPruneChanges keeps what a reader may still need: ends for one minute, other
// changes for one hour, counted from the commit. at is the start of the transaction,
// so each is kept four minutes longer: no transaction takes as long.
const sqlPruneChanges = `
DELETE FROM changes WHERE ctid = ANY(ARRAY(
	SELECT c.ctid FROM (VALUES (1, 64), (2, 64), (3, 5), (4, 64)) AS k(kind, minutes) CROSS JOIN LATERAL (
		SELECT c.ctid FROM changes c
		WHERE c.kind = k.kind AND c.at < now() - k.minutes * interval '1 minute'
		ORDER BY c.at LIMIT $1) c))`

// sqlDropFutureChanges removes what a restore has brought from another server. Its
// transaction numbers are still to come here.
const sqlDropFutureChanges = `
DELETE FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())`
