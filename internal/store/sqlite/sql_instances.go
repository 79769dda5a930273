package sqlite

// Instances. A second registration of a process gets another number.
const (
	sqlOldInstances    = `SELECT instance_no FROM instances WHERE seen_at < ?`
	sqlForgetInstance  = `DELETE FROM instances WHERE instance_id = ? RETURNING version, roles, features, unhealthy`
	sqlRegister        = `INSERT INTO instances (instance_id, host, version, roles, features, unhealthy, started_at, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlInstanceNo      = `SELECT instance_no FROM instances WHERE instance_id = ?`
	sqlConfirmPresence = `UPDATE instances SET server_generation = ?3, seen_at = ?2 WHERE instance_no = ?1`
	sqlHeartbeatLower  = `UPDATE instances SET seen_at = ?1 WHERE seen_at > ?1`
	sqlHeartbeat       = `UPDATE instances SET host = ?2, version = ?3, roles = ?4, features = ?5, unhealthy = ?6, seen_at = ?7 WHERE instance_id = ?1`
	sqlLeave           = `UPDATE instances SET roles = '[]' WHERE instance_id = ?`
	sqlInstances       = `SELECT instance_no, instance_id, host, version, roles, features, unhealthy, server_generation, started_at, seen_at FROM instances
 WHERE seen_at > ? AND roles <> '[]' ORDER BY instance_id`
	sqlInstancesByID      = `SELECT i.instance_id, i.instance_no, i.server_generation FROM json_each(?) j CROSS JOIN instances i ON i.instance_id = j.value`
	sqlInstancesSeen      = `SELECT instance_no, server_generation FROM instances WHERE seen_at > ?`
	sqlInstanceGeneration = `SELECT server_generation FROM instances WHERE instance_no = ?`

	// sqlFreeOfGone frees the keys of admitted runs that a process holds that is gone, and makes
	// them due for a sweep.
	sqlFreeOfGone = `UPDATE open_runs INDEXED BY open_runs_queue_in_flight SET holder = NULL, lease_until = NULL, send_after = NULL, due_at = ?2
 WHERE queue_state >= 4 AND queue_state = 4 AND holder = ?1 AND lease_until > ?2`

	// sqlPruneInstances keeps the row of a process that an open call still names: it may
	// be the proof that the process is gone.
	sqlPruneInstances = `DELETE FROM instances WHERE instance_no IN (SELECT i.instance_no FROM instances i
  WHERE i.seen_at < ?1 AND NOT EXISTS (SELECT 1 FROM open_runs o INDEXED BY open_runs_due
   WHERE o.state = 3 AND o.holder = i.instance_no) AND NOT EXISTS (SELECT 1 FROM open_runs o INDEXED BY open_runs_queue_in_flight
   WHERE o.queue_state >= 4 AND o.holder = i.instance_no)
  ORDER BY i.seen_at LIMIT ?2)`
)
