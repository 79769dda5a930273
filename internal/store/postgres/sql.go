package postgres

// Statements are constants named sql and after their method, in its file or in one of
// their own. They name only other constants of this package: a test evaluates and prepares
// each. r is a run, d the revision that it was planned from.

// sqlFence must find a row, or the term is over. FOR KEY SHARE and not FOR
// SHARE: it conflicts with the FOR UPDATE of a takeover, so that a takeover
// waits for open batches and later ones see the new epoch; it does not conflict
// with the UPDATE of a renewal, which would else starve behind batches that
// overlap each other.
const sqlFence = `
SELECT 1 FROM leaders WHERE shard = $1 AND holder = $2 AND epoch = $3 FOR KEY SHARE`

// sqlWake notifies each Listen with the first and last changed bucket. Commits that notify
// are serialized in the whole cluster, each waits for the sync of the one before: only
// notifier uses it, outside of transactions.
const sqlWake = `
SELECT pg_notify('carillon_wake', $1)`

const sqlListen = `LISTEN carillon_wake`

// Runs wait in queues, or have left them.
const (
	sqlWakeQueues   = `SELECT pg_notify('carillon_queue', '')`
	sqlListenQueues = `LISTEN carillon_queue`
)

const sqlNow = `SELECT clock_timestamp()`

// A session, and the result of its lock.
const (
	sqlProbeLock   = `SELECT pg_backend_pid()::bigint, pg_try_advisory_lock($1)`
	sqlProbeUnlock = `SELECT pg_backend_pid()::bigint, pg_advisory_unlock($1)`
)

const sqlPing = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`

// Workflows.

// sqlListWorkflows: $3 is null for everybody's, $4 and $5 name the last row of the page
// before.
const sqlListWorkflows = `
SELECT workflow_id, version, '', dag_hash, created_at, user_id FROM workflow_versions
WHERE workflow_id = $1 AND ($2 = 0 OR version = $2)
	AND ($3::text[] IS NULL OR user_id = ANY($3::text[]))
	AND ($4 = 0 OR (version, user_id) < ($4, $5))
ORDER BY version DESC, user_id DESC LIMIT $6`

const sqlWorkflowAccess = `
SELECT EXISTS (SELECT FROM workflow_versions v WHERE v.workflow_id = u.workflow_id AND v.user_id = u.user_id AND v.version = u.version),
	EXISTS (SELECT FROM workflow_shares s WHERE s.workflow_id = u.workflow_id AND s.user_id IN (u.user_id, '*'))
FROM unnest($1::text[], $2::text[], $3::int[]) WITH ORDINALITY AS u (user_id, workflow_id, version, n)
ORDER BY u.n`

// sqlGiveWorkflows inserts in the order of the key, so that two of them never wait
// for each other.
const sqlGiveWorkflows = `
INSERT INTO workflow_shares (workflow_id, user_id, given_by, given_at)
SELECT DISTINCT ON (g.workflow_id, g.user_id) g.workflow_id, g.user_id, g.given_by, g.given_at
FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::timestamptz[]) AS g (workflow_id, user_id, version, given_by, given_at)
WHERE NOT EXISTS (SELECT FROM workflow_versions v WHERE v.workflow_id = g.workflow_id AND v.user_id = g.user_id AND v.version = g.version)
	AND NOT EXISTS (SELECT FROM workflow_shares s WHERE s.workflow_id = g.workflow_id AND s.user_id IN (g.user_id, '*'))
ORDER BY g.workflow_id, g.user_id
ON CONFLICT (workflow_id, user_id) DO NOTHING`
