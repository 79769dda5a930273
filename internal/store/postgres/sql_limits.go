package postgres

const (
	// sqlLockLimits keeps admissions and changes of limits apart, in the order of their numbers,
	// which it returns. The class is 1667330668.
	sqlLockLimits = `
SELECT n.limit_no
FROM (SELECT l.limit_no FROM limits l WHERE l.limit_id = ANY($1::text[]) ORDER BY l.limit_no) n
CROSS JOIN LATERAL (SELECT pg_advisory_xact_lock(1667330668, n.limit_no)) locked`

	// sqlLimitsNow looks for each key by itself: a join may read all keys of the limit for each.
	sqlLimitsNow = `
SELECT u.limit_id, u.limit_key, l.limit_no, l.max_in_flight, l.rate_starts, l.rate_per_ms, l.rate_burst,
	coalesce(k.max_in_flight, -1), k.rate_starts, k.rate_per_ms, k.rate_burst, k.until,
	(SELECT count(*) FROM limit_uses x WHERE x.limit_no = l.limit_no AND x.limit_key = u.limit_key), r.next_start_at
FROM unnest($1::text[], $2::text[]) AS u (limit_id, limit_key) JOIN limits l ON l.limit_id = u.limit_id
LEFT JOIN LATERAL (SELECT * FROM limit_keys k WHERE k.limit_no = l.limit_no AND k.limit_key = u.limit_key LIMIT 1) k ON true
LEFT JOIN LATERAL (SELECT * FROM limit_rates r WHERE r.limit_no = l.limit_no AND r.limit_key = u.limit_key LIMIT 1) r ON true`

	sqlTakeUses = `
INSERT INTO limit_uses (limit_no, limit_key, used_by)
SELECT u.limit_no, u.limit_key, decode(u.used_by, 'hex') FROM unnest($1::integer[], $2::text[], $3::text[]) AS u (limit_no, limit_key, used_by)
ON CONFLICT DO NOTHING`

	sqlFreeLimitUses = `DELETE FROM limit_uses WHERE used_by = ANY($1::bytea[])`

	sqlHeldUses = `
SELECT u.used_by, u.limit_no, u.limit_key, l.limit_id, l.ordered FROM limit_uses u JOIN limits l ON l.limit_no = u.limit_no
WHERE u.used_by = ANY($1::bytea[])`

	// sqlReadHeads orders by limits, and asks for them as a range: for an equation, Postgres may
	// take the index that has all runs of the queue in their order, and read past most of them.
	sqlReadHeads = `
SELECT h.idempotency_key, h.limits, h.effective_priority, h.fair_order, h.position_key, h.enqueued_at
FROM unnest($3::text[]) AS s (limits) CROSS JOIN LATERAL (
	SELECT o.idempotency_key, o.limits, o.effective_priority, o.fair_order, o.position_key, o.enqueued_at
	FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits >= s.limits AND o.limits <= s.limits AND o.kept_limits IS NULL
	ORDER BY o.limits, o.effective_priority, o.fair_order, o.position_key LIMIT $2) h`

	sqlReadOldest = `
SELECT h.idempotency_key, h.limits, h.effective_priority, h.fair_order, h.position_key, h.enqueued_at
FROM unnest($3::text[], $4::integer[]) AS p (limits, priority) CROSS JOIN LATERAL (
	SELECT o.idempotency_key, o.limits, o.effective_priority, o.fair_order, o.position_key, o.enqueued_at
	FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits >= p.limits AND o.limits <= p.limits AND o.effective_priority = p.priority AND o.kept_limits IS NULL
	ORDER BY o.limits, o.effective_priority, o.fair_order, o.position_key LIMIT $2) h`
)
