package postgres

// Expectations, alerts, and the outbox of messages about them.

const expectationColumns = `
e.schedule_id, e.kind, e.status, e.limit_ms, e.late, e.late_since, e.watched_since, e.judged_until, e.met_at,
e.alert_id, e.judge_at, e.judged_at`

const alertColumns = `
a.alert_id, a.schedule_id, a.workflow_id, a.user_id, a.kind, a.revision, a.limit_ms, a.cause, a.late,
a.first_slot, a.last_slot, a.deadline, a.opened_at, a.closed_at, a.resolution, a.notified_at, a.acked_at, a.acked_by, a.ack_note, a.targets, a.idempotency_key, a.detail`

const deliveryColumns = `
d.delivery_id, d.alert_id, d.schedule_id, d.user_id, d.type, d.target, d.target_kind, d.host, d.payload, d.state, d.attempts,
d.round, d.round_at, d.next_at, d.last_status, d.last_error, d.created_at, d.ended_at, d.idempotency_key,
EXISTS (SELECT FROM alert_targets t WHERE t.target = d.target), d.group_no`

const sqlWakeExpectations = `
INSERT INTO expectations (schedule_id, kind, status, watched_since, judged_until, judge_at)
SELECT u.schedule_id, u.kind, 'ok', $3::timestamptz, $3::timestamptz, $3::timestamptz FROM unnest($1::text[], $2::text[]) AS u(schedule_id, kind)
ORDER BY u.schedule_id, u.kind
ON CONFLICT (schedule_id, kind) DO UPDATE SET judge_at = EXCLUDED.judge_at`

// It skips expectations that another registrar evaluates.
const sqlDueExpectations = `
SELECT` + expectationColumns + `
FROM expectations e WHERE e.judge_at <= $1
ORDER BY e.judge_at LIMIT $2 FOR UPDATE SKIP LOCKED`

const sqlNewestRevisions = `
SELECT v.schedule_id, v.revision, v.definition, v.created_at
FROM unnest($1::text[]) AS u(schedule_id) CROSS JOIN LATERAL (
	SELECT * FROM schedule_revisions r WHERE r.schedule_id = u.schedule_id ORDER BY r.revision DESC LIMIT $2) AS v
ORDER BY v.schedule_id, v.revision DESC`

const sqlPauses = `
SELECT e.event_id, e.schedule_id, e.time, e.kind, e.from_at, e.to_at, e.count, e.reason, e.actor, e.note, e.revision
FROM unnest($1::text[]) AS u(schedule_id) CROSS JOIN LATERAL (
	SELECT * FROM schedule_events s
	WHERE s.schedule_id = u.schedule_id AND s.kind IN ('paused','resumed','pause_ended')
	ORDER BY s.event_id DESC LIMIT $2) AS e
ORDER BY e.event_id`

// sqlRunsOfSlots reads the index of a schedule's runs, from one slot to another.
const (
	slotAgain = `
	WHERE l.sid = k.sid AND l.run_at = u.again AND l.trigger <> 3`

	slotsAfter = `
	WHERE l.sid = k.sid AND l.run_at > u.after AND l.run_at <= $5 AND l.trigger <> 3
	ORDER BY l.run_at LIMIT $6`
)

var sqlRunsOfSlots = `
SELECT u.place, r.run_at, ` + statusWord + `, r.reason, r.claimed_at, r.launched_at, r.started_at, r.completed_at
FROM unnest($1::integer[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS u(place, schedule_id, after, again)
JOIN schedules k ON k.schedule_id = u.schedule_id
CROSS JOIN LATERAL (
	(SELECT * FROM ` + endedRuns + ` l` + slotAgain + `)
	UNION ALL
	(SELECT * FROM ` + openRuns + ` l` + slotAgain + `)
	UNION ALL
	(SELECT * FROM (
		(SELECT * FROM ` + endedRuns + ` l` + slotsAfter + `)
		UNION ALL
		(SELECT * FROM ` + openRuns + ` l` + slotsAfter + `)) l ORDER BY l.run_at LIMIT $6)) AS r
ORDER BY u.place, r.run_at`

const sqlLastSuccesses = `
SELECT u.place, (
	SELECT max(r.completed_at) FROM ended_runs r
	WHERE r.sid = k.sid AND r.run_at >= u.since AND r.run_at <= $4 AND r.status = 5)
FROM unnest($1::integer[], $2::text[], $3::timestamptz[]) AS u(place, schedule_id, since)
JOIN schedules k ON k.schedule_id = u.schedule_id`

const sqlAlertsByID = `
SELECT` + alertColumns + `
FROM alerts a WHERE a.alert_id = ANY($1::text[])`

const sqlExpectationsOf = `
SELECT` + expectationColumns + `
FROM expectations e WHERE e.schedule_id = $1 ORDER BY e.kind`

const sqlListAlerts = `
SELECT` + alertColumns + `
FROM alerts a
WHERE ($1 = '' OR a.user_id = $1) AND ($2 = '' OR a.schedule_id = $2) AND ($3 = '' OR a.kind = $3)
	AND ($4::boolean IS NULL OR (a.closed_at IS NULL) = $4)
	AND ($5::timestamptz IS NULL OR (a.opened_at, a.alert_id) < ($5, $6))
ORDER BY a.opened_at DESC, a.alert_id DESC LIMIT $7`

const sqlDueOfTarget = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d WHERE d.state = 'PENDING' AND d.next_at <= $1 AND d.target = $2
ORDER BY d.next_at LIMIT $3 FOR UPDATE OF d SKIP LOCKED`

const sqlDueOfOthers = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d WHERE d.state = 'PENDING' AND d.next_at <= $1 AND d.target <> ALL($2::text[])
ORDER BY d.next_at LIMIT $3 FOR UPDATE OF d SKIP LOCKED`

const sqlDeliveriesByID = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d WHERE d.delivery_id = ANY($1::text[]) ORDER BY d.created_at, d.delivery_id`

const sqlListDeliveries = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d
WHERE d.idempotency_key IS NULL AND ($1 = '' OR d.alert_id = $1
		OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.alert_id = $1))
	AND ($2 = '' OR d.state = $2)
	AND ($3::timestamptz IS NULL OR (d.created_at, d.delivery_id) < ($3, $4))
	AND ($6 = '' OR d.schedule_id = $6
		OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.schedule_id = $6))
ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT $5`

const sqlListMessages = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d
WHERE d.idempotency_key IS NOT NULL AND ($1 = '' OR d.state = $1)
	AND ($2::timestamptz IS NULL OR (d.created_at, d.delivery_id) < ($2, $3))
ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT $4`

const sqlListDeadMessages = `
SELECT` + deliveryColumns + `
FROM alert_deliveries d
WHERE d.idempotency_key IS NOT NULL AND d.state = 'DEAD'
	AND ($1::timestamptz IS NULL OR (d.created_at, d.delivery_id) < ($1, $2))
ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT $3`

const sqlPruneAlerts = `
DELETE FROM alerts WHERE alert_id = ANY(ARRAY(
	SELECT alert_id FROM alerts WHERE closed_at IS NOT NULL AND closed_at < $1 ORDER BY closed_at LIMIT $2))`

const sqlPruneDeliveries = `
DELETE FROM alert_deliveries WHERE delivery_id = ANY(ARRAY(
	SELECT delivery_id FROM alert_deliveries WHERE ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at LIMIT $2))`

// An evaluation takes this lock shared while it saves notices, and grouping takes it
// exclusively: neither sees half of the other's work, and they cannot deadlock.
const (
	sqlNoticesLock = `SELECT pg_advisory_xact_lock_shared(1128350542, 0)`
	sqlGroupsLock  = `SELECT pg_advisory_xact_lock(1128350542, 0)`
)

const sqlCheckGroup = `
UPDATE alert_groups SET check_at = greatest($3, told_at + $4::bigint * interval '1 microsecond') WHERE target = $1 AND group_id = $2`

const sqlPruneNotices = `
DELETE FROM alert_group_members WHERE (alert_id, target) IN (
	SELECT m.alert_id, m.target FROM alert_groups g JOIN alert_group_members m ON m.target = g.target AND m.group_id = g.group_id
	WHERE g.closed_at < $1 LIMIT $2)`

// sqlPruneLostNotices deletes the notices of groups that are never closed: their alerts
// closed while no registrar had the target.
const sqlPruneLostNotices = `
DELETE FROM alert_group_members WHERE (alert_id, target) IN (
	SELECT m.alert_id, m.target FROM alert_groups g JOIN alert_group_members m ON m.target = g.target AND m.group_id = g.group_id
	WHERE g.closed_at IS NULL AND g.joined_at < $1 AND g.check_at IS NULL AND NOT EXISTS (
		SELECT FROM alert_group_members o JOIN alerts a ON a.alert_id = o.alert_id
		WHERE o.target = g.target AND o.group_id = g.group_id AND (a.closed_at IS NULL OR a.closed_at >= $1 OR o.pending))
	LIMIT $2)`

const sqlPruneGroups = `
DELETE FROM alert_groups WHERE (target, group_id) IN (
	SELECT g.target, g.group_id FROM alert_groups g WHERE (g.closed_at < $1 OR g.closed_at IS NULL AND g.joined_at < $1)
		AND NOT EXISTS (SELECT FROM alert_group_members m WHERE m.target = g.target AND m.group_id = g.group_id) LIMIT $2)`
