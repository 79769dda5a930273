package postgres

// Fair queues.
const (
	// sqlLockShares locks the rows in their order.
	sqlLockShares = `
INSERT INTO queue_shares AS s (queue_no, effective_priority, fair_key, fair_order, drawn_at)
SELECT u.queue_no, u.priority, u.fair_key, 0, $1
FROM unnest($2::integer[], $3::integer[], $4::text[]) WITH ORDINALITY AS u (queue_no, priority, fair_key, n) ORDER BY u.n
ON CONFLICT (queue_no, effective_priority, fair_key) DO UPDATE SET drawn_at = excluded.drawn_at
RETURNING s.queue_no, s.effective_priority, s.fair_key, s.fair_order`

	sqlFairTurns = `
SELECT u.queue_no, u.priority, u.fair_key,
	coalesce((SELECT c.fair_clock FROM fair_clocks c WHERE c.queue_no = u.queue_no AND c.effective_priority = u.priority), 0),
	coalesce((SELECT o.fair_order FROM open_runs o
		WHERE o.queue_no = u.queue_no AND o.queue_state = 2 AND o.effective_priority = u.priority AND o.fair_key = u.fair_key
		ORDER BY o.queue_no DESC, o.effective_priority DESC, o.fair_key DESC, o.fair_order DESC LIMIT 1), 0)
FROM unnest($1::integer[], $2::integer[], $3::text[]) AS u (queue_no, priority, fair_key)`

	sqlPutShares = `
UPDATE queue_shares s SET fair_order = u.fair_order
FROM unnest($1::integer[], $2::integer[], $3::text[], $4::bigint[]) AS u (queue_no, priority, fair_key, fair_order)
WHERE s.queue_no = u.queue_no AND s.effective_priority = u.priority AND s.fair_key = u.fair_key`
)
