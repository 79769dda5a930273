package postgres

// sqlClaimGuard makes the claims of one shard follow each other. With it the
// schedules need only FOR KEY SHARE (sqlClaimLock), which waits for edits but
// not for the planner: a slot every minute is planned in the very second in
// which the one before is claimed.
const sqlClaimGuard = `
SELECT pg_advisory_xact_lock(1128352844, $1)`

// claimOrder is due before what is only armed, on-time before catch-up and
// backfill, then priority; $1 = now.
const claimOrder = `r.fire_at > $1, r.trigger IN ('catchup','backfill'), r.priority DESC, r.fire_at, r.run_at, r.idempotency_key`

const candidateColumns = `
r.idempotency_key, r.schedule_id, r.revision, r.overlap_key, r.exclusive, r.trigger, r.priority, r.fire_at, r.run_at, r.shard, r.ctid AS found_at`

// due is planned and due, soon due or so within the time to be armed; $1 = now,
// $2 = now - grace, $4 = now + ahead. Missable rows later than the grace are
// the planner's.
const (
	due  = `r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= $1 AND NOT (` + missed + `)`
	soon = `r.status = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= $4 AND NOT (` + missed + `)`
)

// ours is what of the runs is in the term's buckets; see sqlPlanDue.
const ours = `CASE WHEN r.shard < $5 THEN false ELSE r.shard <= $6 END`

const missed = `r.trigger = 'schedule' AND r.judged_at IS NULL AND r.fire_at < $2 AND r.run_at < $2`

// halted says why a row must not fire whatever its policy: its schedule is
// deleted or, for slots, paused. Changes end such rows; this is for those that
// got past them.
const halted = `CASE
	WHEN s.schedule_id IS NULL OR s.deleted_at IS NOT NULL THEN 'deleted'
	WHEN s.paused AND (s.paused_until IS NULL OR s.paused_until > $1) AND r.trigger IN ('schedule','catchup') THEN 'paused'
	ELSE '' END`

// sqlClaimCandidates is what a claim begins with: due rows, the first row of every
// overlap key on which rows wait and nothing is in flight, and what is stranded:
// too late for a claim, and passed over by the planner because its schedule is
// halted. (The exclusive ones are looked at with their groups, whether halted or
// not.) Of the due and the stranded rows it reads $3 at most; what of the whole
// comes first the caller finds out: to sort 1,000 rows by six columns that are
// mostly alike takes Postgres as long as to read them.
// waiting_keys hops from key to key through schedule_runs_waiting_turn, whose form
// of the condition is no other index's: schedule_runs_planned holds all rows that
// wait, too, and may be read whole where the statistics have it empty; DISTINCT ON
// read every waiting row (100 keys with 100 rows each: 15 ms against 6 ms). It
// hops over the keys of other shards as well, whose first row says that they are.
const sqlClaimCandidates = claimFrom + claimOrder + claimUpTo

// sqlClaimFirst is the same in the order of schedule_runs_due, whatever comes
// first in a claim: if it finds fewer than $3 rows those are all there are, and
// if not, it has not sorted 27,000 to say so.
const sqlClaimFirst = claimFrom + `r.fire_at, r.priority DESC` + claimUpTo

const (
	claimFrom = waitingKeys + `, candidates AS (
	(SELECT` + candidateColumns + `, false AS stranded, false AS waits FROM schedule_runs r WHERE ` + soon + ` AND ` + ours + ` AND ` + unblocked + ` ORDER BY `

	claimUpTo = ` LIMIT $3)` + andOthers

	// andOthers ends a reading of candidates: after what is due come the heads of what
	// waits, and what is stranded.
	andOthers = `
	UNION ALL
	` + waitingHeads + `
	UNION ALL
	` + stranded + `
)
SELECT` + candidateOutcome + `
FROM candidates r` + haltedOf

	// unblocked leaves out what could only be armed and cannot be, since another
	// run of its overlap key is in flight: of a stream of slots the next are there
	// before those before have settled, and each pass would judge them in vain.
	unblocked = `(r.fire_at <= $1 OR NOT r.exclusive OR ` + noneExclusive + `)`

	// noneExclusive: no exclusive run of the row's overlap key is in flight.
	noneExclusive = `(SELECT true FROM schedule_runs f
		WHERE f.overlap_key = r.overlap_key AND f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED') LIMIT 1) IS NULL`

	// haltedOf looks up the schedules of candidates that are not looked at with
	// their groups; under a NULL there is nothing to look up.
	haltedOf = `
LEFT JOIN schedules s ON s.schedule_id = CASE WHEN r.stranded OR NOT r.exclusive THEN r.schedule_id END`
)

// The parts of a reading of candidates.
const (
	waitingKeys = `
WITH RECURSIVE waiting_keys AS (
	(SELECT overlap_key FROM schedule_runs WHERE upper(status) = 'PLANNED' AND waiting_since IS NOT NULL ORDER BY overlap_key LIMIT 1)
	UNION ALL
	SELECT (SELECT w.overlap_key FROM schedule_runs w
		WHERE upper(w.status) = 'PLANNED' AND w.waiting_since IS NOT NULL AND w.overlap_key > k.overlap_key
		ORDER BY w.overlap_key LIMIT 1)
	FROM waiting_keys k WHERE k.overlap_key IS NOT NULL
)`

	waitingHeads = `SELECT r.* FROM waiting_keys k CROSS JOIN LATERAL (
		SELECT` + candidateColumns + `, false, true FROM schedule_runs r
		WHERE r.overlap_key = k.overlap_key AND upper(r.status) = 'PLANNED' AND r.waiting_since IS NOT NULL
		ORDER BY r.fire_at, r.run_at, r.idempotency_key LIMIT 1) r
	WHERE k.overlap_key IS NOT NULL AND ` + ours + ` AND NOT EXISTS (SELECT FROM schedule_runs f
		WHERE f.overlap_key = k.overlap_key AND f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED'))
		AND NOT EXISTS (SELECT FROM schedule_runs f
		WHERE f.overlap_key = k.overlap_key AND NOT f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED'))`

	stranded = `(SELECT` + candidateColumns + `, true, false FROM schedule_runs r LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
	WHERE $7::boolean AND r.status = 'PLANNED' AND r.waiting_since IS NULL AND ` + missed + ` AND ` + ours + ` AND ` + halted + ` <> ''
	ORDER BY r.fire_at LIMIT $3)`

	candidateOutcome = ` r.idempotency_key, r.schedule_id, r.revision, r.overlap_key, r.exclusive,
	CASE WHEN r.exclusive AND NOT r.stranded THEN '' ELSE ` + halted + ` END,
	r.fire_at, r.run_at, r.priority, r.trigger IN ('catchup','backfill'), r.stranded, r.waits, r.found_at`
)

// sqlClaimGuard to here is every claim; sql_turns.go is where more is due than
// can be launched.

// sqlClaimLock takes the schedules that have one of the overlap keys ($1) now, and
// sqlClaimLockNamed those whose rows have one from before an edit; see sqlClaimGuard.
// Whether anything of a schedule is halted ($2 = now) holds until the transaction
// ends: who changes it waits for the lock.
const (
	sqlClaimLock      = lockSchedules + `s.user_id || '/' || s.overlap_key` + inLockOrder
	sqlClaimLockNamed = lockSchedules + `s.schedule_id` + inLockOrder

	lockSchedules = `
SELECT s.schedule_id, s.user_id || '/' || s.overlap_key,
	s.deleted_at IS NOT NULL OR s.paused AND coalesce(s.paused_until > $2, true)
FROM schedules s WHERE `
	inLockOrder = ` = ANY($1::text[]) ORDER BY s.schedule_id FOR KEY SHARE`
)

// What overlap is judged on is read after the locks. OFFSET 0 has each key
// looked up by itself: for a join, a planner that believes a partial index to be
// empty compares each of its rows with every key (760 ms for 60,000 due rows).
// Where there is no row of a kind at all, as mostly, no key is asked for it.
const (
	groupsBeside = `
SELECT` + runColumns + `, '' FROM unnest($3::text[]) AS k(overlap_key) CROSS JOIN LATERAL (
	(SELECT * FROM schedule_runs f
	WHERE f.overlap_key = k.overlap_key AND f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED') OFFSET 0)
	UNION ALL
	(SELECT * FROM schedule_runs f
	WHERE (` + otherInFlight + ` LIMIT 1) AND f.overlap_key = k.overlap_key AND NOT f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED') OFFSET 0)) r
UNION ALL
SELECT` + runColumns + `, ` + halted + ` FROM unnest($3::text[]) AS k(overlap_key) CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs w
	WHERE (` + someWaiting + ` LIMIT 1) AND w.overlap_key = k.overlap_key AND upper(w.status) = 'PLANNED' AND w.waiting_since IS NOT NULL OFFSET 0) r
LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
UNION ALL
SELECT` + runColumns + `, ` + halted + ` FROM `

	// sqlClaimLone takes candidates of whose overlap key no other was found unjudged,
	// without a look beforehand: what is left was not alone, or is gone. $5: the
	// candidates are not all there is. Each row is looked for where it was found
	// (its ctid), which is cheaper than by its key. EXISTS would be an anti-join, and
	// that has read all that is in flight for each row.
	sqlClaimLone = `
UPDATE schedule_runs r SET status = 'LAUNCHING', epoch = $6,
	claimed_at = coalesce(r.claimed_at, $1), claimed_until = $7, timeout_at = u.timeout_at, updated_at = $1
FROM unnest($3::bytea[], $8::timestamptz[], $9::bigint[], $10::tid[]) AS u(key, timeout_at, revision, place)
WHERE r.ctid = u.place AND r.idempotency_key = u.key AND r.revision = u.revision
	AND r.exclusive AND r.status || '' = 'PLANNED' AND r.waiting_since IS NULL AND r.fire_at <= $4 AND NOT (` + missed + `)
	AND ` + noneExclusive + `
	AND ((` + otherInFlight + ` LIMIT 1) IS NULL OR (` + otherInFlight + ` AND f.overlap_key = r.overlap_key LIMIT 1) IS NULL)
	AND ((` + someWaiting + ` LIMIT 1) IS NULL OR (` + someWaiting + ` AND f.overlap_key = r.overlap_key LIMIT 1) IS NULL)
	AND NOT ($5::boolean AND (SELECT true FROM schedule_runs o
		WHERE o.schedule_id = r.schedule_id AND o.status = 'PLANNED' AND o.fire_at <= $4 AND o.idempotency_key <> r.idempotency_key LIMIT 1) IS NOT NULL)
RETURNING` + runColumns

	otherInFlight = `SELECT true FROM schedule_runs f WHERE NOT f.exclusive AND f.status IN ('LAUNCHING','ENQUEUED','STARTED')`
	someWaiting   = `SELECT true FROM schedule_runs f WHERE upper(f.status) = 'PLANNED' AND f.waiting_since IS NOT NULL`

	// sqlClaimGroups is for candidates that are all there is: it reads them again.
	sqlClaimGroups = groupsBeside + `unnest($5::bytea[]) AS k(key) CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs c WHERE c.idempotency_key = k.key OFFSET 0) r
LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE r.exclusive AND ` + soon

	// sqlClaimGroupsBeyond is for candidates that are not all there is: the limit
	// ends what is launched, not what the judge sees. It looks under the schedules
	// of sqlClaimLock; a walk over all that is due took 20 ms for 30,000 rows. A list
	// of keys is walked for each row, and so is a join's; a subselect that is no
	// condition by itself is hashed once.
	sqlClaimGroupsBeyond = groupsBeside + `unnest($5::text[]) AS k(schedule_id) CROSS JOIN LATERAL (
	SELECT * FROM schedule_runs c WHERE c.schedule_id = k.schedule_id AND c.status = 'PLANNED' AND c.fire_at <= $4 OFFSET 0) r
LEFT JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE (r.overlap_key IN (SELECT unnest($3::text[]))) IS TRUE AND r.exclusive AND ` + soon
)

// sqlClaim: fire_at again, because a plan may have put a late row off since it
// was read; and the revision, because an edit may have put another row in its
// place, which nobody has judged. Here and wherever rows come by key, the status is compared in a form
// that matches no partial index: where statistics lag behind a herd, those look
// empty, and cheaper than the primary key.
const (
	sqlClaim     = takeRuns + ` RETURNING` + runColumns
	sqlClaimRead = takeRuns + ` RETURNING` + claimColumns

	takeRuns = `
UPDATE schedule_runs r SET status = 'LAUNCHING', epoch = $1,
	claimed_at = coalesce(r.claimed_at, $2), claimed_until = $3, timeout_at = u.timeout_at,
	waiting_since = NULL, updated_at = $2
FROM unnest($4::bytea[], $5::timestamptz[], $7::bigint[]) AS u(key, timeout_at, revision)
WHERE r.idempotency_key = u.key AND r.revision = u.revision AND r.status || '' = 'PLANNED' AND r.fire_at <= $6`

	// claimColumns are what a claim changes, and what a plan may have changed.
	claimColumns = `
r.idempotency_key, r.fire_at, r.trigger, r.judged_at, r.epoch, r.claimed_at, r.claimed_until, r.timeout_at, r.updated_at`
)

const sqlClaimWait = `
UPDATE schedule_runs r SET waiting_since = $1, updated_at = $1
WHERE r.idempotency_key = ANY($2::bytea[]) AND r.status || '' = 'PLANNED' AND r.waiting_since IS NULL`

const sqlClaimCancel = `
UPDATE schedule_runs r SET cancel_requested_at = $1, cancel_reason = u.reason, updated_at = $1
FROM unnest($2::bytea[], $3::text[]) AS u(key, reason)
WHERE r.idempotency_key = u.key AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED') AND r.cancel_requested_at IS NULL
RETURNING` + runColumns

// sqlClaimStamp marks what is left behind as seen in time, so many rows at once:
// a row costs as much as its claim, and in a herd that is the launches' time.
// It begins with the latest, while the next claims take from the other end, and
// ends where all are stamped ($6; package seen). $7: what was due by then.
// updated_at stays: nothing that anybody watches has changed, and with its index
// left alone the new row can stand on the page of the old one.
const sqlClaimStamp = `
UPDATE schedule_runs r SET judged_at = $1
WHERE r.status || '' = 'PLANNED' AND r.judged_at IS NULL AND r.idempotency_key = ANY(ARRAY(
	SELECT r.idempotency_key FROM schedule_runs r
	WHERE ` + due + ` AND r.fire_at > $6 AND r.fire_at <= $7 AND r.trigger = 'schedule' AND r.judged_at IS NULL
		AND CASE WHEN r.shard < $4 THEN false ELSE r.shard <= $5 END
	ORDER BY r.fire_at DESC LIMIT $3))`

// reclaimable is what may be sent again; $1 = epoch, $2 = now, $3 and $4 = the
// term's buckets. A scalar subselect is looked up by key for each row that needs
// it; EXISTS might be planned as one reading of all that is DONE.
const reclaimable = `lower(r.status) = 'launching' AND (r.cancel_requested_at IS NULL
		OR (SELECT e.state = 'DONE' FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key))
		AND CASE WHEN r.shard < $3 THEN false ELSE r.shard <= $4 END AND `

// reclaimableRuns are its pieces of schedule_runs_launching: a herd that is in
// flight lies between them, and is not read. What other shards have in flight is
// of the epochs that stand in leaders, and what this term may send again is not:
// a change of the number of shards gives every row a new epoch. What is between
// the epochs of leaders is of terms that are over.
const reclaimableRuns = `(
	SELECT r.* FROM (
		SELECT lag(l.epoch, 1, -1::bigint) OVER (ORDER BY l.epoch) AS beyond, l.epoch AS before FROM leaders l WHERE l.epoch <= $1) ended
	CROSS JOIN LATERAL (
		SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch > ended.beyond AND r.epoch < ended.before OFFSET 0) r
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch = $1 AND r.claimed_until IS NULL
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch = $1 AND r.claimed_until <= $2
	UNION ALL
	SELECT r.* FROM schedule_runs r WHERE ` + reclaimable + `r.epoch > (SELECT max(l.epoch) FROM leaders l)
		AND (r.claimed_until IS NULL OR r.claimed_until <= $2))`

// sqlReclaimOwners are the owners of what sqlReclaim chooses from: mostly none.
const sqlReclaimOwners = `
SELECT DISTINCT ` + owner + ` FROM ` + reclaimableRuns + ` r`

// sqlReclaim takes $6 rows at most, of each owner ($7) so many as he has room
// for ($8): the first of each before the second of any.
const sqlReclaim = `
UPDATE schedule_runs r SET epoch = $1, claimed_until = $5, updated_at = $2
WHERE r.status || '' = 'LAUNCHING' AND r.idempotency_key = ANY(ARRAY(
	SELECT r.idempotency_key FROM schedule_runs r
	WHERE r.idempotency_key = ANY(ARRAY(
		SELECT r.idempotency_key FROM (
			SELECT r.idempotency_key, r.fire_at, r.run_at, ` + owner + ` AS owner, row_number() OVER (
				PARTITION BY ` + owner + ` ORDER BY r.fire_at, r.run_at, r.idempotency_key) AS place
			FROM ` + reclaimableRuns + ` r) r
		JOIN unnest($7::text[], $8::integer[]) AS o(owner, room) ON o.owner = r.owner AND r.place <= o.room
		ORDER BY r.place, r.fire_at, r.run_at, r.idempotency_key LIMIT $6))
		AND ` + reclaimable + `(r.epoch < $1 OR r.claimed_until IS NULL OR r.claimed_until <= $2)
	FOR UPDATE SKIP LOCKED))
RETURNING` + runColumns

const sqlNextFireAt = `
SELECT fire_at FROM schedule_runs
WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at > $1
	AND CASE WHEN shard < $2 THEN false ELSE shard <= $3 END
ORDER BY fire_at LIMIT 1`

const sqlCancelsDue = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.cancel_requested_at IS NOT NULL AND lower(r.status) IN ('launching','enqueued','started')
	AND CASE WHEN r.shard < $2 THEN false ELSE r.shard <= $3 END
ORDER BY r.cancel_requested_at, r.idempotency_key LIMIT $1`

const sqlGauges = `
SELECT
	(SELECT count(*) FROM schedule_runs WHERE lower(status) = 'launching' AND shard BETWEEN $2 AND $3)
		+ (SELECT count(*) FROM schedule_runs WHERE lower(status) IN ('enqueued','started') AND shard BETWEEN $2 AND $3),
	(SELECT count(*) FROM schedule_runs WHERE upper(status) = 'PLANNED' AND waiting_since IS NOT NULL AND shard BETWEEN $2 AND $3),
	(SELECT count(*) FROM schedule_runs WHERE status = 'PLANNED' AND waiting_since IS NULL AND fire_at <= $1 AND shard BETWEEN $2 AND $3)`
