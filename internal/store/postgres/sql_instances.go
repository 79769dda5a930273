package postgres

// serverGeneration changes when the server restarts (first part) and when it
// recovers from the crash of one of its processes (second part). Both free the
// locks of sessions whose processes live.
const serverGeneration = `concat_ws('-', (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
	(SELECT (extract(epoch FROM b.stats_reset) * 1000000)::bigint FROM pg_stat_bgwriter b))`

// The statements of a session that holds a presence lock. The first key is "carp"
// in ASCII, so that no other lock is taken for one.
const (
	TakePresence     = `SELECT pg_advisory_lock(1667330672, $1)`
	ServerGeneration = `SELECT ` + serverGeneration
)

// sqlHolders tries the presence locks of instances. A lock that is free is shared
// until the transaction ends, so that several can prove at once.
const (
	sqlHolders     = holders + `i.instance_no = ANY($1::integer[])`
	sqlHoldersByID = holders + `i.instance_id = ANY($1::text[])`
	// sqlHoldersSeen: a lease is over long before a process has not been seen for so long.
	sqlHoldersSeen = holders + `i.seen_at > clock_timestamp() - interval '1 minute'`

	holders = `
SELECT i.instance_no, i.instance_id, i.server_generation, ` + serverGeneration + `, pg_try_advisory_xact_lock_shared(1667330672, i.instance_no)
FROM instances i WHERE `
)

// sqlFreeOfGone frees the keys of admitted runs that processes hold that are gone, and makes
// them due for a sweep.
const sqlFreeOfGone = `
UPDATE open_runs SET holder = NULL, lease_until = NULL, send_after = NULL, due_at = $2 WHERE idempotency_key = ANY(ARRAY(
	SELECT o.idempotency_key FROM open_runs o
	WHERE o.queue_state = 4 AND o.holder = ANY($1::integer[]) AND o.lease_until > $2 FOR UPDATE SKIP LOCKED))`

// sqlRegister: DEFAULT draws another number. Without a generation the number is no
// proof of anything until its lock is held.
const sqlRegister = `
INSERT INTO instances (instance_id, host, started_at, seen_at) VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (instance_id) DO UPDATE SET instance_no = DEFAULT, server_generation = '', seen_at = excluded.seen_at
RETURNING instance_no`

const sqlConfirmPresence = `
UPDATE instances SET server_generation = $2, seen_at = clock_timestamp() WHERE instance_no = $1`

// sqlHeartbeat updates first: each INSERT draws a number, also one that ends in an
// update, and numbers have 31 bits.
const sqlHeartbeat = `
WITH seen AS (
	UPDATE instances SET host = $2, version = $3, roles = COALESCE($4::text[], '{}'), features = COALESCE($5::text[], '{}'), unhealthy = $6, seen_at = clock_timestamp()
	WHERE instance_id = $1 RETURNING 1)
INSERT INTO instances (instance_id, host, version, roles, features, unhealthy, started_at, seen_at)
SELECT $1, $2, $3, COALESCE($4::text[], '{}'), COALESCE($5::text[], '{}'), $6, $7, clock_timestamp() WHERE NOT EXISTS (SELECT FROM seen)
ON CONFLICT (instance_id) DO NOTHING`

const sqlLeave = `
UPDATE instances SET roles = '{}' WHERE instance_id = $1`

const sqlInstances = `
SELECT instance_no, instance_id, host, version, roles, features, unhealthy, server_generation, started_at, seen_at FROM instances
WHERE seen_at > clock_timestamp() - $1::interval AND roles <> '{}'
ORDER BY instance_id COLLATE "C"`

// sqlPruneInstances keeps the row of a process that an open call still names: it may be
// the proof that the process is gone.
const sqlPruneInstances = `
DELETE FROM instances WHERE instance_no = ANY(ARRAY(
	SELECT i.instance_no FROM instances i
	WHERE i.seen_at < clock_timestamp() - interval '1 day'
		AND NOT EXISTS (SELECT FROM open_runs o WHERE (o.state = 3 OR o.queue_state >= 4) AND o.holder = i.instance_no)
	ORDER BY i.seen_at LIMIT $1))`
