package postgres

// Statements are constants named after their method. Two columns meet in all of
// them: r is a run, d the revision that it was planned from. These files import
// nothing, so that a test can evaluate every constant and PREPARE it.

// sqlFence must find a row, or the term is over. FOR KEY SHARE and not FOR
// SHARE: it conflicts with the FOR UPDATE of a takeover, so that a takeover
// waits for open batches and later ones see the new epoch; it does not conflict
// with the UPDATE of a renewal, which would else starve behind batches that
// overlap each other.
const sqlFence = `
SELECT 1 FROM leaders WHERE shard = $1 AND holder = $2 AND epoch = $3 FOR KEY SHARE`

// sqlWake reaches every Listen, once per transaction however often it is called.
const sqlWake = `SELECT pg_notify('carillon_wake', '')`

const sqlListen = `LISTEN carillon_wake`

const sqlNow = `SELECT clock_timestamp()`

const sqlHeartbeat = `
INSERT INTO workers (worker_id, started_at, seen_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (worker_id) DO UPDATE SET seen_at = excluded.seen_at`

// Leaders. Expiry is judged and set by the database's clock.

// sqlTakeoverPlace makes the row that the next two statements lock and change.
const sqlTakeoverPlace = `
INSERT INTO leaders (shard, holder, epoch, expires_at) VALUES ($1, '', 0, to_timestamp(0))
ON CONFLICT (shard) DO NOTHING`

const sqlTakeoverLock = `
SELECT 1 FROM leaders WHERE shard = $1 FOR UPDATE`

const sqlTakeover = `
UPDATE leaders SET holder = $2, epoch = epoch + 1, expires_at = clock_timestamp() + $3::interval
WHERE shard = $1 AND ($4 OR expires_at <= clock_timestamp())
RETURNING epoch`

// sqlTakeoverHeld spares a follower that only looks from taking any lock.
const sqlTakeoverHeld = `
SELECT EXISTS (SELECT FROM leaders WHERE shard = $1 AND expires_at > clock_timestamp())`

const sqlRenew = `
UPDATE leaders SET expires_at = clock_timestamp() + $4::interval
WHERE shard = $1 AND holder = $2 AND epoch = $3 AND expires_at > clock_timestamp()`

const sqlResign = `
UPDATE leaders SET expires_at = clock_timestamp()
WHERE shard = $1 AND holder = $2 AND epoch = $3 AND expires_at > clock_timestamp()`

const sqlLeader = `
SELECT holder, epoch, expires_at FROM leaders WHERE shard = $1`

// Workflows.

const sqlPutWorkflow = `
INSERT INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (workflow_id, version) DO NOTHING`

const sqlWorkflowHash = `
SELECT dag_hash FROM workflow_versions WHERE workflow_id = $1 AND version = $2`

const sqlGetWorkflow = `
SELECT workflow_id, version, dag, dag_hash, created_at FROM workflow_versions WHERE workflow_id = $1 AND version = $2`

const sqlListWorkflows = `
SELECT workflow_id, version, '', dag_hash, created_at FROM workflow_versions
WHERE workflow_id = $1 AND ($2 = 0 OR version < $2)
ORDER BY version DESC LIMIT $3`

const sqlLoadDAG = `
SELECT dag FROM workflow_versions WHERE workflow_id = $1 AND version = $2`
