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

// sqlWake reaches every Listen, once per transaction however often it is called,
// with the first and the last bucket of the runs $1; without any it concerns all.
// Commits that notify come one after the other in the whole cluster, each waiting
// for the sync of the one before: what a term writes must not.
const sqlWake = `
SELECT pg_notify('carillon_wake', min(shard) || '-' || max(shard)) FROM schedule_runs WHERE idempotency_key = ANY($1::bytea[])`

const sqlListen = `LISTEN carillon_wake`

const sqlNow = `SELECT clock_timestamp()`

// A session, and what a lock of its own came to.
const (
	sqlProbeLock   = `SELECT pg_backend_pid()::bigint, pg_try_advisory_lock($1)`
	sqlProbeUnlock = `SELECT pg_backend_pid()::bigint, pg_advisory_unlock($1)`
)

const sqlPing = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`

// Workflows.

const sqlPutWorkflow = `
INSERT INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at, user_id) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workflow_id, version) DO NOTHING`

const sqlWorkflowHash = `
SELECT dag_hash FROM workflow_versions WHERE workflow_id = $1 AND version = $2`

const sqlGetWorkflow = `
SELECT workflow_id, version, dag, dag_hash, created_at, user_id FROM workflow_versions WHERE workflow_id = $1 AND version = $2`

const sqlListWorkflows = `
SELECT workflow_id, version, '', dag_hash, created_at, user_id FROM workflow_versions
WHERE workflow_id = $1 AND ($2 = 0 OR version < $2)
ORDER BY version DESC LIMIT $3`

const sqlLoadDAG = `
SELECT dag FROM workflow_versions WHERE workflow_id = $1 AND version = $2`
