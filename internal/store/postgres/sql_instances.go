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

	holders = `
SELECT i.instance_no, i.instance_id, i.server_generation, ` + serverGeneration + `, pg_try_advisory_xact_lock_shared(1667330672, i.instance_no)
FROM instances i WHERE `
)

// sqlRegisterInstance: DEFAULT draws another number. Without a generation the
// number is no proof of anything until its lock is held.
const sqlRegisterInstance = `
INSERT INTO instances (instance_id, host, started_at, seen_at) VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (instance_id) DO UPDATE SET instance_no = DEFAULT, server_generation = '', seen_at = excluded.seen_at
RETURNING instance_no`

const sqlConfirmInstance = `
UPDATE instances SET server_generation = $2, seen_at = clock_timestamp() WHERE instance_no = $1`

const sqlSeeInstance = `
UPDATE instances SET seen_at = clock_timestamp() WHERE instance_no = $1`

// sqlPruneInstances: leases of these instances have ended long ago.
const sqlPruneInstances = `
DELETE FROM instances WHERE seen_at < clock_timestamp() - interval '1 day'`
