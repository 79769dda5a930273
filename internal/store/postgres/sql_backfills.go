package postgres

const backfillColumns = `
b.backfill_id, b.schedule_id, b.request_id, b.request_hash, b.user_id, b.revision, b.overlap_key,
b.from_at, b.to_at, b.reprocess, b.slot_order, b.overlap_policy, b.concurrency, b.rate_per_minute, b.note, b.created_by,
b.state, b.reason, b.state_note, b.changed_by, b.cursor_at, b.next_at, b.slots, b.to_run, b.passed_over, b.put_down,
b.succeeded, b.failed, b.skipped, b.cancelled, b.unfinished, b.created_at, b.updated_at, b.ended_at`

const sqlGetBackfill = `
SELECT` + backfillColumns + `
FROM backfills b WHERE b.backfill_id = $1`

// sqlLockBackfills comes after the lock of their schedules.
const sqlLockBackfills = `
SELECT` + backfillColumns + `
FROM backfills b WHERE b.backfill_id = ANY($1::text[]) ORDER BY b.looked_at, b.backfill_id FOR UPDATE`

const sqlListBackfills = `
SELECT` + backfillColumns + `
FROM backfills b
WHERE ($1 = '' OR b.schedule_id = $1) AND ($2 = '' OR b.user_id = $2) AND ($3 = '' OR b.state = $3)
	AND ($4::timestamptz IS NULL OR (b.created_at, b.backfill_id) < ($4, $5))
ORDER BY b.created_at DESC, b.backfill_id DESC LIMIT $6`

const sqlCountBackfills = `
SELECT count(*) FILTER (WHERE schedule_id = $1), count(*) FILTER (WHERE user_id = $2)
FROM backfills WHERE unfinished AND state IN ('running', 'paused') AND backfill_id <> $3`

// sqlBackfillCounts counts the runs that are not settled yet by their status; without
// a row it is NULL.
const sqlBackfillCounts = `
SELECT r.backfill_id, ` + statusWord + `, r.reason, count(*)
FROM (
	SELECT e.backfill_id, coalesce(o.status, h.status) AS status, h.reason
	FROM backfill_runs e LEFT JOIN open_runs o ON o.idempotency_key = e.idempotency_key
	LEFT JOIN ended_runs h ON o.idempotency_key IS NULL AND h.run_at = e.run_at AND h.idempotency_key = e.idempotency_key
	WHERE e.backfill_id = ANY($1::text[]) AND NOT e.settled) r
GROUP BY r.backfill_id, r.status, r.reason`

const unsettledKeys = `(SELECT e.idempotency_key FROM backfill_runs e WHERE e.backfill_id = $1 AND NOT e.settled)`

const sqlBackfillDrop = `
WITH changed AS (
DELETE FROM open_runs WHERE idempotency_key = ANY(ARRAY` + unsettledKeys + `) AND status = 1
RETURNING idempotency_key, bucket
)` + noteEnded

const sqlBackfillAskCancel = `
WITH changed AS (
UPDATE open_runs SET cancel_requested_at = $3, cancel_reason = $2, due_at = least(due_at, $3), updated_at = $3
WHERE idempotency_key = ANY(ARRAY` + unsettledKeys + `) AND cancel_requested_at IS NULL AND status > 1
RETURNING idempotency_key, bucket
)` + noteCancelled

// sqlReadSlotStates returns for each slot whether a run is open, has succeeded or has failed,
// of any trigger except manual.
const (
	sqlReadSlotStates = `
SELECT slot.at, bool_or(r.status < 5), bool_or(r.status = 5), bool_or(r.status = 6)
FROM unnest($2::timestamptz[]) slot(at) CROSS JOIN LATERAL (
	SELECT r.status FROM open_runs r` + runsOfSlot + `
	UNION ALL
	SELECT r.status FROM ended_runs r` + runsOfSlot + `) r
GROUP BY slot.at`

	runsOfSlot = ` WHERE r.sid = ` + sidOfFilter + ` AND r.run_at = slot.at AND r.trigger <> 3`
)

// sqlFeedAny reports whether a shard has open backfills.
const sqlFeedAny = `
SELECT EXISTS (SELECT FROM backfills b
	WHERE b.unfinished AND CASE WHEN b.shard < $1 THEN false ELSE b.shard <= $2 END)`

// sqlFeedBackfills returns the least recently fed backfills.
const sqlFeedBackfills = `
SELECT b.backfill_id, b.schedule_id
FROM backfills b
WHERE b.unfinished AND CASE WHEN b.shard < $1 THEN false ELSE b.shard <= $2 END
ORDER BY b.looked_at, b.backfill_id LIMIT $3`

// sqlFeedSchedules locks schedules as a plan does: an edit or deletion waits, and locked
// schedules are left for the next tick.
const sqlFeedSchedules = `
SELECT` + scheduleColumns + `
FROM schedules s WHERE s.schedule_id = ANY($1::text[])
ORDER BY s.schedule_id FOR NO KEY UPDATE SKIP LOCKED`

const sqlFeedHeld = `SELECT schedule_id FROM schedules WHERE schedule_id = ANY($1::text[])`

const sqlFeedSlots = `
SELECT e.backfill_id, e.run_at, e.idempotency_key
FROM backfill_runs e WHERE e.backfill_id = ANY($1::text[]) AND NOT e.settled
ORDER BY e.backfill_id, e.run_at`

var sqlFeedRuns = `
SELECT` + listColumns + `
FROM (
	SELECT r.* FROM backfill_runs e JOIN ` + openRuns + ` r ON r.idempotency_key = e.idempotency_key
	WHERE e.backfill_id = ANY($1::text[]) AND NOT e.settled
	UNION ALL
	SELECT r.* FROM backfill_runs e JOIN ` + endedRuns + ` r ON r.run_at = e.run_at AND r.idempotency_key = e.idempotency_key
	WHERE e.backfill_id = ANY($1::text[]) AND NOT e.settled) r` + joinSchedule

// sqlFeedGroup reads an overlap group as ledger.GroupNow has it. Its planned runs are those
// of the schedules that have its overlap key now: no index has planned runs by their group.
const sqlFeedGroup = `
SELECT EXISTS (SELECT FROM open_runs WHERE overlap_key = $1 AND exclusive_flight)
	OR EXISTS (SELECT FROM open_runs WHERE overlap_key = $1 AND state IN (2, 3, 4) AND NOT exclusive_flight),
	(SELECT min(r.fire_at) FROM schedules h JOIN open_runs r ON r.sid = h.sid
		WHERE h.user_id || '/' || h.overlap_key = $1 AND r.state = 1 AND r.overlap_key = $1 AND r.policy <> 1)`

const sqlFeedPending = `
SELECT count(*) FROM backfills b
JOIN backfill_runs e ON e.backfill_id = b.backfill_id AND NOT e.settled
JOIN open_runs r ON r.idempotency_key = e.idempotency_key
WHERE b.unfinished AND CASE WHEN b.shard < $1 THEN false ELSE b.shard <= $2 END AND r.status IN (1, 2)`

const sqlFeedWrite = `
INSERT INTO backfill_runs (backfill_id, run_at, idempotency_key, settled)
SELECT $1, * FROM unnest($2::timestamptz[], $3::bytea[], $4::boolean[])
ON CONFLICT (backfill_id, run_at) DO UPDATE SET idempotency_key = excluded.idempotency_key, settled = excluded.settled`

const sqlPruneBackfillRuns = `
DELETE FROM backfill_runs WHERE (backfill_id, run_at) IN (
	SELECT e.backfill_id, e.run_at FROM backfills b JOIN backfill_runs e ON e.backfill_id = b.backfill_id
	WHERE b.ended_at < $1 AND NOT b.unfinished LIMIT $2)`

const sqlPruneBackfills = `
DELETE FROM backfills WHERE backfill_id IN (
	SELECT b.backfill_id FROM backfills b
	WHERE b.ended_at < $1 AND NOT b.unfinished AND NOT EXISTS (SELECT FROM backfill_runs e WHERE e.backfill_id = b.backfill_id)
	ORDER BY b.ended_at LIMIT $2)`
