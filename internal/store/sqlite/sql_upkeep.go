package sqlite

// sqlUpkeep counts up to a thousand of each. open_runs is scanned in order of due_at, so
// what is stuck comes first.
const sqlUpkeep = `SELECT (SELECT count(*) FROM (SELECT 1 FROM open_runs INDEXED BY open_runs_due WHERE state = 3 AND due_at < ?1 - 60000000 LIMIT 1000)),
 (SELECT count(*) FROM (SELECT sid, run_at, idempotency_key FROM open_runs INDEXED BY open_runs_due WHERE state = 3 ORDER BY due_at LIMIT 1000) stuck
  WHERE EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_slot WHERE e.run_at = stuck.run_at AND e.sid = stuck.sid AND e.idempotency_key = stuck.idempotency_key))`
