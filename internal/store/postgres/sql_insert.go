package postgres

// sqlInsertRuns skips open keys. sqlInsertNewRuns fails on one, and so saves a lookup for
// each key.
const (
	sqlInsertRuns    = insertOpen + ` ON CONFLICT (idempotency_key) DO NOTHING` + inserted
	sqlInsertNewRuns = insertOpen + inserted

	insertOpen = `
WITH changed AS (
INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, overlap_key,
	run_at, fire_at, due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch,
	waiting_since, retry_of, input, trace_id, created_at, updated_at)
SELECT key, u.sid, u.nth, u.revision, u.bucket, u.state, 1, u.trigger, u.policy, u.overlap_key,
	u.run_at, u.fire_at, coalesce(u.due_at, 'infinity'), u.priority, u.max_queued, u.attempt, 0, 0, 0,
	u.waiting_since, u.retry_of, u.input, u.trace_id, coalesce(u.created_at, $1), $1
FROM unnest($2::bytea[], $3::integer[], $4::integer[], $5::integer[], $6::smallint[], $7::smallint[], $8::smallint[], $9::smallint[], $10::text[],
	$11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::integer[], $15::integer[], $16::integer[],
	$17::timestamptz[], $18::bytea[], $19::text[], $20::text[], $21::timestamptz[])
	AS u(key, sid, nth, revision, bucket, state, trigger, policy, overlap_key,
	run_at, fire_at, due_at, priority, max_queued, attempt, waiting_since, retry_of, input, trace_id, created_at)`

	inserted = `
RETURNING idempotency_key, bucket, trigger, state, fire_at
), noted AS (` + noteInserted + `)
SELECT FROM changed`
)

// sqlDropInserted removes runs that were inserted although history has them.
const sqlDropInserted = `
WITH gone AS (
DELETE FROM open_runs o
WHERE o.idempotency_key = ANY($1::bytea[]) AND (SELECT true FROM ended_runs e
	WHERE e.run_at = o.run_at AND e.sid = o.sid AND e.idempotency_key = o.idempotency_key LIMIT 1)
RETURNING 1)
SELECT count(*) FROM gone`

const sqlSidsOf = `
SELECT s.schedule_id, s.sid FROM schedules s WHERE s.schedule_id = ANY($1::text[])`

const sqlRaisePlannedUntil = `
UPDATE schedules s SET planned_until = greatest(s.planned_until, u.run_at)
FROM (SELECT schedule_id, max(run_at) AS run_at FROM unnest($1::text[], $2::timestamptz[]) AS u(schedule_id, run_at) GROUP BY schedule_id) u
WHERE s.schedule_id = u.schedule_id AND (s.planned_until IS NULL OR s.planned_until < u.run_at)`
