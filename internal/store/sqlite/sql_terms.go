package sqlite

// Leadership terms. ?N are microseconds; ttl_ms * 1000 is in them too.
const (
	sqlTermStart = `INSERT INTO leader_terms (shard, epoch, started_at, first_bucket, last_bucket, worker_id, host, ttl_ms)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	// sqlTermSucceed closes the rows that the previous term left open. Its last renewal
	// is known if it is the one that the leaders row had: ?2 is that epoch, ?3 its
	// expires_at, ?4 the time until which its end may lie. A leader of an older version
	// wrote no row; then nothing is known.
	sqlTermSucceed = `UPDATE leader_terms SET
 ended_at = CASE WHEN epoch = ?2 THEN max(started_at, ?3 - ttl_ms * 1000) ELSE ?4 END,
 end_reason = CASE WHEN epoch = ?2 THEN ?5 ELSE 'unknown' END
 WHERE shard = ?1 AND ended_at IS NULL`
	// sqlTermResign: ?6 says that the leader lost the term, so that its end is its
	// last renewal; ?7 that its reason replaces one that another worker inferred.
	sqlTermResign = `UPDATE leader_terms SET
 ended_at = COALESCE(ended_at, (SELECT CASE WHEN ?6 THEN max(leader_terms.started_at, l.expires_at - leader_terms.ttl_ms * 1000) ELSE min(?8, l.expires_at) END
  FROM leaders l WHERE l.shard = ?1 AND l.holder = ?2 AND l.epoch = ?3), ?8),
 end_reason = ?4, end_detail = ?5
 WHERE shard = ?1 AND worker_id = ?2 AND epoch = ?3
  AND (ended_at IS NULL OR ?7 AND end_reason IN ('expired','lock_freed','unknown'))`
	sqlTermsEndAll = `UPDATE leader_terms SET ended_at = max(started_at, ?1), end_reason = 'shards_changed' WHERE ended_at IS NULL`
	// A stall splits the row of a term.
	sqlTermStall = `UPDATE leader_terms SET ended_at = max(started_at, ?3), end_reason = ?4, end_detail = ?5
 WHERE shard = ?1 AND epoch = ?2 AND ended_at IS NULL`
	sqlTermContinue = `INSERT INTO leader_terms (shard, epoch, started_at, first_bucket, last_bucket, worker_id, host, ttl_ms)
 SELECT shard, epoch, max(ended_at + 1, ?3), first_bucket, last_bucket, worker_id, host, ttl_ms
 FROM leader_terms WHERE shard = ?1 AND epoch = ?2 ORDER BY started_at DESC LIMIT 1`

	// termColumns: the last renewal is NULL where an older version took over since,
	// which wrote no row. ?1 = now.
	termColumns = `t.shard, t.epoch, t.worker_id, t.host, t.started_at, t.ended_at, t.end_reason, t.end_detail,
 CASE WHEN t.ended_at IS NULL THEN max(t.started_at, l.expires_at - t.ttl_ms * 1000) END,
 COALESCE(t.ended_at IS NULL AND l.expires_at <= ?1, 0)`
	termLeader   = ` LEFT JOIN leaders l ON l.shard = t.shard AND l.epoch = t.epoch`
	sqlListTerms = `SELECT ` + termColumns + ` FROM leader_terms t` + termLeader + `
 WHERE (?2 IS NULL OR t.shard = ?2) ORDER BY t.started_at DESC, t.shard, t.epoch DESC LIMIT ?3`
	termOfBucket   = `SELECT * FROM leader_terms WHERE ?2 BETWEEN first_bucket AND last_bucket AND started_at`
	sqlWindowTerms = `SELECT ` + termColumns + ` FROM (
 SELECT * FROM (` + termOfBucket + ` <= ?3 ORDER BY started_at DESC, epoch DESC LIMIT 1)
 UNION ALL SELECT * FROM (` + termOfBucket + ` > ?3 AND started_at <= ?4 ORDER BY started_at LIMIT ?5)
 UNION ALL SELECT * FROM (` + termOfBucket + ` > ?4 ORDER BY started_at LIMIT 1)) t` + termLeader + `
 ORDER BY t.started_at, t.epoch`
	sqlPruneTerms = `DELETE FROM leader_terms WHERE (shard, epoch, started_at) IN (
 SELECT shard, epoch, started_at FROM leader_terms WHERE started_at < ?1 AND ended_at < ?1 ORDER BY started_at LIMIT ?2)`
)
