package tables

// Statements that both databases understand. SQLite takes $1 for ?1.

// The outbox, and the groups of its notices.
const (
	sqlAckAlert = `UPDATE alerts SET acked_at = COALESCE(acked_at, $2), acked_by = COALESCE(acked_by, $3), ack_note = COALESCE(ack_note, $4) WHERE alert_id = $1`

	sqlInsertDelivery = `INSERT INTO alert_deliveries (delivery_id, alert_id, schedule_id, user_id, type, target, target_kind, host, payload, idempotency_key, state, round_at, next_at, created_at, group_no)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'PENDING', $11, $11, $11, $12) ON CONFLICT (delivery_id) DO NOTHING`
	sqlAnyDelivery    = `SELECT EXISTS (SELECT 1 FROM alert_deliveries WHERE state = 'PENDING' AND next_at <= $1)`
	sqlClaimDelivery  = `UPDATE alert_deliveries SET attempts = attempts + 1, next_at = $1 WHERE delivery_id = $2`
	sqlSettleDelivery = `UPDATE alert_deliveries SET state = $4, next_at = $5, last_status = $6, last_error = $7, ended_at = $8
WHERE delivery_id = $1 AND attempts = $2 AND round = $3 AND state = 'PENDING'`
	sqlDisableTarget = `INSERT INTO alert_targets (target, host, disabled_at) SELECT d.target, d.host, $2 FROM alert_deliveries d
WHERE d.delivery_id = $1 ON CONFLICT (target) DO NOTHING`
	sqlEnableTarget = `DELETE FROM alert_targets WHERE target = (SELECT d.target FROM alert_deliveries d WHERE d.delivery_id = $1)`
	// A message in progress is not sent twice.
	sqlRedeliver = `UPDATE alert_deliveries SET state = 'PENDING', round = round + 1, round_at = $2, attempts = 0, next_at = $2, ended_at = NULL
WHERE delivery_id = $1 AND (state <> 'PENDING' OR next_at > $3)`

	sqlRedeliverDead = `UPDATE alert_deliveries SET state = 'PENDING', round = round + 1, round_at = $1, attempts = 0, next_at = $1, ended_at = NULL
WHERE state = 'DEAD' AND delivery_id IN (SELECT d.delivery_id FROM alert_deliveries d
	WHERE d.state = 'DEAD' AND d.idempotency_key IS NOT NULL AND ($2 = '' OR d.target = $2) AND ($3 = '' OR d.user_id = $3)
	ORDER BY d.created_at, d.delivery_id LIMIT $4)`

	sqlSaveNotice = `INSERT INTO alert_group_members AS m (alert_id, target, grouped_by, schedule_id, type, payload, opened_at, noticed_at, told, pending)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7, false, true) ON CONFLICT (alert_id, target) DO UPDATE SET payload = EXCLUDED.payload, told = false, pending = true,
	type = CASE WHEN ` + repeatsNotice + ` THEN m.type ELSE EXCLUDED.type END,
	noticed_at = CASE WHEN ` + repeatsNotice + ` THEN m.noticed_at ELSE EXCLUDED.noticed_at END`
	// A reminder of an alert that was not sent yet leaves the time of its message.
	// Otherwise frequent reminders would postpone it again and again.
	repeatsNotice = `NOT m.told AND m.type <> 'alert.recovered' AND EXCLUDED.type = 'alert.reminder'`

	sqlAnyGrouping = `SELECT EXISTS (SELECT 1 FROM alert_group_members WHERE pending) OR EXISTS (SELECT 1 FROM alert_groups WHERE check_at <= $1)`
	noticeColumns  = `m.target, m.alert_id, g.group_id, m.grouped_by, m.schedule_id, m.type, m.opened_at, m.noticed_at, m.told`
	// A notice of a closed group is in no group: its alert is open again.
	sqlPendingNotices = `SELECT ` + noticeColumns + ` FROM alert_group_members m
LEFT JOIN alert_groups g ON g.target = m.target AND g.group_id = m.group_id AND g.closed_at IS NULL WHERE m.pending ORDER BY m.noticed_at LIMIT $1`
	sqlNoticesOf = `SELECT ` + noticeColumns + ` FROM alert_group_members m JOIN alert_groups g ON g.target = m.target AND g.group_id = m.group_id
WHERE m.target = $1 AND m.group_id = $2 ORDER BY m.opened_at, m.alert_id`
	sqlNoticeText   = `SELECT payload FROM alert_group_members WHERE target = $1 AND alert_id = $2`
	sqlToldNotices  = `UPDATE alert_group_members SET told = true WHERE target = $1 AND group_id = $2 AND NOT told`
	sqlPlaceNotice  = `UPDATE alert_group_members SET group_id = $3, pending = false WHERE alert_id = $1 AND target = $2`
	groupColumns    = `g.target, g.group_id, g.grouped_by, g.joined_at, g.told_at`
	sqlJoinedGroups = `SELECT ` + groupColumns + ` FROM alert_groups g JOIN alert_group_members m ON m.alert_id = g.group_id AND m.target = g.target
WHERE g.closed_at IS NULL AND g.joined_at > $1 AND m.opened_at > $2 ORDER BY g.joined_at DESC, g.group_id`
	sqlDueGroups = `SELECT ` + groupColumns + ` FROM alert_groups g WHERE g.check_at <= $1 ORDER BY g.check_at LIMIT $2`
	// A group that was closed begins again: its first alert is open again.
	sqlJoinGroup = `INSERT INTO alert_groups AS g (target, group_id, grouped_by, joined_at, check_at) VALUES ($1, $2, $3, $4, $4)
ON CONFLICT (target, group_id) DO UPDATE SET grouped_by = EXCLUDED.grouped_by, joined_at = EXCLUDED.joined_at,
	told_at = CASE WHEN g.closed_at IS NULL THEN g.told_at END, closed_at = NULL`
	sqlSaveGroup = `UPDATE alert_groups SET told_at = COALESCE($3, told_at), check_at = $4, closed_at = $5 WHERE target = $1 AND group_id = $2`
)

// sqlUseTemplate locks the row until the entry is over.
const sqlUseTemplate = `UPDATE schedules SET updated_at = $2 WHERE schedule_id = $1 AND deleted_at IS NULL`

// Expectations and their alerts.
const (
	sqlSaveExpectation = `UPDATE expectations SET status = $3, limit_ms = $4, late = $5, late_since = $6, watched_since = $7, judged_until = $8,
	met_at = $9, alert_id = $10, judge_at = $11, judged_at = $12 WHERE schedule_id = $1 AND kind = $2`
	sqlDropExpectation = `DELETE FROM expectations WHERE schedule_id = $1 AND kind = $2`
	sqlSaveAlert       = `INSERT INTO alerts (alert_id, schedule_id, workflow_id, user_id, kind, revision, limit_ms, cause, late,
	first_slot, last_slot, deadline, opened_at, closed_at, resolution, notified_at, targets, idempotency_key, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (alert_id) DO UPDATE SET cause = EXCLUDED.cause, late = EXCLUDED.late, last_slot = EXCLUDED.last_slot,
	deadline = EXCLUDED.deadline, closed_at = EXCLUDED.closed_at, resolution = EXCLUDED.resolution, notified_at = EXCLUDED.notified_at,
	targets = EXCLUDED.targets, idempotency_key = EXCLUDED.idempotency_key, detail = EXCLUDED.detail`
	sqlUnmetExpectations = `SELECT kind, count(*) FROM expectations WHERE status <> 'ok' GROUP BY kind`
)

// sqlWriteBackfill never changes what was requested.
const sqlWriteBackfill = `INSERT INTO backfills (backfill_id, schedule_id, request_id, request_hash, user_id, revision, overlap_key,
	from_at, to_at, reprocess, slot_order, overlap_policy, concurrency, rate_per_minute, note, created_by,
	state, reason, state_note, changed_by, cursor_at, next_at, slots, to_run, passed_over, put_down,
	succeeded, failed, skipped, cancelled, unfinished, created_at, updated_at, ended_at, shard, looked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
	$27, $28, $29, $30, $31, $32, $33, $34, $35, $36)
ON CONFLICT (backfill_id) DO UPDATE SET state = excluded.state, reason = excluded.reason, state_note = excluded.state_note,
	changed_by = excluded.changed_by, cursor_at = excluded.cursor_at, next_at = excluded.next_at, passed_over = excluded.passed_over,
	put_down = excluded.put_down, succeeded = excluded.succeeded, failed = excluded.failed, skipped = excluded.skipped,
	cancelled = excluded.cancelled, unfinished = excluded.unfinished, updated_at = excluded.updated_at, ended_at = excluded.ended_at,
	looked_at = excluded.looked_at`

// Grants, workflows and their shares, deploys. What is stored first stays.
const (
	sqlPutGrant = `INSERT INTO execution_grants (grant_id, user_id, billing_account_id, scopes, expires_at, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (user_id, grant_id) DO NOTHING`
	sqlRevokeGrant = `UPDATE execution_grants SET revoked_at = $2, revoked_by = $3, revoke_note = $4 WHERE user_id = $5 AND grant_id = $1 AND revoked_at IS NULL`

	sqlPutWorkflow = `INSERT INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at, user_id) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workflow_id, user_id, version) DO NOTHING`
	sqlGetWorkflow = `SELECT workflow_id, version, dag, dag_hash, created_at, user_id FROM workflow_versions
WHERE workflow_id = $1 AND user_id = $2 AND version = $3`
	sqlLoadDAG = `SELECT dag FROM workflow_versions WHERE workflow_id = $1 AND user_id = $2 AND version = $3`

	sqlOwnsWorkflow = `SELECT EXISTS (SELECT 1 FROM workflow_versions WHERE workflow_id = $2 AND user_id = $1)
	OR EXISTS (SELECT 1 FROM workflow_shares WHERE workflow_id = $2 AND user_id IN ($1, '*'))`
	sqlShareWorkflow = `INSERT INTO workflow_shares (workflow_id, user_id, given_by, given_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (workflow_id, user_id) DO NOTHING`
	sqlGetShare        = `SELECT workflow_id, user_id, given_by, given_at FROM workflow_shares WHERE workflow_id = $1 AND user_id = $2`
	sqlUnshareWorkflow = `DELETE FROM workflow_shares WHERE workflow_id = $1 AND user_id = $2`
	sqlListShares      = `SELECT workflow_id, user_id, given_by, given_at FROM workflow_shares
WHERE workflow_id = $1 AND (user_id <> '*', user_id) > ($2 NOT IN ('', '*'), $2) ORDER BY user_id <> '*', user_id LIMIT $3`

	sqlInsertDeploy = `INSERT INTO deploys (managed_by, user_id, request_id, request_hash, applied_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (managed_by, user_id, request_id) DO NOTHING`
	sqlDeployHash = `SELECT request_hash FROM deploys WHERE managed_by = $1 AND user_id = $2 AND request_id = $3`
)

// Logs and results of runs, and records of keys.
const (
	// The number comes before the deletion: a reader that has the part that goes must find
	// the new one behind it.
	sqlInsertReportedOutput = `INSERT INTO run_logs (idempotency_key, seq, step, written_at, from_byte, to_byte, content)
SELECT $1, COALESCE(max(seq), 0) + 1, '', $2, $3, $4, $5 FROM run_logs WHERE idempotency_key = $1`
	sqlDropReportedOutput = `DELETE FROM run_logs WHERE idempotency_key = $1 AND step = ''
	AND seq < (SELECT max(m.seq) FROM run_logs m WHERE m.idempotency_key = $1)`
	sqlInsertLogPart = `INSERT INTO run_logs (idempotency_key, seq, step, written_at, from_byte, to_byte, content)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`
	sqlDropLogPart  = `DELETE FROM run_logs WHERE idempotency_key = $1 AND seq = $2`
	sqlPruneRunLogs = `DELETE FROM run_logs WHERE (idempotency_key, seq) IN (
	SELECT idempotency_key, seq FROM run_logs WHERE written_at < $1 ORDER BY written_at LIMIT $2)`

	// Only an end that history did not have is written with its result, so that no key comes twice.
	sqlInsertResult = `INSERT INTO run_results (idempotency_key, result, artifacts, problem, expires_at) VALUES ($1, $2, $3, $4, $5)`
	sqlGetResult    = `SELECT result, artifacts, problem, expires_at FROM run_results WHERE idempotency_key = $1`
	sqlPruneResults = `DELETE FROM run_results WHERE idempotency_key IN (
	SELECT idempotency_key FROM run_results WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`

	sqlWriteRecord = `INSERT INTO execution_requests (idempotency_key, request_hash, state, calls, lease_until, holder,
	status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at, snooze_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, $14)
ON CONFLICT (idempotency_key) DO UPDATE SET state = excluded.state, calls = excluded.calls, lease_until = excluded.lease_until,
	holder = excluded.holder, status = excluded.status, reason = excluded.reason, run_id = excluded.run_id, trace_id = excluded.trace_id,
	error_code = excluded.error_code, error_message = excluded.error_message, updated_at = excluded.updated_at, snooze_ms = excluded.snooze_ms`
)

// Dispatch queues.
const (
	sqlInsertQueue = `INSERT INTO queues (queue_id, user_id, shared, definition, revision, paused, pause_note, paused_by, paused_until, closed,
	created_at, updated_at, deleted_at, webhook, history) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (queue_id) DO NOTHING`
	sqlUpdateQueue = `UPDATE queues SET user_id = $2, shared = $3, definition = $4, revision = $5, paused = $6, pause_note = $7, paused_by = $8,
	paused_until = $9, closed = $10, created_at = $11, updated_at = $12, deleted_at = $13, webhook = $14, history = $15 WHERE queue_id = $1`
	queueColumns  = `queue_no, queue_id, user_id, shared, definition, revision, paused, pause_note, paused_by, paused_until, closed, created_at, updated_at, deleted_at`
	sqlGetQueue   = `SELECT ` + queueColumns + ` FROM queues WHERE queue_id = $1`
	sqlListQueues = `SELECT ` + queueColumns + ` FROM queues
WHERE queue_id > $1 AND deleted_at IS NULL AND ($2 = '' OR user_id = $2 OR shared) ORDER BY queue_id LIMIT $3`
	sqlCountQueuesOf = `SELECT count(*) FROM (SELECT 1 FROM queues q WHERE q.user_id = $1 AND q.deleted_at IS NULL LIMIT $2) c`
	// sqlWaitingOfOwner reads the runs of the owner's schedules, also of deleted ones, and none of others.
	sqlWaitingOfOwner = `SELECT count(*) FROM (
	SELECT 1 FROM schedules s JOIN open_runs o ON o.sid = s.sid WHERE s.user_id = $1 AND s.deleted_at IS NULL AND o.queue_state <= 3
	UNION ALL
	SELECT 1 FROM schedules s JOIN open_runs o ON o.sid = s.sid WHERE s.user_id = $1 AND s.deleted_at IS NOT NULL AND o.queue_state <= 3
	LIMIT $2) c`
	// sqlDueDelayed, sqlDueWaiting and sqlDueChained let a sweep look at what is in a queue now.
	sqlDueDelayed    = `UPDATE open_runs SET due_at = $2 WHERE queue_no = $1 AND queue_state = 1`
	sqlDueWaiting    = `UPDATE open_runs SET due_at = $2 WHERE queue_no = $1 AND queue_state = 2`
	sqlDueChained    = `UPDATE open_runs SET due_at = $2 WHERE queue_no = $1 AND queue_state = 3`
	sqlDeletedQueues = `SELECT q.queue_no FROM queues q WHERE q.deleted_at > $1 ORDER BY q.deleted_at`
	sqlQueueByNo     = `SELECT ` + queueColumns + ` FROM queues WHERE queue_no = $1`
	sqlQueueEnd      = `SELECT coalesce(q.webhook, ''), coalesce(q.history, '') FROM queues q WHERE q.queue_no = $1`
	sqlQueueID       = `SELECT q.queue_id FROM queues q WHERE q.queue_no = $1`
	sqlAdmits        = `SELECT ` + queueColumns + `, st.stalled_until, st.stall_level, st.stall_reason, st.next_start_at
FROM queues q LEFT JOIN queue_states st USING (queue_no) WHERE queue_no = $1`
	sqlMeasured = `SELECT ` + queueColumns + ` FROM queues q WHERE deleted_at IS NULL ORDER BY queue_id LIMIT $1`
	sqlSetStall = `INSERT INTO queue_states (queue_no, stalled_until, stall_level, stall_reason) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue_no) DO UPDATE SET stalled_until = excluded.stalled_until, stall_level = excluded.stall_level, stall_reason = excluded.stall_reason`
	sqlEnqueuedBefore = `SELECT r.body_hash, r.keys, r.marks FROM queue_requests r WHERE r.queue_no = $1 AND r.user_id = $2 AND r.request_id = $3`
	sqlNoteEnqueued   = `INSERT INTO queue_requests (queue_no, user_id, request_id, body_hash, keys, created_at, marks) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (queue_no, user_id, request_id) DO NOTHING`
	// sqlSchedulesWithLimit reads those with the id somewhere in the text of their limits; a key may
	// have it too.
	sqlSchedulesWithLimit = `SELECT s.schedule_id, s.user_id, s.limits FROM schedules s
WHERE s.queue_id IS NOT NULL AND s.deleted_at IS NULL AND replace(s.limits, $1, '') <> s.limits AND s.schedule_id > $2 ORDER BY s.schedule_id LIMIT $3`
	sqlSchedulesOfOverlap = `SELECT s.schedule_id FROM schedules s WHERE s.user_id || '/' || s.overlap_key = $1 AND s.deleted_at IS NULL ORDER BY s.schedule_id LIMIT $2`
	// sqlOpenOfOverlap: no index has planned runs by their group; see sqlFeedGroup.
	sqlOpenOfOverlap = `SELECT o.idempotency_key FROM open_runs o WHERE o.overlap_key = $1 AND o.exclusive_flight
UNION ALL
SELECT o.idempotency_key FROM open_runs o WHERE o.overlap_key = $1 AND o.state IN (2, 3, 4) AND NOT o.exclusive_flight
UNION ALL
SELECT o.idempotency_key FROM schedules h JOIN open_runs o ON o.sid = h.sid
WHERE h.user_id || '/' || h.overlap_key = $1 AND o.state = 1 AND o.overlap_key = $1 AND o.fire_at <= $2
LIMIT $3`
	sqlSchedulesOfQueue = `SELECT s.schedule_id FROM schedules s WHERE s.queue_id = $1 AND s.deleted_at IS NULL AND ($2 = '' OR s.user_id = $2) ORDER BY s.schedule_id LIMIT $3`
	sqlCountWaitingOf   = `SELECT (SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 1 LIMIT $2) c)
	+ (SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 LIMIT $2) c)
	+ (SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 3 LIMIT $2) c)`
	// sqlCountQueue names the states: their indexes are partial.
	sqlCountQueue = `SELECT (SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 1 LIMIT $2) c),
	(SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 LIMIT $2) c),
	(SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 LIMIT $2) c),
	(SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 3 LIMIT $2) c),
	(SELECT count(*) FROM reservations r WHERE r.queue_no = $1 AND r.granted_at IS NULL),
	(SELECT count(*) FROM reservations r WHERE r.queue_no = $1 AND r.granted_at IS NOT NULL),
	st.stalled_until, st.stall_level, st.stall_reason
FROM queues q LEFT JOIN queue_states st USING (queue_no) WHERE queue_no = $1`
	sqlCountQueueDead = `SELECT count(*) FROM (SELECT 1 FROM ended_runs e WHERE e.dead AND e.queue_no = $1 LIMIT $2) c`
	// sqlOldestWaiting reads the first runs of each priority: positions are drawn at entry, so
	// the oldest run is one of them unless as many were put before it. In a fair queue it is the
	// first one of its key. A run whose start was later than its entry waits since then.
	sqlOldestWaiting = `WITH RECURSIVE p (priority) AS (
	SELECT (SELECT o.effective_priority FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 ORDER BY o.effective_priority LIMIT 1)
	UNION ALL
	SELECT (SELECT o.effective_priority FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority > p.priority
		ORDER BY o.effective_priority LIMIT 1) FROM p WHERE p.priority IS NOT NULL)
SELECT min((SELECT min(CASE WHEN c.fire_at > c.enqueued_at THEN c.fire_at ELSE c.enqueued_at END) FROM (SELECT o.enqueued_at, o.fire_at FROM open_runs o
	WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority = p.priority
	ORDER BY o.fair_order, o.position_key, o.idempotency_key LIMIT $2) c)) FROM p WHERE p.priority IS NOT NULL`
	sqlPositionOf = `SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority = $2
	AND (o.fair_order, o.position_key, o.idempotency_key) <= ($3, $4, $5) LIMIT $6) c`
	sqlWaitBefore   = `SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority < $2 LIMIT $3) c`
	sqlQueueFlights = `SELECT o.idempotency_key FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 ORDER BY o.claimed_at, o.idempotency_key LIMIT $2`
	// Copies of a queue. The runs are chosen before the join, so that it reads only their schedules.
	copyColumns = `c.idempotency_key, c.limits, c.effective_priority, c.fair_order, c.position_key, c.enqueued_at, c.kept_limits, c.queue_no, c.queue_state, c.fire_at, c.group_no, c.group_seq,
	c.claimed_at, c.launched_at, s.workflow_id, s.user_id, c.fair_key`
	sqlCopyWaiting = `SELECT ` + copyColumns + ` FROM (SELECT * FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2
	ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT $2) c JOIN schedules s ON s.sid = c.sid
ORDER BY c.effective_priority, c.fair_order, c.position_key, c.idempotency_key`
	sqlCopyDelayed = `SELECT ` + copyColumns + ` FROM (SELECT * FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 1 ORDER BY o.fire_at LIMIT $2) c
JOIN schedules s ON s.sid = c.sid ORDER BY c.fire_at`
	sqlCopyChained = `SELECT ` + copyColumns + ` FROM (SELECT * FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 3 ORDER BY o.position_key LIMIT $2) c
JOIN schedules s ON s.sid = c.sid ORDER BY c.position_key`
	sqlCopyFlights = `SELECT ` + copyColumns + ` FROM (SELECT * FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 LIMIT $2) c JOIN schedules s ON s.sid = c.sid`
	sqlRunTimes    = `SELECT s.workflow_id, c.status, c.claimed_at, c.launched_at, c.completed_at FROM (SELECT * FROM ended_runs e WHERE e.queue_no = $1
	ORDER BY e.completed_at DESC LIMIT $2) c JOIN schedules s ON s.sid = c.sid ORDER BY c.completed_at DESC`
	sqlCopyUsers = `SELECT c.used_by, o.queue_no, o.queue_state, o.claimed_at, o.launched_at, s.workflow_id, r.queue_no, r.ends_at
FROM (SELECT u.used_by FROM limit_uses u JOIN limits l ON l.limit_no = u.limit_no WHERE l.limit_id = $1 AND u.limit_key = $2 ORDER BY u.used_by LIMIT $3) c
LEFT JOIN open_runs o ON o.idempotency_key = c.used_by LEFT JOIN schedules s ON s.sid = o.sid LEFT JOIN reservations r ON r.reservation_id = c.used_by
ORDER BY c.used_by`
	// sqlPlaces are waiting runs of a priority, in order.
	sqlPlaces = `SELECT o.idempotency_key, o.position_key, o.fair_order FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority = $2
ORDER BY o.fair_order, o.position_key, o.idempotency_key LIMIT $3 OFFSET $4`
	sqlLastFairOrder = `SELECT o.fair_order FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority = $2
ORDER BY o.fair_order DESC LIMIT 1`
	sqlPruneQueueRequests = `DELETE FROM queue_requests WHERE (queue_no, user_id, request_id) IN (
	SELECT queue_no, user_id, request_id FROM queue_requests WHERE created_at < $1 ORDER BY created_at LIMIT $2)`
	sqlPruneQueueEvents = `DELETE FROM queue_events WHERE event_id IN (SELECT event_id FROM queue_events WHERE time < $1 ORDER BY time LIMIT $2)`
	sqlMovePlace        = `UPDATE open_runs SET position_key = $2 WHERE idempotency_key = $1 AND queue_state = 2`
	// sqlSetAside locks a run that is moved, and takes it from those that wait.
	sqlSetAside         = `UPDATE open_runs SET queue_state = 1 WHERE idempotency_key = $1 AND queue_no = $2 AND effective_priority = $3 AND queue_state = $4`
	sqlPutPlace         = `UPDATE open_runs SET position_key = $2, queue_state = $3, updated_at = $4, fair_order = $5 WHERE idempotency_key = $1 AND queue_state = 1`
	sqlPlaceOf          = `SELECT position_key, fair_order FROM open_runs WHERE idempotency_key = $1 AND queue_no = $2 AND effective_priority = $3 AND queue_state = 2`
	sqlInsertQueueEvent = `INSERT INTO queue_events (queue_id, time, kind, actor, note, revision) VALUES ($1, $2, $3, $4, $5, $6)`
	sqlListQueueEvents  = `SELECT event_id, queue_id, time, kind, actor, note, revision FROM queue_events
WHERE queue_id = $1 AND event_id < $2 ORDER BY event_id DESC LIMIT $3`
)

// Fair queues.
const (
	sqlSetFairClock = `INSERT INTO fair_clocks AS c (queue_no, effective_priority, fair_clock) VALUES ($1, $2, $3)
ON CONFLICT (queue_no, effective_priority) DO UPDATE SET fair_clock = excluded.fair_clock WHERE c.fair_clock < excluded.fair_clock`
	sqlFairMember   = `SELECT o.queue_no, o.effective_priority, o.fair_key, o.fair_order, o.overlap_key FROM open_runs o WHERE o.idempotency_key = $1 AND o.queue_state = 2`
	sqlSetFairOrder = `UPDATE open_runs SET fair_key = $2, fair_order = $3 WHERE idempotency_key = $1 AND queue_state = 2`
	// sqlForgetFair: the queue is not fair any more.
	sqlForgetFair = `UPDATE open_runs SET fair_order = 0 WHERE queue_no = $1 AND fair_order > 0
	AND (queue_state = 1 OR queue_state = 2 OR queue_state = 3 OR queue_state >= 4)`
	// sqlPruneShares deletes those of keys that a draw would not look at.
	sqlPruneShares = `DELETE FROM queue_shares WHERE (queue_no, effective_priority, fair_key) IN (
	SELECT s.queue_no, s.effective_priority, s.fair_key FROM queue_shares s
	JOIN fair_clocks c ON c.queue_no = s.queue_no AND c.effective_priority = s.effective_priority
	WHERE s.drawn_at < $1 AND s.fair_order <= c.fair_clock ORDER BY s.drawn_at LIMIT $2)`
	sqlQueueShares = `SELECT n.fair_key, count(*), min(n.place) FROM (
	SELECT o.fair_key, row_number() OVER (ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key) AS place
	FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2
	ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT $2) n
WHERE n.fair_key IS NOT NULL GROUP BY n.fair_key ORDER BY count(*) DESC, n.fair_key LIMIT $3`
	// sqlFairBefore counts the waiting runs of a priority before one: all, those of its key, and
	// those that entered after it.
	sqlFairBefore = `SELECT count(*), coalesce(sum(CASE WHEN c.fair_key = $6 THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN c.enqueued_at > $7 THEN 1 ELSE 0 END), 0)
FROM (SELECT o.fair_key, o.enqueued_at FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.effective_priority = $2
	AND (o.fair_order, o.position_key, o.idempotency_key) < ($3, $4, $5) LIMIT $8) c`
)

// Groups of runs of queues.
const (
	jobGroupColumns = `group_no, group_id, queue_no, user_id, mode, on_failure, state, sealed, seal_at, members, stop_from, cancel_requested_at,
	succeeded, failed, skipped, cancelled, on_complete, webhook, retry_of, body_hash, created_at, ended_at`
	sqlGetJobGroup    = `SELECT ` + jobGroupColumns + ` FROM queue_groups WHERE group_id = $1`
	sqlJobGroupByNo   = `SELECT ` + jobGroupColumns + ` FROM queue_groups WHERE group_no = $1`
	sqlJobGroupNo     = `SELECT group_no FROM queue_groups WHERE group_id = $1`
	sqlJobGroupID     = `SELECT group_id FROM queue_groups WHERE group_no = $1`
	sqlQueueWebhook   = `SELECT q.webhook FROM queues q WHERE q.queue_no = $1`
	sqlInsertJobGroup = `INSERT INTO queue_groups (group_id, queue_no, user_id, mode, on_failure, state, sealed, members, on_complete, webhook, retry_of, body_hash, created_at, seal_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (group_id) DO NOTHING`
	sqlSetMembers      = `UPDATE queue_groups SET members = $2 WHERE group_no = $1`
	sqlDropUnusedGroup = `DELETE FROM queue_groups WHERE group_no = $1 AND members = 0`
	sqlGroupsToSeal    = `SELECT g.group_no FROM queue_groups g WHERE g.state = 'RUNNING' AND NOT g.sealed AND g.seal_at <= $1 ORDER BY g.seal_at LIMIT $2`
	sqlUpdateJobGroup  = `UPDATE queue_groups SET state = $2, sealed = $3, members = $4, stop_from = $5, cancel_requested_at = $6,
	succeeded = $7, failed = $8, skipped = $9, cancelled = $10, ended_at = $11 WHERE group_no = $1`
	sqlFirstMember = `SELECT o.idempotency_key, o.group_seq, o.queue_state, o.fire_at FROM open_runs o WHERE o.group_no = $1 ORDER BY o.group_seq LIMIT 1`
	// sqlCountMembers takes the last run of each member: attempts, snoozes and interruptions only
	// grow, and of two retries by hand the later end counts.
	sqlCountMembers = `SELECT m.status, count(*) FROM (
	SELECT e.status, row_number() OVER (PARTITION BY e.group_seq
		ORDER BY e.attempt DESC, coalesce(e.snoozes, 0) DESC, coalesce(e.interruptions, 0) DESC, e.completed_at DESC, e.idempotency_key) AS place
	FROM ended_runs e WHERE e.group_no = $1 AND NOT EXISTS (SELECT 1 FROM open_runs o WHERE o.group_no = $1 AND o.group_seq = e.group_seq)) m
WHERE m.place = 1 GROUP BY m.status`
	sqlReleaseMember = `UPDATE open_runs SET queue_state = CAST(CASE WHEN fire_at > $2 THEN 1 ELSE 2 END AS smallint), due_at = CASE WHEN fire_at > $2 THEN fire_at ELSE due_at END, updated_at = $2
WHERE idempotency_key = $1 AND queue_state = 3`
	sqlMemberStart   = `SELECT o.fire_at, o.enqueued_at, o.start_by, o.effective_priority, o.fair_order, o.position_key FROM open_runs o WHERE o.idempotency_key = $1`
	sqlSetStartBy    = `UPDATE open_runs SET start_by = $2, due_at = $3 WHERE idempotency_key = $1 AND queue_state IN (1, 2)`
	sqlListJobGroups = `SELECT ` + jobGroupColumns + ` FROM queue_groups
WHERE ($1 = '' OR user_id = $1) AND ($2 = 0 OR queue_no = $2) AND ($3 = '' OR state = $3) AND group_no < $4 ORDER BY group_no DESC LIMIT $5`
	// sqlStoppingGroups are those with members that ledger.MemberStep cancels. For EXISTS, Postgres
	// may read all open runs.
	sqlStoppingGroups = `SELECT g.group_no FROM queue_groups g
WHERE g.state = 'RUNNING' AND (g.stop_from IS NOT NULL OR g.cancel_requested_at IS NOT NULL)
	AND (SELECT o.group_no FROM open_runs o WHERE o.group_no = g.group_no
		AND (g.cancel_requested_at IS NOT NULL AND o.cancel_requested_at IS NULL
			OR o.group_seq >= g.stop_from AND o.queue_state <= 3 AND o.claimed_at IS NULL AND o.trigger = 6) LIMIT 1) IS NOT NULL
ORDER BY g.group_no LIMIT $1`
	sqlPruneJobGroups = `DELETE FROM queue_groups WHERE group_no IN (SELECT group_no FROM queue_groups WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)`
)

// Reservations.
const (
	reservationColumns = `r.reservation_id, r.queue_no, (SELECT q.queue_id FROM queues q WHERE q.queue_no = r.queue_no), r.user_id, r.requested_by, r.limits, r.position_key,
	r.hold_ms, r.granted_at, r.ends_at, r.created_at`
	sqlGetReservation = `SELECT ` + reservationColumns + ` FROM reservations r WHERE r.reservation_id = $1`
	sqlReservations   = `SELECT ` + reservationColumns + ` FROM reservations r WHERE r.queue_no = $1 ORDER BY r.position_key`
	// sqlDueReservations are those that end first.
	sqlDueReservations   = `SELECT ` + reservationColumns + ` FROM reservations r ORDER BY r.ends_at LIMIT $1`
	sqlInsertReservation = `INSERT INTO reservations (reservation_id, queue_no, user_id, requested_by, limits, position_key, hold_ms, granted_at, ends_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	sqlChangeReservation = `UPDATE reservations SET granted_at = $2, ends_at = $3 WHERE reservation_id = $1`
	sqlDeleteReservation = `DELETE FROM reservations WHERE reservation_id = $1`
	// sqlEndReservation leaves one that was extended meanwhile.
	sqlEndReservation = `DELETE FROM reservations WHERE reservation_id = $1 AND ends_at <= $2`
)

// Limits.
const (
	limitColumns = `limit_no, limit_id, user_id, shared, keyed, ordered, max_in_flight, rate_starts, rate_per_ms, rate_burst, note, revision, created_at, updated_at,
	(SELECT count(*) FROM limit_uses u WHERE u.limit_no = limits.limit_no)`
	sqlGetLimit    = `SELECT ` + limitColumns + ` FROM limits WHERE limit_id = $1`
	sqlListLimits  = `SELECT ` + limitColumns + ` FROM limits WHERE limit_id > $1 AND ($2 = '' OR user_id = $2 OR shared) ORDER BY limit_id LIMIT $3`
	sqlInsertLimit = `INSERT INTO limits (limit_id, user_id, shared, keyed, ordered, max_in_flight, rate_starts, rate_per_ms, rate_burst, note, revision, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (limit_id) DO NOTHING`
	sqlUpdateLimit = `UPDATE limits SET user_id = $2, shared = $3, keyed = $4, ordered = $5, max_in_flight = $6, rate_starts = $7, rate_per_ms = $8, rate_burst = $9, note = $10,
	revision = $11, created_at = $12, updated_at = $13 WHERE limit_id = $1`
	sqlSetLimitKey = `INSERT INTO limit_keys (limit_no, limit_key, max_in_flight, rate_starts, rate_per_ms, rate_burst, note, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (limit_no, limit_key) DO UPDATE SET max_in_flight = excluded.max_in_flight,
	rate_starts = excluded.rate_starts, rate_per_ms = excluded.rate_per_ms, rate_burst = excluded.rate_burst, note = excluded.note, until = excluded.until`
	sqlDeleteLimit       = `DELETE FROM limits WHERE limit_no = $1`
	sqlDeleteLimitKeys   = `DELETE FROM limit_keys WHERE limit_no = $1`
	sqlDeleteLimitStarts = `DELETE FROM limit_rates WHERE limit_no = $1`
	sqlDropLimitKey      = `DELETE FROM limit_keys WHERE limit_no = $1 AND limit_key = $2`
	sqlListLimitKeys     = `SELECT limit_key, coalesce(max_in_flight, -1), rate_starts, rate_per_ms, rate_burst, note, until FROM limit_keys
WHERE limit_no = $1 AND limit_key > $2 ORDER BY limit_key LIMIT $3`
	sqlGetLimitKey  = `SELECT limit_key, coalesce(max_in_flight, -1), rate_starts, rate_per_ms, rate_burst, note, until FROM limit_keys WHERE limit_no = $1 AND limit_key = $2`
	sqlLimitKeysEnd = `SELECT count(*), count(until), max(until), count(*) FILTER (WHERE max_in_flight > 1),
	count(until) FILTER (WHERE max_in_flight > 1), max(until) FILTER (WHERE max_in_flight > 1) FROM limit_keys WHERE limit_no = $1`
	sqlMostUsedKey    = `SELECT coalesce(max(k.uses), 0) FROM (SELECT count(*) AS uses FROM limit_uses u WHERE u.limit_no = $1 GROUP BY u.limit_key) k`
	sqlDropEndedKeys  = `DELETE FROM limit_keys WHERE limit_no = $1 AND until <= $2`
	sqlLimitUsesByKey = `SELECT limit_key, count(*) FROM limit_uses WHERE limit_no = $1 GROUP BY limit_key ORDER BY count(*) DESC, limit_key LIMIT $2`
	sqlLimitUses      = `SELECT limit_key, used_by FROM limit_uses WHERE limit_no = $1 ORDER BY limit_key, used_by LIMIT $2`
	sqlOrphanUses     = `SELECT count(*) FROM limit_uses` + withoutUser
	sqlDropOrphanUses = `DELETE FROM limit_uses` + withoutUser
	// withoutUser are uses by runs that are not in flight and keep none, and by reservations that are
	// not granted. One statement sees an admission and its uses, or neither of them.
	withoutUser = ` WHERE NOT EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = limit_uses.used_by AND (o.queue_state >= 4 OR o.kept_limits IS NOT NULL))
	AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.reservation_id = limit_uses.used_by AND r.granted_at IS NOT NULL)`
	sqlUsersOfLimit  = `SELECT u.used_by FROM limit_uses u JOIN limits l ON l.limit_no = u.limit_no WHERE l.limit_id = $1 AND u.limit_key = $2 ORDER BY u.used_by LIMIT $3`
	sqlSetLimitStart = `INSERT INTO limit_rates (limit_no, limit_key, next_start_at) VALUES ($1, $2, $3)
ON CONFLICT (limit_no, limit_key) DO UPDATE SET next_start_at = excluded.next_start_at`
	sqlSetQueueStart = `INSERT INTO queue_states (queue_no, next_start_at) VALUES ($1, $2) ON CONFLICT (queue_no) DO UPDATE SET next_start_at = excluded.next_start_at`
	// sqlKeepWaiting are the runs that keep ordered limits: not more than there are keys.
	sqlKeepWaiting = `SELECT o.idempotency_key, o.limits, o.effective_priority, o.fair_order, o.position_key, o.enqueued_at, o.kept_limits FROM open_runs o
WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.kept_limits IS NOT NULL ORDER BY o.idempotency_key`
	// sqlAnyLimited begins behind the runs without limits: with many of them, reading from the front
	// passes all that were just admitted.
	sqlAnyLimited = `SELECT o.queue_state FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits > ''
ORDER BY o.limits, o.effective_priority LIMIT 1`
	// sqlLimitSets looks into the index once for each text. The order names the index: for min,
	// Postgres may read all waiting runs each time.
	limitSets = `l (limits) AS (
	SELECT (SELECT o.limits FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 ORDER BY o.limits, o.effective_priority LIMIT 1)
	UNION ALL
	SELECT (SELECT o.limits FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits > l.limits
		ORDER BY o.limits, o.effective_priority LIMIT 1) FROM l WHERE l.limits IS NOT NULL)`
	sqlLimitSets = `WITH RECURSIVE ` + limitSets + `
SELECT l.limits FROM l WHERE l.limits IS NOT NULL`
	// sqlPrioritySets does so for each pair of limits and priority.
	sqlPrioritySets = `WITH RECURSIVE ` + limitSets + `,
p (limits, priority) AS (
	SELECT l.limits, (SELECT o.effective_priority FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits = l.limits
		ORDER BY o.effective_priority, o.fair_order LIMIT 1)
	FROM l WHERE l.limits IS NOT NULL
	UNION ALL
	SELECT p.limits, (SELECT o.effective_priority FROM open_runs o
		WHERE o.queue_no = $1 AND o.queue_state = 2 AND o.limits = p.limits AND o.effective_priority > p.priority
		ORDER BY o.effective_priority, o.fair_order LIMIT 1)
	FROM p WHERE p.priority IS NOT NULL)
SELECT p.limits, p.priority FROM p WHERE p.priority IS NOT NULL`
	// A rate that allows a start again is as good as none.
	sqlPruneLimitRates = `DELETE FROM limit_rates WHERE (limit_no, limit_key) IN (
	SELECT limit_no, limit_key FROM limit_rates WHERE next_start_at < $1 LIMIT $2)`
)
