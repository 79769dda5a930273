package sqlite

// Dispatch queues.
const (
	sqlCountMinute = `INSERT INTO queue_minutes AS m (queue_no, minute, workflow_id, ended, writer, n, wait_ms, run_ms)
VALUES ($1, $2, coalesce((SELECT s.workflow_id FROM schedules s WHERE s.sid = $3), ''), $4, 0, $5, $6, $7)
ON CONFLICT (queue_no, minute, workflow_id, ended, writer) DO UPDATE SET n = m.n + excluded.n, wait_ms = m.wait_ms + excluded.wait_ms, run_ms = m.run_ms + excluded.run_ms`
	sqlQueuesWaiting = `SELECT q.queue_no, q.queue_id FROM queues q WHERE q.deleted_at IS NULL AND (q.queue_no IN (SELECT value ->> 0 FROM json_each(?1))
 OR (SELECT o.queue_state FROM open_runs o INDEXED BY open_runs_ready WHERE o.queue_no = q.queue_no AND o.queue_state = 2 ORDER BY o.effective_priority LIMIT 1) IS NOT NULL)
 ORDER BY q.queue_no`
	sqlQueueInFlight = `SELECT (SELECT count(*) FROM open_runs INDEXED BY open_runs_queue_in_flight WHERE queue_no = ?1 AND queue_state >= 4), 0,
 EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = ?1) WHERE ?2 IS NOT NULL`
	sqlDrawPositions = `UPDATE queue_positions SET last = last + $1 RETURNING last - $1 + 1`

	sqlDispatch = `UPDATE open_runs SET queue_state = 4, deliveries = ?2, claimed_at = ?3, holder = nullif(?4, 0), lease_until = ?5, due_at = ?5,
 timeout_at = ?6, send_after = NULL, first_sent_at = COALESCE(first_sent_at, ?7), updated_at = ?7,
 admitted_as = ?8 WHERE idempotency_key = ?1 AND queue_state = 2`

	sqlOpenAmong = `SELECT o.idempotency_key FROM json_each(?) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)`

	// sqlMoveQueued writes a run of a queue that no call holds, as a rule has made it.
	sqlMoveQueued = `UPDATE open_runs SET queue_state = ?2, fire_at = ?3, due_at = ?4, timeout_at = ?5, send_after = ?6, updated_at = ?7,
 fair_key = ?8, fair_order = ?9 WHERE idempotency_key = ?1 AND +state IN (4, 5)`

	sqlNextQueuedDue = `SELECT due_at FROM (
 SELECT * FROM (SELECT due_at FROM open_runs INDEXED BY open_runs_due WHERE state = 4 ORDER BY due_at LIMIT 1)
 UNION ALL SELECT * FROM (SELECT due_at FROM open_runs INDEXED BY open_runs_due WHERE state = 5 ORDER BY due_at LIMIT 1))
 WHERE due_at < 9223372036854775807 ORDER BY due_at LIMIT 1`

	sqlChangeQueued = `UPDATE open_runs SET input = ?2, priority = ?3, effective_priority = ?4, run_at = ?5, fire_at = ?6, queue_state = ?7, due_at = ?8,
 updated_at = ?9, limits = ?10, start_by = ?11, fair_order = ?12, fair_key = ?13 WHERE idempotency_key = ?1 AND queue_state IN (1, 2, 3) AND (claimed_at IS NULL OR input IS ?2 AND limits = ?10)`

	sqlCountDelayed = `SELECT count(*) FROM open_runs o INDEXED BY open_runs_delayed WHERE o.queue_no = ?1 AND o.queue_state = 1`

	sqlCountQueued = `SELECT count(*) FROM open_runs o INDEXED BY open_runs_ready WHERE o.queue_no = ?1 AND o.queue_state = 2`
)

var (
	sqlWaiting = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_ready` + ofOpen + `
 WHERE o.queue_no = ?1 AND o.queue_state = 2 ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT ?2`

	sqlQueuedDue = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_due` + ofOpen + `
 WHERE o.state = ?3 AND o.due_at <= ?1 ORDER BY o.due_at LIMIT ?2`

	sqlListWaiting = `SELECT ` + openRunColumns + ` FROM open_runs o INDEXED BY open_runs_ready` + ofOpen + `
 WHERE o.queue_no = ?1 AND o.queue_state = 2 ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT ?2 OFFSET ?3`

	sqlListDelayed = `SELECT ` + openRunColumns + ` FROM open_runs o INDEXED BY open_runs_delayed` + ofOpen + `
 WHERE o.queue_no = ?1 AND o.queue_state = 1 ORDER BY o.fire_at, o.idempotency_key LIMIT ?2 OFFSET ?3`

	sqlListChained = `SELECT ` + openRunColumns + ` FROM open_runs o INDEXED BY open_runs_chained` + ofOpen + `
 WHERE o.queue_no = ?1 AND o.queue_state = 3 ORDER BY o.position_key, o.idempotency_key LIMIT ?2 OFFSET ?3`
)

// Unique keys of runs in queues.
const (
	uniqueColumns = `u.queue_no, u.hash, u.user_id, u.unique_key, u.run_key, u.scope, u.first_at, u.until, u.replaced, u.fire_by`

	sqlUniquesByHash = `SELECT ` + uniqueColumns + ` FROM json_each(?2) j CROSS JOIN queue_uniques u ON u.queue_no = ?1 AND u.hash = unhex(j.value)`

	sqlUniquesOfRuns = `SELECT ` + uniqueColumns + ` FROM json_each(?1) j CROSS JOIN queue_uniques u INDEXED BY queue_uniques_run ON u.run_key = unhex(j.value)`
)
