package sqlite

// Fair queues.
const (
	sqlLockShares = `INSERT INTO queue_shares (queue_no, effective_priority, fair_key, fair_order, drawn_at)
 SELECT j.value ->> 0, j.value ->> 1, j.value ->> 2, 0, ?1 FROM json_each(?2) j WHERE true
 ON CONFLICT (queue_no, effective_priority, fair_key) DO UPDATE SET drawn_at = excluded.drawn_at
 RETURNING queue_no, effective_priority, fair_key, fair_order`

	sqlFairTurns = `SELECT j.value ->> 0, j.value ->> 1, j.value ->> 2,
 coalesce((SELECT c.fair_clock FROM fair_clocks c WHERE c.queue_no = j.value ->> 0 AND c.effective_priority = j.value ->> 1), 0),
 coalesce((SELECT o.fair_order FROM open_runs o INDEXED BY open_runs_fair
  WHERE o.queue_no = j.value ->> 0 AND o.queue_state = 2 AND o.effective_priority = j.value ->> 1 AND o.fair_key = j.value ->> 2
  ORDER BY o.fair_order DESC LIMIT 1), 0)
 FROM json_each(?1) j`

	sqlPutShares = `UPDATE queue_shares SET fair_order = j.value ->> 3 FROM json_each(?1) j
 WHERE queue_no = j.value ->> 0 AND effective_priority = j.value ->> 1 AND fair_key = j.value ->> 2`
)
