package postgres

// owner is schedule.Owner of a run's overlap key; rank orders the rows of one
// owner as claimOrder does, but for what is not due yet. schedule_runs_turns has
// both.
const (
	owner = `left(r.overlap_key, -1 - length(split_part(r.overlap_key, '/', -1)))`
	rank  = `((r.trigger IN ('catchup','backfill'))::integer * 1000000 - r.priority)`

	inRank = `lower(r.status) = 'planned' AND r.waiting_since IS NULL` // as that index says it
)

// sqlClaimRanks hops through schedule_runs_turns from one rank of an owner to the
// next, whether anything of it is due or not, $3 times at most, and then names
// the owners of what waits or is stranded.
const sqlClaimRanks = waitingKeys + `, ranks AS (
	(SELECT ` + owner + ` AS owner, ` + rank + ` AS rank, r.fire_at FROM schedule_runs r
	WHERE ` + inRank + ` ORDER BY 1, 2, 3 LIMIT 1)
	UNION ALL
	SELECT n.* FROM ranks k CROSS JOIN LATERAL (
		SELECT ` + owner + ` AS owner, ` + rank + ` AS rank, r.fire_at FROM schedule_runs r
		WHERE ` + inRank + ` AND (` + owner + `, ` + rank + `) > (k.owner, k.rank)
		ORDER BY 1, 2, 3 LIMIT 1) n
)
SELECT owner, rank, fire_at <= $4 FROM (SELECT * FROM ranks LIMIT $3) k
UNION ALL
SELECT DISTINCT ` + owner + `, NULL::integer, true FROM (` + waitingHeads + ` UNION ALL ` + stranded + `) r`

// sqlClaimTurns is sqlClaimCandidates where more is due than can be launched: of
// every rank ($8, $9) it reads no more than $3, and than its owner has room for
// ($10), in the order of claims.
const sqlClaimTurns = waitingKeys + `, candidates AS (
	SELECT r.*, false AS stranded, false AS waits
	FROM unnest($8::text[], $9::integer[], $10::integer[]) AS k(owner, rank, room) CROSS JOIN LATERAL (
		SELECT` + candidateColumns + ` FROM schedule_runs r
		WHERE ` + inRank + ` AND ` + owner + ` = k.owner AND ` + rank + ` = k.rank AND r.fire_at <= $4
			AND NOT (` + missed + `) AND ` + ours + ` AND ` + unblocked + `
		ORDER BY r.fire_at, r.run_at, r.idempotency_key LIMIT least(k.room, $3::integer)) r` + andOthers

// sqlClaimTurnsOfAll takes turns itself, of so many owners that it is cheaper to
// rank all that is due than to go from one to the next: 60 ms for 30,000 rows. Of
// each owner ($8) he gets no more than there is room for ($9), and of all no more
// than $3: the first of each before the second of any. Each candidate carries
// what room its owner has: a join at the end would compare every one of them with
// every owner.
const sqlClaimTurnsOfAll = waitingKeys + `, rooms AS (
	SELECT o.owner COLLATE "C" AS owner, o.room FROM unnest($8::text[], $9::integer[]) AS o(owner, room)
), candidates AS (
	SELECT` + candidateColumns + `, false AS stranded, false AS waits, o.owner, o.room
	FROM schedule_runs r` + roomOf + ` WHERE ` + soon + ` AND ` + ours + ` AND ` + unblocked + `
	UNION ALL
	SELECT r.*, o.owner, o.room FROM (` + waitingHeads + ` UNION ALL ` + stranded + `) r` + roomOf + `
), ranked AS (
	SELECT r.*, row_number() OVER (PARTITION BY r.owner, r.stranded ORDER BY ` + claimOrder + `) AS place FROM candidates r
)
SELECT` + candidateOutcome + `
FROM (
	SELECT r.* FROM ranked r WHERE r.place <= r.room OR r.stranded
	ORDER BY r.fire_at > $1, r.trigger IN ('catchup','backfill'), r.place, ` + claimOrder + ` LIMIT $3) r` + haltedOf

const roomOf = ` CROSS JOIN LATERAL (SELECT * FROM rooms o WHERE o.owner = ` + owner + ` OFFSET 0) o`

// sqlClaimOwners are the owners of what sqlClaimTurnsOfAll chooses from.
const sqlClaimOwners = waitingKeys + `
SELECT ` + owner + ` FROM schedule_runs r WHERE ` + soon + ` AND ` + ours + `
UNION SELECT ` + owner + ` FROM (` + waitingHeads + `) r
UNION SELECT ` + owner + ` FROM ` + stranded + ` r`
