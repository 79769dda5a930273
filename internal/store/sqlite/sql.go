package sqlite

// One constant per statement, named after the method that runs it. Arguments
// are numbered where a statement uses one twice, and bound in order elsewhere.
// Lists come as one JSON array (json_each), keys in it as hex (unhex).
//
// Hot statements say INDEXED BY: SQLite knows nothing of how the rows are
// spread, and would rather read a history than the few rows that are due.

// inFlight is how the schema says it in its partial indexes, word by word:
// SQLite uses one only for a condition that it can recognise.
const inFlight = `(status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED')`

const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`

	sqlWaitShort = `PRAGMA busy_timeout = 50`
	sqlWaitLong  = `PRAGMA busy_timeout = 5000`

	sqlPing       = `SELECT count(*) FROM sqlite_schema`
	sqlHasWorkers = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'workers'`
	sqlLastSeen   = `SELECT max(seen_at) FROM workers`

	sqlHeartbeatLower = `UPDATE workers SET seen_at = ?1 WHERE seen_at > ?1`
	sqlHeartbeat      = `INSERT INTO workers (worker_id, started_at, seen_at) VALUES (?, ?, ?)
 ON CONFLICT (worker_id) DO UPDATE SET started_at = excluded.started_at, seen_at = excluded.seen_at`
)

// Leaders. Fence comes first in every transaction that names a term.
const (
	sqlFence = `SELECT count(*) FROM leaders WHERE shard = ? AND holder = ? AND epoch = ?`

	sqlTakeover = `INSERT INTO leaders (shard, holder, epoch, expires_at) VALUES (?1, ?2, 1, ?3)
 ON CONFLICT (shard) DO UPDATE SET holder = excluded.holder, epoch = leaders.epoch + 1, expires_at = excluded.expires_at
 WHERE ?4 OR leaders.expires_at <= ?5`
	sqlRenew  = `UPDATE leaders SET expires_at = ? WHERE shard = ? AND holder = ? AND epoch = ? AND expires_at > ?`
	sqlResign = `UPDATE leaders SET expires_at = min(expires_at, ?) WHERE shard = ? AND holder = ? AND epoch = ?`
	sqlLeader = `SELECT holder, epoch, expires_at FROM leaders WHERE shard = ?`
)

// Workflow versions.
const (
	sqlPutWorkflow = `INSERT INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at) VALUES (?, ?, ?, ?, ?)
 ON CONFLICT (workflow_id, version) DO NOTHING`
	sqlGetWorkflow   = `SELECT workflow_id, version, dag, dag_hash, created_at FROM workflow_versions WHERE workflow_id = ? AND version = ?`
	sqlListWorkflows = `SELECT workflow_id, version, NULL, dag_hash, created_at FROM workflow_versions
 WHERE workflow_id = ? AND version < ? ORDER BY version DESC LIMIT ?`
	sqlLoadDAG = `SELECT dag FROM workflow_versions WHERE workflow_id = ? AND version = ?`
)
