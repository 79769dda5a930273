package sqlite

// Expectations, alerts, and the outbox of messages about them.

const (
	expectationColumns = `e.schedule_id, e.kind, e.status, e.limit_ms, e.late, e.late_since, e.watched_since, e.judged_until, e.met_at,
 e.alert_id, e.judge_at, e.judged_at`
	alertColumns = `a.alert_id, a.schedule_id, a.workflow_id, a.user_id, a.kind, a.revision, a.limit_ms, a.cause, a.late,
 a.first_slot, a.last_slot, a.deadline, a.opened_at, a.closed_at, a.resolution, a.notified_at, a.acked_at, a.acked_by, a.ack_note, a.targets, a.idempotency_key, a.detail`
	deliveryColumns = `d.delivery_id, d.alert_id, d.schedule_id, d.user_id, d.type, d.target, d.target_kind, d.host, d.payload, d.state, d.attempts,
 d.round, d.round_at, d.next_at, d.last_status, d.last_error, d.created_at, d.ended_at,
 EXISTS (SELECT 1 FROM alert_targets t WHERE t.target = d.target)`
	openSlotColumns  = `r.run_at, r.status, NULL, r.claimed_at, r.launched_at, r.started_at, NULL`
	endedSlotColumns = `r.run_at, r.status, r.reason, r.claimed_at, r.launched_at, r.started_at, r.completed_at`

	sqlWakeExpectation = `INSERT INTO expectations (schedule_id, kind, status, watched_since, judged_until, judge_at)
 VALUES (?1, ?2, 'ok', ?3, ?3, ?3) ON CONFLICT (schedule_id, kind) DO UPDATE SET judge_at = excluded.judge_at`
	sqlAnyExpectationDue = `SELECT EXISTS (SELECT 1 FROM expectations WHERE judge_at <= ?)`
	sqlDueExpectations   = `SELECT ` + expectationColumns + ` FROM expectations e WHERE e.judge_at <= ? ORDER BY e.judge_at LIMIT ?`
	sqlNewestRevisions   = `SELECT v.revision, v.definition, v.created_at FROM schedule_revisions v
 WHERE v.schedule_id = ? ORDER BY v.revision DESC LIMIT ?`
	sqlPauses = `SELECT ` + eventColumns + ` FROM schedule_events INDEXED BY schedule_events_pauses
 WHERE schedule_id = ? AND kind IN ('paused','resumed','pause_ended') ORDER BY event_id DESC LIMIT ?`
	sqlRunsOfSlot = `SELECT ` + openSlotColumns + ` FROM open_runs r INDEXED BY open_runs_schedule WHERE ` + ofJudgedSlot + `
 UNION ALL SELECT ` + endedSlotColumns + ` FROM ended_runs r INDEXED BY ended_runs_schedule WHERE ` + ofJudgedSlot
	sqlRunsOfSlots = `SELECT * FROM (SELECT ` + openSlotColumns + ` FROM open_runs r INDEXED BY open_runs_schedule WHERE ` + ofJudgedSlots + `)
 UNION ALL SELECT * FROM (SELECT ` + endedSlotColumns + ` FROM ended_runs r INDEXED BY ended_runs_schedule WHERE ` + ofJudgedSlots + `)
 ORDER BY run_at LIMIT ?4`
	ofJudgedSlot   = `r.sid = ` + sidOfFirst + ` AND r.run_at = ?2 AND r.trigger <> 3`
	ofJudgedSlots  = `r.sid = ` + sidOfFirst + ` AND r.run_at > ?2 AND r.run_at <= ?3 AND r.trigger <> 3 ORDER BY r.run_at LIMIT ?4`
	sqlPausedAtAll = `SELECT j.value FROM json_each(?) j WHERE EXISTS (SELECT 1 FROM schedule_events INDEXED BY schedule_events_pauses
 WHERE schedule_id = j.value AND kind IN ('paused','resumed','pause_ended'))`
	sqlRunsOfManySlots = `SELECT j.value ->> 'p', ` + openSlotColumns + ofManySlots + `
 CROSS JOIN open_runs r INDEXED BY open_runs_schedule WHERE ` + ofSlotsAfter + `
 UNION ALL SELECT j.value ->> 'p', ` + endedSlotColumns + ofManySlots + `
 CROSS JOIN ended_runs r INDEXED BY ended_runs_schedule WHERE ` + ofSlotsAfter + ` LIMIT ?3`
	ofManySlots    = ` FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value ->> 's'`
	ofSlotsAfter   = `r.sid = s.sid AND r.run_at > j.value ->> 'a' AND r.run_at <= ?2 AND r.trigger <> 3`
	sqlLastSuccess = `SELECT max(r.completed_at) FROM ended_runs r INDEXED BY ended_runs_schedule
 WHERE r.sid = (SELECT sid FROM schedules WHERE schedule_id = ?) AND r.run_at >= ? AND r.run_at <= ? AND r.status = 5`

	sqlSaveExpectation = `UPDATE expectations SET status = ?3, limit_ms = ?4, late = ?5, late_since = ?6, watched_since = ?7,
 judged_until = ?8, met_at = ?9, alert_id = ?10, judge_at = ?11, judged_at = ?12 WHERE schedule_id = ?1 AND kind = ?2`
	sqlDropExpectation = `DELETE FROM expectations WHERE schedule_id = ? AND kind = ?`
	sqlSaveAlert       = `INSERT INTO alerts (alert_id, schedule_id, workflow_id, user_id, kind, revision, limit_ms, cause, late,
 first_slot, last_slot, deadline, opened_at, closed_at, resolution, notified_at, targets, idempotency_key, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (alert_id) DO UPDATE SET cause = excluded.cause, late = excluded.late, last_slot = excluded.last_slot,
 deadline = excluded.deadline, closed_at = excluded.closed_at, resolution = excluded.resolution, notified_at = excluded.notified_at,
 targets = excluded.targets, idempotency_key = excluded.idempotency_key, detail = excluded.detail`
	sqlUnmetExpectations = `SELECT kind, count(*) FROM expectations WHERE status <> 'ok' GROUP BY kind`
	sqlExpectationsOf    = `SELECT ` + expectationColumns + ` FROM expectations e WHERE e.schedule_id = ? ORDER BY e.kind`

	sqlAlertsByID     = `SELECT ` + alertColumns + ` FROM json_each(?) j CROSS JOIN alerts a ON a.alert_id = j.value`
	sqlListAlerts     = `SELECT ` + alertColumns + ` FROM alerts a WHERE true`
	sqlAlertUser      = ` AND a.user_id = ?`
	sqlAlertSchedule  = ` AND a.schedule_id = ?`
	sqlAlertKind      = ` AND a.kind = ?`
	sqlAlertOpen      = ` AND a.closed_at IS NULL`
	sqlAlertClosed    = ` AND a.closed_at IS NOT NULL`
	sqlAlertsAfter    = ` AND (a.opened_at, a.alert_id) < (?, ?)`
	sqlAlertsOrder    = ` ORDER BY a.opened_at DESC, a.alert_id DESC LIMIT ?`
	sqlAckAlert       = `UPDATE alerts SET acked_at = COALESCE(acked_at, ?2), acked_by = COALESCE(acked_by, ?3), ack_note = COALESCE(ack_note, ?4) WHERE alert_id = ?1`
	sqlInsertDelivery = `INSERT INTO alert_deliveries (delivery_id, alert_id, schedule_id, user_id, type, target, target_kind, host, payload, state, round_at, next_at, created_at)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'PENDING', ?10, ?10, ?10) ON CONFLICT (delivery_id) DO NOTHING`
	sqlAnyDelivery   = `SELECT EXISTS (SELECT 1 FROM alert_deliveries WHERE state = 'PENDING' AND next_at <= ?)`
	sqlDueDeliveries = `SELECT ` + deliveryColumns + ` FROM alert_deliveries d WHERE d.state = 'PENDING' AND d.next_at <= ?1
 AND (?2 = '' OR d.target = ?2) AND d.target NOT IN (SELECT value FROM json_each(?3)) ORDER BY d.next_at LIMIT ?4`
	sqlClaimDelivery  = `UPDATE alert_deliveries SET attempts = attempts + 1, next_at = ? WHERE delivery_id = ?`
	sqlDeliveriesByID = `SELECT ` + deliveryColumns + ` FROM json_each(?) j CROSS JOIN alert_deliveries d ON d.delivery_id = j.value`
	sqlSettleDelivery = `UPDATE alert_deliveries SET state = ?4, next_at = ?5, last_status = ?6, last_error = ?7, ended_at = ?8
 WHERE delivery_id = ?1 AND attempts = ?2 AND round = ?3 AND state = 'PENDING'`
	sqlDisableTarget = `INSERT INTO alert_targets (target, host, disabled_at) SELECT d.target, d.host, ?2 FROM alert_deliveries d
 WHERE d.delivery_id = ?1 ON CONFLICT (target) DO NOTHING`
	sqlEnableTarget    = `DELETE FROM alert_targets WHERE target = (SELECT d.target FROM alert_deliveries d WHERE d.delivery_id = ?)`
	sqlListDeliveries  = `SELECT ` + deliveryColumns + ` FROM alert_deliveries d WHERE true`
	sqlDeliveryAlert   = ` AND (d.alert_id = ? OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.alert_id = ?))`
	sqlDeliveryOf      = ` AND (d.schedule_id = ? OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.schedule_id = ?))`
	sqlDeliveryState   = ` AND d.state = ?`
	sqlDeliveriesAfter = ` AND (d.created_at, d.delivery_id) < (?, ?)`
	sqlDeliveriesOrder = ` ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT ?`
	sqlRedeliver       = `UPDATE alert_deliveries SET state = 'PENDING', round = round + 1, round_at = ?2, attempts = 0, next_at = ?2, ended_at = NULL
 WHERE delivery_id = ?1 AND (state <> 'PENDING' OR next_at > ?3)`
	sqlPruneAlerts     = `DELETE FROM alerts WHERE alert_id IN (SELECT alert_id FROM alerts WHERE closed_at IS NOT NULL AND closed_at < ? ORDER BY closed_at LIMIT ?)`
	sqlPruneDeliveries = `DELETE FROM alert_deliveries WHERE delivery_id IN (SELECT delivery_id FROM alert_deliveries WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)`

	sqlSaveNotice = `INSERT INTO alert_group_members (alert_id, target, grouped_by, schedule_id, type, payload, opened_at, noticed_at, told, pending)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 0, 1) ON CONFLICT (alert_id, target) DO UPDATE SET payload = excluded.payload, told = 0, pending = 1,
 type = CASE WHEN ` + repeatsNotice + ` THEN type ELSE excluded.type END,
 noticed_at = CASE WHEN ` + repeatsNotice + ` THEN noticed_at ELSE excluded.noticed_at END`
	// A reminder of an alert that was not sent yet leaves the time of its message.
	// Otherwise frequent reminders would postpone it again and again.
	repeatsNotice = `NOT told AND type <> 'alert.recovered' AND excluded.type = 'alert.reminder'`

	sqlAnyGrouping = `SELECT EXISTS (SELECT 1 FROM alert_group_members WHERE pending) OR EXISTS (SELECT 1 FROM alert_groups WHERE check_at <= ?)`
	noticeColumns  = `m.target, m.alert_id, g.group_id, m.grouped_by, m.schedule_id, m.type, m.opened_at, m.noticed_at, m.told`
	// A notice of a closed group is in no group: its alert is open again.
	sqlPendingNotices = `SELECT ` + noticeColumns + ` FROM alert_group_members m
 LEFT JOIN alert_groups g ON g.target = m.target AND g.group_id = m.group_id AND g.closed_at IS NULL
 WHERE m.pending ORDER BY m.noticed_at LIMIT ?`
	sqlNoticesOf = `SELECT ` + noticeColumns + ` FROM alert_group_members m JOIN alert_groups g ON g.target = m.target AND g.group_id = m.group_id
 WHERE m.target = ? AND m.group_id = ? ORDER BY m.opened_at, m.alert_id`
	groupColumns    = `g.target, g.group_id, g.grouped_by, g.joined_at, g.told_at`
	sqlJoinedGroups = `SELECT ` + groupColumns + ` FROM alert_groups g
 JOIN alert_group_members m ON m.alert_id = g.group_id AND m.target = g.target
 WHERE g.closed_at IS NULL AND g.joined_at > ? AND m.opened_at > ? ORDER BY g.joined_at DESC, g.group_id`
	sqlDueGroups   = `SELECT ` + groupColumns + ` FROM alert_groups g WHERE g.check_at <= ? ORDER BY g.check_at LIMIT ?`
	sqlPlaceNotice = `UPDATE alert_group_members SET group_id = ?3, pending = 0 WHERE alert_id = ?1 AND target = ?2`
	// A group that was closed begins again: its first alert is open again.
	sqlJoinGroup = `INSERT INTO alert_groups (target, group_id, grouped_by, joined_at, check_at) VALUES (?1, ?2, ?3, ?4, ?4)
 ON CONFLICT (target, group_id) DO UPDATE SET grouped_by = excluded.grouped_by, joined_at = excluded.joined_at,
 told_at = CASE WHEN closed_at IS NULL THEN told_at END, closed_at = NULL`
	sqlCheckGroup   = `UPDATE alert_groups SET check_at = max(?3, COALESCE(told_at + ?4, ?3)) WHERE target = ?1 AND group_id = ?2`
	sqlSaveGroup    = `UPDATE alert_groups SET told_at = COALESCE(?3, told_at), check_at = ?4, closed_at = ?5 WHERE target = ?1 AND group_id = ?2`
	sqlToldNotices  = `UPDATE alert_group_members SET told = 1 WHERE target = ? AND group_id = ? AND NOT told`
	sqlNoticeText   = `SELECT payload FROM alert_group_members WHERE target = ? AND alert_id = ?`
	sqlPruneNotices = `DELETE FROM alert_group_members WHERE rowid IN (SELECT m.rowid FROM alert_groups g
 JOIN alert_group_members m ON m.target = g.target AND m.group_id = g.group_id WHERE g.closed_at < ? LIMIT ?)`
	// sqlPruneLostNotices deletes the notices of groups that are never closed: their alerts
	// closed while no registrar had the target.
	sqlPruneLostNotices = `DELETE FROM alert_group_members WHERE rowid IN (SELECT m.rowid FROM alert_groups g
 JOIN alert_group_members m ON m.target = g.target AND m.group_id = g.group_id
 WHERE g.closed_at IS NULL AND g.joined_at < ?1 AND g.check_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM alert_group_members o JOIN alerts a ON a.alert_id = o.alert_id
  WHERE o.target = g.target AND o.group_id = g.group_id AND (a.closed_at IS NULL OR a.closed_at >= ?1 OR o.pending)) LIMIT ?2)`
	sqlPruneGroups = `DELETE FROM alert_groups WHERE rowid IN (SELECT g.rowid FROM alert_groups g
 WHERE (g.closed_at < ?1 OR g.closed_at IS NULL AND g.joined_at < ?1)
 AND NOT EXISTS (SELECT 1 FROM alert_group_members m WHERE m.target = g.target AND m.group_id = g.group_id) LIMIT ?2)`
)
