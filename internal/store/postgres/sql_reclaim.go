package postgres

// owner is schedule.Owner of a run's overlap key.
const owner = `left(r.overlap_key, -1 - length(split_part(r.overlap_key, '/', -1)))`

// reclaimable is what may be sent again; $1 = epoch, $2 = now, $3 and $4 = the
// term's buckets. A scalar subselect is looked up by key for each row that needs
// it; EXISTS might be planned as one reading of all that is DONE.
const reclaimable = `lower(r.status) = 'launching' AND (r.cancel_requested_at IS NULL
		OR (SELECT e.state = 'DONE' FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key))
		AND CASE WHEN r.shard < $3 THEN false ELSE r.shard <= $4 END AND `

// reclaimableRuns are its pieces of schedule_runs_launching: a herd that is in
// flight lies between them, and is not read. What other shards have in flight is
// of the epochs that stand in leaders, and what this term may send again is not:
// a change of the number of shards gives every row a new epoch. What is between
// the epochs of leaders is of terms that are over.
const reclaimableRuns = `(
	SELECT r.* FROM (
		SELECT lag(l.epoch, 1, -1::bigint) OVER (ORDER BY l.epoch) AS beyond, l.epoch AS before FROM leaders l WHERE l.epoch <= $1) ended
	CROSS JOIN LATERAL (
		SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch > ended.beyond AND r.epoch < ended.before OFFSET 0) r
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch = $1 AND r.claimed_until IS NULL
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch = $1 AND r.claimed_until <= $2
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch > (SELECT max(l.epoch) FROM leaders l)
		AND (r.claimed_until IS NULL OR r.claimed_until <= $2))`

// sqlReclaimOwners are the owners of what sqlReclaim chooses from: mostly none.
const sqlReclaimOwners = `
SELECT DISTINCT ` + owner + ` FROM ` + reclaimableRuns + ` r`

// sqlReclaim takes $6 rows at most, of each owner ($7) so many as he has room
// for ($8): the first of each before the second of any.
const sqlReclaim = `
UPDATE schedule_runs r SET epoch = $1, claimed_until = $5, updated_at = $2
WHERE r.status || '' = 'LAUNCHING' AND r.idempotency_key = ANY(ARRAY(
	SELECT r.idempotency_key FROM schedule_runs r
	WHERE r.idempotency_key = ANY(ARRAY(
		SELECT r.idempotency_key FROM (
			SELECT r.idempotency_key, r.fire_at, r.run_at, ` + owner + ` AS owner, row_number() OVER (
				PARTITION BY ` + owner + ` ORDER BY r.fire_at, r.run_at, r.idempotency_key) AS place
			FROM ` + reclaimableRuns + ` r) r
		JOIN unnest($7::text[], $8::integer[]) AS o(owner, room) ON o.owner = r.owner AND r.place <= o.room
		ORDER BY r.place, r.fire_at, r.run_at, r.idempotency_key LIMIT $6))
		AND ` + reclaimable + `(r.epoch < $1 OR r.claimed_until IS NULL OR r.claimed_until <= $2)
	FOR UPDATE SKIP LOCKED))
RETURNING` + runColumns

const sqlCancelsDue = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.cancel_requested_at IS NOT NULL AND lower(r.status) IN ('launching','enqueued','started')
	AND CASE WHEN r.shard < $2 THEN false ELSE r.shard <= $3 END
ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT $1`
