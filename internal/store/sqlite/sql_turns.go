package sqlite

// Claim where more is due than can be launched: owner by owner.
const (
	// owner is schedule.Owner of a run's overlap key; rank orders the rows of one
	// owner as claimOrder does. schedule_runs_turns has both.
	owner = `substr(r.overlap_key, 1, length(rtrim(r.overlap_key, replace(r.overlap_key, '/', ''))) - 1)`
	rank  = `(r.trigger IN ('catchup','backfill')) * 1000000 - r.priority`

	rankColumns = ` ` + owner + `, ` + rank + `, r.fire_at FROM schedule_runs r INDEXED BY schedule_runs_turns
 WHERE r.status = 'PLANNED' AND r.waiting_since IS NULL`

	// sqlClaimRank is the first row of the first rank, sqlClaimNextRank that of the
	// next rank of the same owner, sqlClaimNextOwner that of the next owner.
	sqlClaimRank      = `SELECT` + rankColumns + ` ORDER BY 1, 2, 3 LIMIT 1`
	sqlClaimNextRank  = `SELECT` + rankColumns + ` AND ` + owner + ` = ?1 AND ` + rank + ` > ?2 ORDER BY 1, 2, 3 LIMIT 1`
	sqlClaimNextOwner = `SELECT` + rankColumns + ` AND ` + owner + ` > ?1 ORDER BY 1, 2, 3 LIMIT 1`

	// sqlClaimOfRank is what is due of one rank of one owner, at one instant in the
	// order in which it was put down.
	sqlClaimOfRank = `SELECT ` + turnColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_turns
 WHERE ` + claimable + ` AND r.shard BETWEEN ?5 AND ?6 AND ` + owner + ` = ?7 AND ` + rank + ` = ?8 AND ` + unblocked + `
 ORDER BY r.fire_at, r.run_at, r.rowid LIMIT ?3`

	// The owners of what sqlClaimTurns chooses from.
	sqlClaimOwners = `WITH ` + waitingKeys + `
 SELECT ` + owner + ` FROM schedule_runs r INDEXED BY schedule_runs_due WHERE ` + claimable + ` AND r.shard BETWEEN ?5 AND ?6
 UNION SELECT ` + owner + ready

	// sqlClaimTurns is for so many owners (?7, each with so much room) that it is
	// cheaper to rank all that is due: the first of each before the second of any.
	sqlClaimTurns = `WITH ` + waitingKeys + `, candidates AS (
  SELECT ` + rankedColumns + ` FROM schedule_runs r INDEXED BY schedule_runs_due WHERE ` + claimable + ` AND r.shard BETWEEN ?5 AND ?6 AND ` + unblocked + `
  UNION ALL SELECT ` + rankedColumns + ready + `
 ), ranked AS (
  SELECT r.*, ` + owner + ` AS owner, row_number() OVER (PARTITION BY ` + owner + ` ORDER BY r.fire_at > ?1, ` + claimOrder + `) AS place
   FROM candidates r
 ), rooms AS MATERIALIZED (SELECT value ->> 0 AS owner, value ->> 1 AS room FROM json_each(?7))
 SELECT ` + turnColumns + ` FROM ranked r JOIN rooms o ON o.owner = r.owner AND r.place <= o.room
 ORDER BY r.fire_at > ?1, r.trigger IN ('catchup','backfill'), r.place, ` + claimOrder + ` LIMIT ?3`
	rankedColumns = `r.rowid AS rowid, r.idempotency_key, r.schedule_id, r.overlap_key, r.exclusive, r.trigger, r.priority, r.fire_at, r.run_at`
)
