package postgres

// Leadership terms. All times are the database's.

// sqlTermStart: the shard's row in leaders is locked.
const sqlTermStart = `
INSERT INTO leader_terms (shard, epoch, started_at, first_bucket, last_bucket, worker_id, host, ttl_ms)
VALUES ($1, $2, clock_timestamp(), $3, $4, $5, $6, $7)`

// sqlTermSucceed closes the rows that the previous term left open. Its last renewal is
// known if it is the one that the leaders row had: $2 is that epoch, $3 its expires_at. A
// leader of an older version wrote no row; then nothing is known.
const sqlTermSucceed = `
UPDATE leader_terms SET
	ended_at = CASE WHEN epoch = $2 THEN greatest(started_at, $3::timestamptz - ttl_ms * interval '1 millisecond') ELSE clock_timestamp() END,
	end_reason = CASE WHEN epoch = $2 THEN $4 ELSE 'unknown' END
WHERE shard = $1 AND ended_at IS NULL`

// sqlTermResign: $6 says that the leader lost the term, so that its end is its
// last renewal; $7 that its reason replaces one that another worker inferred.
const sqlTermResign = `
UPDATE leader_terms t SET
	ended_at = coalesce(t.ended_at, CASE
		WHEN l.expires_at IS NULL THEN clock_timestamp()
		WHEN $6 THEN greatest(t.started_at, l.expires_at - t.ttl_ms * interval '1 millisecond')
		ELSE least(clock_timestamp(), l.expires_at) END),
	end_reason = $4, end_detail = $5
FROM (SELECT max(expires_at) AS expires_at FROM leaders WHERE shard = $1 AND holder = $2 AND epoch = $3) l
WHERE t.shard = $1 AND t.worker_id = $2 AND t.epoch = $3
	AND (t.ended_at IS NULL OR $7 AND t.end_reason IN ('expired','lock_freed','unknown'))`

const sqlTermsEndAll = `
UPDATE leader_terms SET ended_at = clock_timestamp(), end_reason = 'shards_changed' WHERE ended_at IS NULL`

// sqlTermStall splits the row of a term around a stall.
const (
	sqlTermStall = `
UPDATE leader_terms SET ended_at = greatest(started_at, clock_timestamp() - $3::interval), end_reason = $4, end_detail = $5
WHERE shard = $1 AND epoch = $2 AND ended_at IS NULL`

	sqlTermContinue = `
INSERT INTO leader_terms (shard, epoch, started_at, first_bucket, last_bucket, worker_id, host, ttl_ms)
SELECT shard, epoch, greatest(ended_at + interval '1 microsecond', clock_timestamp() - $3::interval), first_bucket, last_bucket, worker_id, host, ttl_ms
FROM leader_terms WHERE shard = $1 AND epoch = $2 ORDER BY started_at DESC LIMIT 1`
)

// termColumns: renewed_at and expired are NULL where an older version took over
// since, which wrote no row.
const termColumns = `
t.shard, t.epoch, t.worker_id, t.host, t.started_at, t.ended_at, t.end_reason, t.end_detail,
CASE WHEN t.ended_at IS NULL AND l.expires_at IS NOT NULL THEN greatest(t.started_at, l.expires_at - t.ttl_ms * interval '1 millisecond') END,
coalesce(t.ended_at IS NULL AND l.expires_at <= clock_timestamp(), false)`

const termLeader = `
LEFT JOIN leaders l ON l.shard = t.shard AND l.epoch = t.epoch`

const sqlListTerms = `
SELECT` + termColumns + `
FROM leader_terms t` + termLeader + `
WHERE ($1::integer IS NULL OR t.shard = $1)
ORDER BY t.started_at DESC, t.shard, t.epoch DESC LIMIT $2`

const termOfBucket = `
	SELECT * FROM leader_terms WHERE $1 BETWEEN first_bucket AND last_bucket AND started_at`

const sqlWindowTerms = `
SELECT` + termColumns + `
FROM (
	(` + termOfBucket + ` <= $2 ORDER BY started_at DESC, epoch DESC LIMIT 1)
	UNION ALL
	(` + termOfBucket + ` > $2 AND started_at <= $3 ORDER BY started_at LIMIT $4)
	UNION ALL
	(` + termOfBucket + ` > $3 ORDER BY started_at LIMIT 1)) t` + termLeader + `
ORDER BY t.started_at, t.epoch`

const sqlPruneTerms = `
DELETE FROM leader_terms WHERE (shard, epoch, started_at) IN (
	SELECT shard, epoch, started_at FROM leader_terms WHERE started_at < $1 AND ended_at < $1 ORDER BY started_at LIMIT $2)`

const sqlFirstSent = `
SELECT coalesce((SELECT o.first_sent_at FROM open_runs o WHERE o.idempotency_key = $1),
	(SELECT e.first_sent_at FROM ended_runs e WHERE e.idempotency_key = $1))`
