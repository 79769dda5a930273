package postgres

// owner is schedule.Owner of a run's overlap key; rank orders the rows of one
// owner as claimOrder does, but for what is not due yet. schedule_runs_turns has
// both.
const (
	owner = `split_part(r.overlap_key, '/', 1)`
	rank  = `((r.trigger IN ('catchup','backfill'))::integer * 1000000 - r.priority)`

	inTurns = `lower(r.status) = 'planned' AND r.waiting_since IS NULL` // as that index says it
)

// sqlClaimRanks hops through schedule_runs_turns from one rank of an owner to the
// next, whether anything of it is due or not, $3 times at most, and then names
// the owners of what waits or is stranded.
const sqlClaimRanks = waitingKeys + `, ranks AS (
	(SELECT ` + owner + ` AS owner, ` + rank + ` AS rank, r.fire_at FROM schedule_runs r
	WHERE ` + inTurns + ` ORDER BY 1, 2, 3 LIMIT 1)
	UNION ALL
	SELECT n.* FROM ranks k CROSS JOIN LATERAL (
		SELECT ` + owner + ` AS owner, ` + rank + ` AS rank, r.fire_at FROM schedule_runs r
		WHERE ` + inTurns + ` AND (` + owner + `, ` + rank + `) > (k.owner, k.rank)
		ORDER BY 1, 2, 3 LIMIT 1) n
)
SELECT owner, rank, fire_at <= $4 FROM (SELECT * FROM ranks LIMIT $3) k
UNION ALL
SELECT DISTINCT ` + owner + `, NULL::integer, true FROM (` + waitingHeads + ` UNION ALL ` + stranded + `) r`

// sqlClaimTurns is sqlClaimCandidates where more is due than can be launched, and
// owners ($8) have each so much room ($9): the first of each before the second of
// any. Of every rank ($10, $11) it reads no more than its owner has room for, and
// no more than $12. Where that cut a rank off, the last row that was read of it
// says so: what follows it comes later in every order, so if that row is not
// among the result, nothing is missing there.
const sqlClaimTurns = waitingKeys + rooms + `, candidates AS (
	SELECT` + candidateColumns + `, false AS stranded, false AS waits, $12 < o.room AND r.nth = $12 AS cut, o.owner, o.room
	FROM unnest($10::text[], $11::integer[]) AS k(owner, rank)
	JOIN rooms o ON o.owner = k.owner CROSS JOIN LATERAL (
		SELECT` + candidateColumns + `, row_number() OVER (ORDER BY r.fire_at, r.run_at, r.idempotency_key) AS nth FROM schedule_runs r
		WHERE ` + inTurns + ` AND ` + owner + ` = k.owner AND ` + rank + ` = k.rank AND r.fire_at <= $4
			AND NOT (` + missed + `) AND ` + ours + ` AND ` + unblocked + `
		ORDER BY r.fire_at, r.run_at, r.idempotency_key LIMIT least(o.room, $12::integer)) r` + inTurn

// sqlClaimTurnsOfAll is sqlClaimTurns for so many owners that it is cheaper to
// rank all that is due: 60 ms for 30,000 rows.
const sqlClaimTurnsOfAll = waitingKeys + rooms + `, candidates AS (
	SELECT` + candidateColumns + `, false AS stranded, false AS waits, false AS cut, o.owner, o.room
	FROM schedule_runs r` + roomOf + ` WHERE ` + soon + ` AND ` + ours + ` AND ` + unblocked + inTurn

// Each candidate carries its owner and what room he has: a join at the end would
// compare every one of them with every owner.
const (
	rooms = `, rooms AS (
	SELECT o.owner COLLATE "C" AS owner, o.room FROM unnest($8::text[], $9::integer[]) AS o(owner, room)
)`
	roomOf = ` CROSS JOIN LATERAL (SELECT * FROM rooms o WHERE o.owner = ` + owner + ` OFFSET 0) o`

	inTurn = `
	UNION ALL
	SELECT r.*, o.owner, o.room FROM (` + waitingHeads + ` UNION ALL ` + stranded + `) r` + roomOf + `
), ranked AS (
	SELECT r.*, row_number() OVER (PARTITION BY r.owner, r.stranded ORDER BY ` + claimOrder + `) AS place FROM candidates r
)
SELECT` + candidateOutcome + `
FROM (
	SELECT r.* FROM ranked r WHERE r.place <= r.room OR r.stranded
	ORDER BY r.fire_at > $1, r.trigger IN ('catchup','backfill'), r.place, ` + claimOrder + ` LIMIT $3) r` + haltedOf + `
ORDER BY ` + claimOrder
)

// sqlClaimOwners are the owners of what sqlClaimTurnsOfAll chooses from.
const sqlClaimOwners = waitingKeys + `
SELECT ` + owner + ` FROM schedule_runs r WHERE ` + soon + ` AND ` + ours + `
UNION SELECT ` + owner + ` FROM (` + waitingHeads + `) r
UNION SELECT ` + owner + ` FROM ` + stranded + ` r`
