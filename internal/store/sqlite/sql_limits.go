package sqlite

const (
	sqlLimitsNow = `SELECT j.value ->> 0, j.value ->> 1, l.limit_no, l.max_in_flight, l.rate_starts, l.rate_per_ms, l.rate_burst,
 coalesce(k.max_in_flight, -1), k.rate_starts, k.rate_per_ms, k.rate_burst, k.until,
 (SELECT count(*) FROM limit_uses x WHERE x.limit_no = l.limit_no AND x.limit_key = j.value ->> 1), r.next_start_at
 FROM json_each(?1) j CROSS JOIN limits l ON l.limit_id = j.value ->> 0
 LEFT JOIN limit_keys k ON k.limit_no = l.limit_no AND k.limit_key = j.value ->> 1
 LEFT JOIN limit_rates r ON r.limit_no = l.limit_no AND r.limit_key = j.value ->> 1`

	sqlTakeUses = `INSERT INTO limit_uses (limit_no, limit_key, used_by)
 SELECT j.value ->> 0, j.value ->> 1, unhex(j.value ->> 2) FROM json_each(?1) j WHERE true ON CONFLICT DO NOTHING`

	sqlFreeLimitUses = `DELETE FROM limit_uses WHERE used_by IN (SELECT unhex(j.value) FROM json_each(?1) j)`

	sqlHeldUses = `SELECT u.used_by, u.limit_no, u.limit_key, l.limit_id, l.ordered
 FROM json_each(?1) j CROSS JOIN limit_uses u ON u.used_by = unhex(j.value) CROSS JOIN limits l ON l.limit_no = u.limit_no`

	headColumns  = `o.idempotency_key, o.limits, o.effective_priority, o.fair_order, o.position_key, o.enqueued_at`
	sqlReadHeads = `SELECT ` + headColumns + ` FROM json_each(?3) j CROSS JOIN open_runs o ON o.idempotency_key IN (
  SELECT i.idempotency_key FROM open_runs i INDEXED BY open_runs_limits
  WHERE i.queue_no = ?1 AND i.queue_state = 2 AND i.limits = j.value ->> 0 AND i.kept_limits IS NULL
  ORDER BY i.effective_priority, i.fair_order, i.position_key, i.idempotency_key LIMIT ?2)`
	sqlReadOldest = `SELECT ` + headColumns + ` FROM json_each(?3) j CROSS JOIN open_runs o ON o.idempotency_key IN (
  SELECT i.idempotency_key FROM open_runs i INDEXED BY open_runs_limits
  WHERE i.queue_no = ?1 AND i.queue_state = 2 AND i.limits = j.value ->> 0 AND i.effective_priority = j.value ->> 1 AND i.kept_limits IS NULL
  ORDER BY i.fair_order, i.position_key, i.idempotency_key LIMIT ?2)`
)
