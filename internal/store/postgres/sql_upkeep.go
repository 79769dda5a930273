package postgres

// sqlUpkeep counts up to a thousand of each. open_runs is scanned in order of due_at, so
// what is stuck comes first.
const sqlUpkeep = `
SELECT (SELECT count(*) FROM (SELECT FROM open_runs WHERE state = 3 AND due_at < $1::timestamptz - interval '1 minute' LIMIT 1000) u),
	(SELECT count(*) FROM (SELECT o.run_at, o.idempotency_key FROM open_runs o WHERE o.state = 3 ORDER BY o.due_at LIMIT 1000) f
		WHERE EXISTS (SELECT FROM ended_runs e WHERE e.run_at = f.run_at AND e.idempotency_key = f.idempotency_key)),
	coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'open_runs'::regclass), 0)`
