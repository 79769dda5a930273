package postgres

// Leaders. Expiry is judged and set by the database's clock.

// sqlTakeoverCount keeps the number of shards as it is for one transaction;
// sqlSetShardsCount is for the one that changes it. The first number is this
// lock's own among the advisory locks of the database.
const (
	sqlTakeoverCount  = `SELECT pg_advisory_xact_lock_shared(1128353875, 0)`
	sqlSetShardsCount = `SELECT pg_advisory_xact_lock(1128353875, 0)`
)

// sqlTakeoverPlace inserts the row that the next statements lock and change.
const sqlTakeoverPlace = `
INSERT INTO leaders (shard, holder, epoch, expires_at, lock_held) VALUES ($1, '', 0, to_timestamp(0), false)
ON CONFLICT (shard) DO NOTHING`

const sqlTakeoverLock = `
SELECT epoch, expires_at, expires_at <= clock_timestamp() FROM leaders WHERE shard = $1 FOR UPDATE`

// sqlTakeoverEpoch lets one transaction at a time look for the greatest epoch of all
// shards. It is taken last, so its holder waits for nothing.
const sqlTakeoverEpoch = `
SELECT pg_advisory_xact_lock(1128353875, 1)`

// sqlTakeover: a leader that had the lock is gone if another process holds it. A leader
// without the lock, or with another kind of lock, is not.
const sqlTakeover = `
UPDATE leaders SET holder = $2, epoch = 1 + (SELECT max(epoch) FROM leaders),
	expires_at = clock_timestamp() + $3::interval, lock_held = $4, lock_kind = $5
WHERE shard = $1 AND (expires_at <= clock_timestamp() OR $4 AND lock_held AND holder <> $2 AND ($5 = '' OR lock_kind IN ('', $5)))
RETURNING epoch`

// sqlTakeoverHeld lets a follower that cannot win take no lock.
const sqlTakeoverHeld = `
SELECT EXISTS (SELECT FROM leaders WHERE shard = $1 AND expires_at > clock_timestamp())`

const sqlRenew = `
UPDATE leaders SET expires_at = clock_timestamp() + $4::interval, lock_held = $5
WHERE shard = $1 AND holder = $2 AND epoch = $3 AND expires_at > clock_timestamp()
RETURNING asked_epoch IS NOT DISTINCT FROM epoch`

// sqlResignLock takes the leaders row before that of the term, as a takeover
// does.
const sqlResignLock = `
SELECT 1 FROM leaders WHERE shard = $1 AND holder = $2 AND epoch = $3 FOR UPDATE`

const sqlResign = `
UPDATE leaders SET expires_at = clock_timestamp()
WHERE shard = $1 AND holder = $2 AND epoch = $3 AND expires_at > clock_timestamp()`

const leadershipColumns = `
l.shard, l.holder, l.epoch, l.expires_at, l.expires_at <= clock_timestamp(), l.lock_held, l.lock_kind,
l.asked_epoch IS NOT DISTINCT FROM l.epoch AND l.expires_at > clock_timestamp()`

const sqlAskToResign = `
UPDATE leaders l SET asked_epoch = l.epoch
WHERE l.shard = $1 AND l.expires_at > clock_timestamp()
RETURNING` + leadershipColumns

const sqlLeaders = `
SELECT` + leadershipColumns + `
FROM leaders l ORDER BY l.shard`

// The number of shards. NULL: none is recorded.

const sqlShards = `
SELECT max(value)::integer FROM settings WHERE name = 'shards'`

const sqlSetShards = `
INSERT INTO settings (name, value) VALUES ('shards', $1::integer::text)
ON CONFLICT (name) DO UPDATE SET value = excluded.value`

// sqlSetShardsLock waits for the open batches of all terms, in order of shards.
const sqlSetShardsLock = `
SELECT 1 FROM leaders ORDER BY shard FOR UPDATE`

// sqlSetShardsEnd keeps a row for each old shard, so that epochs keep growing. The new
// shards get the least seen_until of the $1 old ones.
const sqlSetShardsEnd = `
UPDATE leaders SET holder = '', epoch = 1 + (SELECT max(epoch) FROM leaders), expires_at = to_timestamp(0), lock_held = false,
	seen_until = (SELECT min(seen_until) FROM leaders WHERE shard < $1 HAVING count(seen_until) = $1)`
