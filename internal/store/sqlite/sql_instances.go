package sqlite

// Instances. A second registration of a process gets another number.
const (
	sqlOldInstances       = `SELECT instance_no FROM instances WHERE seen_at < ?`
	sqlPruneInstances     = `DELETE FROM instances WHERE seen_at < ?1 OR instance_id = ?2`
	sqlRegisterInstance   = `INSERT INTO instances (instance_id, host, started_at, seen_at) VALUES (?, ?, ?, ?)`
	sqlInstanceNo         = `SELECT instance_no FROM instances WHERE instance_id = ?`
	sqlConfirmInstance    = `UPDATE instances SET server_generation = ?3, seen_at = ?2 WHERE instance_no = ?1`
	sqlSeeInstance        = `UPDATE instances SET seen_at = ?2 WHERE instance_no = ?1`
	sqlInstancesByID      = `SELECT i.instance_id, i.instance_no, i.server_generation FROM json_each(?) j CROSS JOIN instances i ON i.instance_id = j.value`
	sqlInstanceGeneration = `SELECT server_generation FROM instances WHERE instance_no = ?`
)
