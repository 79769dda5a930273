package sqlite

// Expectations, alerts, and the outbox of messages about them.

const (
	expectationColumns = `e.schedule_id, e.kind, e.status, e.limit_ms, e.late, e.late_since, e.watched_since, e.judged_until, e.met_at,
 e.alert_id, e.judge_at, e.judged_at`
	alertColumns = `a.alert_id, a.schedule_id, a.workflow_id, a.user_id, a.kind, a.revision, a.limit_ms, a.cause, a.late,
 a.first_slot, a.last_slot, a.deadline, a.opened_at, a.closed_at, a.resolution, a.notified_at, a.acked_at, a.acked_by, a.ack_note, a.targets, a.idempotency_key, a.detail`
	deliveryColumns = `d.delivery_id, d.alert_id, d.schedule_id, d.user_id, d.type, d.target, d.target_kind, d.host, d.payload, d.state, d.attempts,
 d.round, d.round_at, d.next_at, d.last_status, d.last_error, d.created_at, d.ended_at, d.idempotency_key,
 EXISTS (SELECT 1 FROM alert_targets t WHERE t.target = d.target), d.group_no`
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

	sqlExpectationsOf = `SELECT ` + expectationColumns + ` FROM expectations e WHERE e.schedule_id = ? ORDER BY e.kind`

	sqlAlertsByID    = `SELECT ` + alertColumns + ` FROM json_each(?) j CROSS JOIN alerts a ON a.alert_id = j.value`
	sqlListAlerts    = `SELECT ` + alertColumns + ` FROM alerts a WHERE true`
	sqlAlertUser     = ` AND a.user_id = ?`
	sqlAlertSchedule = ` AND a.schedule_id = ?`
	sqlAlertKind     = ` AND a.kind = ?`
	sqlAlertOpen     = ` AND a.closed_at IS NULL`
	sqlAlertClosed   = ` AND a.closed_at IS NOT NULL`
	sqlAlertsAfter   = ` AND (a.opened_at, a.alert_id) < (?, ?)`
	sqlAlertsOrder   = ` ORDER BY a.opened_at DESC, a.alert_id DESC LIMIT ?`
	sqlDueOfTarget   = `SELECT ` + deliveryColumns + ` FROM alert_deliveries d WHERE d.state = 'PENDING' AND d.next_at <= ?1 AND d.target = ?2
 ORDER BY d.next_at LIMIT ?3`
	sqlDueOfOthers = `SELECT ` + deliveryColumns + ` FROM alert_deliveries d WHERE d.state = 'PENDING' AND d.next_at <= ?1
 AND d.target NOT IN (SELECT value FROM json_each(?2)) ORDER BY d.next_at LIMIT ?3`
	sqlDeliveriesByID  = `SELECT ` + deliveryColumns + ` FROM json_each(?) j CROSS JOIN alert_deliveries d ON d.delivery_id = j.value`
	sqlListDeliveries  = `SELECT ` + deliveryColumns + ` FROM alert_deliveries d WHERE true`
	sqlDeliveryRuns    = ` AND d.idempotency_key IS NOT NULL`
	sqlDeliveryAlerts  = ` AND d.idempotency_key IS NULL`
	sqlDeliveryAlert   = ` AND (d.alert_id = ? OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.alert_id = ?))`
	sqlDeliveryOf      = ` AND (d.schedule_id = ? OR (d.target, d.alert_id) IN (SELECT m.target, m.group_id FROM alert_group_members m WHERE m.schedule_id = ?))`
	sqlDeliveryState   = ` AND d.state = ?`
	sqlDeliveriesAfter = ` AND (d.created_at, d.delivery_id) < (?, ?)`
	sqlDeliveriesOrder = ` ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT ?`
	sqlPruneAlerts     = `DELETE FROM alerts WHERE alert_id IN (SELECT alert_id FROM alerts WHERE closed_at IS NOT NULL AND closed_at < ? ORDER BY closed_at LIMIT ?)`
	sqlPruneDeliveries = `DELETE FROM alert_deliveries WHERE delivery_id IN (SELECT delivery_id FROM alert_deliveries WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)`

	sqlCheckGroup   = `UPDATE alert_groups SET check_at = max(?3, COALESCE(told_at + ?4, ?3)) WHERE target = ?1 AND group_id = ?2`
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
