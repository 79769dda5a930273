package postgres

// The lock of a queue keeps admissions and changes apart. Its class is 1667330673.
const sqlLockQueue = `SELECT pg_advisory_xact_lock(1667330673, $1)`

const (
	// shareQueue: a change of the queue waits, other entries do not.
	shareQueue = ` FOR SHARE`

	// sqlCountMinute: no other transaction has the connection, so none waits for the row.
	sqlCountMinute = `INSERT INTO queue_minutes AS m (queue_no, minute, workflow_id, ended, writer, n, wait_ms, run_ms)
VALUES ($1, $2, coalesce((SELECT s.workflow_id FROM schedules s WHERE s.sid = $3), ''), $4, pg_backend_pid(), $5, $6, $7)
ON CONFLICT (queue_no, minute, workflow_id, ended, writer) DO UPDATE SET n = m.n + excluded.n, wait_ms = m.wait_ms + excluded.wait_ms, run_ms = m.run_ms + excluded.run_ms`
	sqlDrawPositions = `SELECT nextval('queue_positions') FROM generate_series(1, $1::integer)`

	sqlQueueInFlight = `SELECT count(*), coalesce(min(o.admission), 0), EXISTS (SELECT 1 FROM reservations r WHERE r.queue_no = $1)
FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 AND o.admission >= $2`

	// sqlQueuesWaiting looks into the index once for each queue. For EXISTS, Postgres may read
	// all waiting runs. Of the queues in $1 it does not ask.
	sqlQueuesWaiting = `SELECT q.queue_no, q.queue_id FROM queues q
WHERE q.deleted_at IS NULL AND CASE WHEN q.queue_no = ANY($1::integer[]) THEN true ELSE (SELECT o.queue_state FROM open_runs o
	WHERE o.queue_no = q.queue_no AND o.queue_state = 2 ORDER BY o.effective_priority LIMIT 1) IS NOT NULL END ORDER BY q.queue_no`
)

// Unique keys of runs in queues.
const (
	// sqlLockUniques keeps entries under one key apart. The class is 1667330677.
	sqlLockUniques = `SELECT pg_advisory_xact_lock(1667330677, n) FROM unnest($1::integer[]) n`

	uniqueColumns = `u.queue_no, u.hash, u.user_id, u.unique_key, u.run_key, u.scope, u.first_at, u.until, u.replaced, u.fire_by`

	sqlUniquesByHash = `SELECT ` + uniqueColumns + ` FROM queue_uniques u WHERE u.queue_no = $1 AND u.hash = ANY($2::bytea[])`

	sqlUniquesOfRuns = `SELECT ` + uniqueColumns + ` FROM queue_uniques u WHERE u.run_key = ANY($1::bytea[])`
)
