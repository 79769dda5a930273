package sqlite

import "strings"

// New runs.
const (
	sqlNumbers = `SELECT s.schedule_id, s.sid, s.planned_until FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`

	// ?1 is a list of key, run_at and sid.
	sqlAlreadyEnded = `SELECT e.idempotency_key FROM json_each(?1) j CROSS JOIN ended_runs e INDEXED BY ended_runs_slot
 ON e.run_at = j.value ->> 1 AND e.sid = j.value ->> 2 WHERE e.idempotency_key = unhex(j.value ->> 0)`

	// A JSON array would have SQLite spend in its JSON functions what it saves.
	sqlInsertOpen = `INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket,
 state, status, trigger, policy, overlap_key, run_at, fire_at, due_at, priority, max_queued, attempt,
 waiting_since, retry_of, input, trace_id, created_at, updated_at, deliveries, failed_attempts, epoch) VALUES ` + insertOpenRow + `
 ON CONFLICT (idempotency_key) DO NOTHING`
	insertOpenRow = `(?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,0,0,0)`

	sqlRaisePlannedUntil = `UPDATE schedules SET planned_until = ?2 WHERE sid = ?1 AND (planned_until IS NULL OR planned_until < ?2)`
)

var (
	sqlInsertManyOpen = ofMany(sqlInsertOpen, insertOpenRow)
	openColumnCount   = strings.Count(insertOpenRow, "?")
)
