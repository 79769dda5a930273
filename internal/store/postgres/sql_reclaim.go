package postgres

// owner is schedule.Owner of a run's overlap key.
const owner = `left(o.overlap_key, -1 - length(split_part(o.overlap_key, '/', -1)))`

// reclaimable is what may be sent again; $1 = epoch, $2 = now, $3 and $4 = the term's
// buckets.
const reclaimable = `o.state = 3 AND o.status = 2 AND CASE WHEN o.bucket < $3 THEN false ELSE o.bucket <= $4 END
	AND (o.epoch <> $1 OR o.send_after IS NULL OR o.send_after <= $2)
	AND (o.epoch <= $1 OR NOT EXISTS (SELECT FROM leaders l WHERE l.epoch >= o.epoch) AND (o.send_after IS NULL OR o.send_after <= $2))
	AND (o.cancel_requested_at IS NULL OR (SELECT e.state = 'DONE' FROM execution_requests e WHERE e.idempotency_key = o.idempotency_key))`

// sqlReclaimOwners are the owners of what sqlReclaim chooses from: mostly none.
const sqlReclaimOwners = `
SELECT DISTINCT ` + owner + ` FROM open_runs o WHERE ` + reclaimable

// sqlReclaim takes $6 rows at most, of each owner ($7) so many as he has room
// for ($8): the first of each before the second of any.
const sqlReclaim = `
UPDATE open_runs o SET epoch = $1, send_after = $5, updated_at = $2
FROM schedules s
WHERE s.sid = o.sid AND o.idempotency_key = ANY(ARRAY(
	SELECT o.idempotency_key FROM open_runs o
	WHERE o.idempotency_key = ANY(ARRAY(
		SELECT r.idempotency_key FROM (
			SELECT o.idempotency_key, o.fire_at, o.run_at, ` + owner + ` AS owner, row_number() OVER (
				PARTITION BY ` + owner + ` ORDER BY o.fire_at, o.run_at, o.idempotency_key) AS place
			FROM open_runs o WHERE ` + reclaimable + `) r
		JOIN unnest($7::text[], $8::integer[]) AS w(owner, room) ON w.owner = r.owner AND r.place <= w.room
		ORDER BY r.place, r.fire_at, r.run_at, r.idempotency_key LIMIT $6))
		AND ` + reclaimable + `
	FOR UPDATE SKIP LOCKED))
RETURNING` + openColumns

const sqlCancelsDue = `
SELECT` + openColumns + openIdentityColumns + fromOpen + joinOpenRevision + `
WHERE o.state = 3 AND o.cancel_requested_at IS NOT NULL
	AND CASE WHEN o.bucket < $2 THEN false ELSE o.bucket <= $3 END
ORDER BY o.cancel_requested_at, o.idempotency_key LIMIT $1`
