package sqlite

// One constant per statement, named after the method that runs it. Arguments
// are numbered where a statement uses one twice, and bound in order elsewhere.
// Lists come as one JSON array (json_each), keys in it as hex (unhex).
//
// Hot statements say INDEXED BY: SQLite has no statistics of the rows, and would
// read a history instead of the few rows that are due.

const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`

	sqlBeginReading = `BEGIN` // by the log, one state throughout
	// PASSIVE does not wait.
	sqlCheckpoint = `PRAGMA wal_checkpoint(PASSIVE)`

	sqlWaitShort = `PRAGMA busy_timeout = 50`
	sqlWaitLong  = `PRAGMA busy_timeout = 5000`

	// sqlDataVersion changes with each commit of another connection.
	sqlDataVersion = `PRAGMA data_version`

	sqlPing         = `SELECT count(*) FROM sqlite_schema`
	sqlHasInstances = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'instances'`
	sqlLastSeen     = `SELECT max(seen_at) FROM instances`
)

// Leaders. Fence comes first in every transaction that names a term.
const (
	sqlFence = `SELECT count(*) FROM leaders WHERE shard = ? AND holder = ? AND epoch = ?`

	// A leader that had the lock is gone when another has it; one that leads
	// without it is not, nor is one whose lock is of another kind.
	sqlTakeover = `INSERT INTO leaders (shard, holder, epoch, expires_at, lock_held, lock_kind)
 SELECT ?1, ?2, 1 + COALESCE(max(epoch), 0), ?3, ?4, ?6 FROM leaders WHERE true
 ON CONFLICT (shard) DO UPDATE SET holder = excluded.holder, epoch = excluded.epoch, expires_at = excluded.expires_at,
  lock_held = excluded.lock_held, lock_kind = excluded.lock_kind
 WHERE leaders.expires_at <= ?5 OR ?4 AND leaders.lock_held AND leaders.holder <> ?2 AND (?6 = '' OR leaders.lock_kind IN ('', ?6))`
	sqlTerm  = `SELECT epoch, expires_at FROM leaders WHERE shard = ?`
	sqlRenew = `UPDATE leaders SET expires_at = ?, lock_held = ? WHERE shard = ? AND holder = ? AND epoch = ? AND expires_at > ?`
	sqlAsked = `SELECT asked_epoch IS epoch FROM leaders WHERE shard = ?`

	sqlResign      = `UPDATE leaders SET expires_at = min(expires_at, ?) WHERE shard = ? AND holder = ? AND epoch = ?`
	sqlAskToResign = `UPDATE leaders SET asked_epoch = epoch WHERE shard = ? AND expires_at > ?`

	// ?1 = now.
	sqlLeaders = `SELECT shard, holder, epoch, expires_at, expires_at <= ?1, lock_held, lock_kind, asked_epoch IS epoch AND expires_at > ?1
 FROM leaders ORDER BY shard`

	sqlShards    = `SELECT value FROM settings WHERE name = 'shards'`
	sqlSetShards = `INSERT INTO settings (name, value) VALUES ('shards', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	// The rows of former shards stay, so that epochs keep growing.
	sqlSetShardsEnd = `UPDATE leaders SET holder = '', epoch = 1 + (SELECT max(epoch) FROM leaders), expires_at = 0, lock_held = 0,
  seen_until = (SELECT CASE WHEN count(*) = count(seen_until) THEN min(seen_until) END FROM leaders)`
)

// Workflow versions and shares.
const (
	// ?3 is null for everybody's; ?4 and ?5 name the last row of the page before.
	sqlListWorkflows = `SELECT workflow_id, version, NULL, dag_hash, created_at, user_id FROM workflow_versions
 WHERE workflow_id = ?1 AND (?2 = 0 OR version = ?2) AND (?3 IS NULL OR user_id IN (SELECT value FROM json_each(?3)))
 AND (?4 = 0 OR (version, user_id) < (?4, ?5)) ORDER BY version DESC, user_id DESC LIMIT ?6`

	// ?1 is a JSON array of [user_id, workflow_id, version].
	sqlWorkflowAccess = `SELECT
 EXISTS (SELECT 1 FROM workflow_versions v WHERE v.workflow_id = j.value ->> 1 AND v.user_id = j.value ->> 0 AND v.version = j.value ->> 2),
 EXISTS (SELECT 1 FROM workflow_shares s WHERE s.workflow_id = j.value ->> 1 AND s.user_id IN (j.value ->> 0, '*'))
 FROM json_each(?1) j ORDER BY j.key`
	sqlGiveWorkflow = `INSERT INTO workflow_shares (workflow_id, user_id, given_by, given_at) SELECT ?1, ?2, ?4, ?5
 WHERE NOT EXISTS (SELECT 1 FROM workflow_versions WHERE workflow_id = ?1 AND user_id = ?2 AND version = ?3)
 AND NOT EXISTS (SELECT 1 FROM workflow_shares WHERE workflow_id = ?1 AND user_id IN (?2, '*'))`
)
