package postgres

// A list merges the rows of open_runs and ended_runs. Each comes in the order of the
// page and with its limit, because a sorted view would be read as a whole. Conditions
// compare codes; only what a list returns has words.

// endedRuns and openRuns are both tables in one shape. Conditions on it use the
// indexes of the table.
var (
	endedRuns = `(SELECT ` + endedFields + ` FROM ended_runs r)`
	openRuns  = `(SELECT ` + openFields + ` FROM open_runs r)`
)

const joinSchedule = `
JOIN schedules s ON s.sid = r.sid LEFT JOIN schedule_revisions d ON d.schedule_id = s.schedule_id AND d.revision = r.revision`

const statusWord = `(ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[r.status]`

// listFilter takes the arguments of every list: $1 schedule, $2 user, $3 workflow,
// $4 statuses, $5 reason, $6 trigger, $7 and $8 bounds of run_at, $9 now, $13 run_id,
// $14 trace_id, $15 and $16 the keys of a trace, $17 due before, $18 and $19 keys,
// $20 dead, $21 error_code, $22 failure_class, $23 only these keys, $24 queue_no, $25 group_no.
// $10 and $11 are the last row of the page before, $12 is the limit.
const (
	listFilter = `
	($1 = '' OR r.sid = ` + sidOfFilter + `)
	AND ($2 = '' AND $3 = '' OR EXISTS (SELECT FROM schedules o JOIN schedule_revisions v ON v.schedule_id = o.schedule_id AND v.revision = r.revision
		WHERE o.sid = r.sid AND ($2 = '' OR v.user_id = $2) AND ($3 = '' OR v.workflow_id = $3)))
	AND (cardinality($4::smallint[]) = 0 OR r.status = ANY($4::smallint[]))
	AND ($5 = '' OR r.reason = $5)
	AND ($6::smallint = 0 OR r.trigger = $6::smallint)
	AND ($13 = '' OR r.run_id = $13)
	AND ($14 = '' OR r.trace_id = $14 OR r.idempotency_key BETWEEN $15::bytea AND $16::bytea)
	AND ($17::timestamptz IS NULL OR r.fire_at < $17 AND (r.status = 2 OR r.status = 1 AND r.waiting_since IS NULL))
	AND (NOT $20::boolean OR r.dead)
	AND ($21 = '' OR r.error_code = $21)
	AND ($22 = '' OR r.failure_class = $22)
	AND ($23::bytea[] IS NULL OR r.idempotency_key IN (SELECT unnest($23::bytea[])))
	AND ($24::integer = 0 OR r.queue_no = $24) AND ($25::integer = 0 OR r.group_no = $25)
	AND ($18::bytea IS NULL OR r.idempotency_key BETWEEN $18 AND $19::bytea)
	AND ` + listWindow

	listWindow = `r.run_at >= $7::timestamptz AND r.run_at < $8::timestamptz AND (r.status <> 1 OR r.run_at <= $9 OR 1 = ANY($4::smallint[]))`

	sidOfFilter = `(SELECT o.sid FROM schedules o WHERE o.schedule_id = $1)`
)

// The orders of a page, and what comes after the page before. The first condition is
// for the partitions: they do not compare rows.
const (
	newestPage = `
	AND r.run_at <= $10::timestamptz AND (r.run_at, r.idempotency_key) < ($10, $11::bytea)`
	oldestPage = `
	AND r.run_at >= $10::timestamptz AND (r.run_at, r.idempotency_key) > ($10, $11::bytea)`
	updatedPage = `
	AND r.updated_at >= $10::timestamptz AND (r.updated_at, r.idempotency_key) > ($10, $11::bytea)`

	newestFirst = `
ORDER BY r.run_at DESC, r.idempotency_key DESC`
	oldestFirst = `
ORDER BY r.run_at, r.idempotency_key`
	updatedFirst = `
ORDER BY r.updated_at, r.idempotency_key`
)

// The sources of schedule.RunFilter. OFFSET 0 keeps the order and the limit of the
// page out: for them the planner would walk all runs in their order.
var (
	endedOfKeys    = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.idempotency_key BETWEEN $18::bytea AND $19::bytea OFFSET 0)`
	openOfKeys     = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.idempotency_key BETWEEN $18::bytea AND $19::bytea OFFSET 0)`
	endedOfRunID   = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.run_id = $13 OFFSET 0)`
	openOfRunID    = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.run_id = $13 OFFSET 0)`
	endedOfTraceID = `((SELECT ` + endedFields + ` FROM ended_runs r WHERE r.trace_id = $14 OFFSET 0) UNION ALL
	(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.idempotency_key BETWEEN $15::bytea AND $16::bytea AND r.trace_id IS DISTINCT FROM $14 OFFSET 0))`
	openOfTraceID = `((SELECT ` + openFields + ` FROM open_runs r WHERE r.trace_id = $14 OFFSET 0) UNION ALL
	(SELECT ` + openFields + ` FROM open_runs r WHERE r.idempotency_key BETWEEN $15::bytea AND $16::bytea AND r.trace_id IS DISTINCT FROM $14 OFFSET 0))`
	endedOfGroup     = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.group_no = $25 OFFSET 0)`
	openOfGroup      = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.group_no = $25 OFFSET 0)`
	endedDead        = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.dead)`
	endedOfSchedule  = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.sid = ` + sidOfFilter + `)`
	openOfSchedule   = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.sid = ` + sidOfFilter + `)`
	openDue          = `((SELECT ` + openFields + ` FROM open_runs r WHERE r.state = 1 AND r.due_at < $17 OFFSET 0) UNION ALL (SELECT * FROM ` + openLaunching + ` r OFFSET 0))`
	openLaunching    = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.state = 3)`
	openInFlight     = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.state IN (3, 4, 5))` // 4 and 5: those of queues, also waiting ones
	endedUnscheduled = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.trigger <> 1)`
	openUnscheduled  = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.trigger <> 1)`
	endedNotSuccess  = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.status <> 5)`
	endedOfOwned     = `(SELECT ` + endedFields + ` FROM ended_runs r WHERE r.sid = owned.sid)`
	openOfOwned      = `(SELECT ` + openFields + ` FROM open_runs r WHERE r.sid = owned.sid)`
)

// The schedules whose histories are searched one by one, if the newest runs of a
// source have too few of an owner or a workflow; see schedule.RecentRuns.
const (
	ownedByUser     = `(SELECT o.sid FROM schedules o WHERE o.schedule_id IN (SELECT v.schedule_id FROM schedule_revisions v WHERE v.user_id = $2)) owned`
	ownedByWorkflow = `(SELECT o.sid FROM schedules o WHERE o.schedule_id IN (SELECT v.schedule_id FROM schedule_revisions v WHERE v.workflow_id = $3)) owned`
)

// CountFleet: runs. The owner is in the revision.
const (
	sqlCountRuns = `
SELECT
	(SELECT count(*) FROM open_runs r WHERE r.state = 3 AND ` + countedOf + `),
	(SELECT count(*) FROM open_runs r WHERE r.state = 2 AND ` + countedOf + `),
	(SELECT count(*) FROM open_runs r WHERE r.state = 1 AND r.due_at < $2::timestamptz AND ` + countedOf + `)
	+ (SELECT count(*) FROM open_runs r WHERE r.state = 3 AND r.status = 2 AND r.fire_at < $2::timestamptz AND ` + countedOf + `),
	(SELECT count(*) FROM ended_runs r WHERE r.status <> 5 AND r.status = 6 AND r.run_at >= $3::timestamptz AND ` + countedOf + `)`

	countedOf = `($1 = '' OR EXISTS (SELECT FROM schedules o JOIN schedule_revisions v ON v.schedule_id = o.schedule_id AND v.revision = r.revision
		WHERE o.sid = r.sid AND v.user_id = $1))`
)
