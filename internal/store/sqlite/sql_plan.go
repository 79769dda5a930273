package sqlite

// Plan.
const (
	// By schedules_plan_at, in its order: what is not due costs nothing.
	sqlPlanDue = `SELECT ` + planColumns + ` FROM schedules s
 WHERE s.plan_at <= ?1 AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?2)
   AND s.shard BETWEEN ?4 AND ?5
 ORDER BY s.plan_at, s.schedule_id LIMIT ?3`

	sqlAllSeen = `SELECT shard, seen_until FROM leaders WHERE seen_until IS NOT NULL`

	// unseen are the slots of ledger.UnseenSlots, ?1. A planned slot is due at fire_at.
	unseen = `json_each(?1) u CROSS JOIN open_runs o INDEXED BY open_runs_due
   ON o.state = 1 AND o.due_at > u.value ->> 0 AND o.due_at < u.value ->> 1 AND o.bucket BETWEEN u.value ->> 2 AND u.value ->> 3 AND o.trigger = 1`

	// Schedules that are not due to be planned, but have slots that no leader has seen.
	// One that is in quarantine waits for its own turn. The bucket is the schedule's: its
	// rows may be of another, from before an edit. ?2 = the horizon, ?3 = now.
	sqlPlanLate = `SELECT ` + planColumns + ` FROM (SELECT o.sid, min(o.run_at) AS oldest FROM ` + unseen + ` GROUP BY o.sid) late
 CROSS JOIN schedules s ON s.sid = late.sid
 WHERE (s.plan_at IS NULL OR s.plan_at > ?2) AND s.plan_failures = 0
   AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?3)
   AND s.shard BETWEEN ?4 AND ?5
 ORDER BY late.oldest, s.schedule_id LIMIT ?6`

	sqlPlanLateRuns = `SELECT ` + openRunColumns + ` FROM ` + unseen + ofOpen + `
 WHERE s.schedule_id IN (SELECT value FROM json_each(?2))
 ORDER BY o.run_at, o.idempotency_key`

	// The slots since the beginning of an open backlog that have a row. ?1 = schedule_id.
	sqlPlanned = `SELECT o.run_at FROM open_runs o INDEXED BY open_runs_schedule
  WHERE o.sid = ` + sidOfFirst + ` AND o.run_at >= ?2 AND (?3 IS NULL OR o.run_at < ?3) AND o.trigger IN (1, 2)
 UNION SELECT e.run_at FROM ended_runs e INDEXED BY ended_runs_schedule
  WHERE e.sid = ` + sidOfFirst + ` AND e.run_at >= ?2 AND (?3 IS NULL OR e.run_at < ?3) AND e.trigger IN (1, 2)
 ORDER BY 1`
	// sidOfFirst is the number of the schedule ?1.
	sidOfFirst = `(SELECT sid FROM schedules WHERE schedule_id = ?1)`

	// The write lock makes the compare-and-set on revision and cursor: what the
	// candidate was read as still stands.
	sqlPlanSchedule = `UPDATE schedules SET next_run_at = ?, plan_at = ?, backlog_from = ?, backlog_until = ?,
 backlog_revision = ?, backlog_at = ?, plan_failures = 0,
 planned_until = COALESCE(max(planned_until, ?7), planned_until, ?7) WHERE schedule_id = ?8`
	sqlPlanFailed   = `UPDATE schedules SET plan_at = ?, plan_failures = ? WHERE schedule_id = ?`
	sqlPlanEndPause = `UPDATE schedules SET paused = 0, pause_note = NULL, paused_by = NULL, paused_until = NULL WHERE schedule_id = ? RETURNING shard`

	sqlLateFire = `UPDATE open_runs SET fire_at = ?2, due_at = ?3, trigger = ?4, updated_at = ?5 WHERE idempotency_key = ?1 AND state = 1`
)

// A large step back of the clock (Rewind). ?1 is the instant that it is now.
const (
	sqlRewindDrop = `DELETE FROM open_runs WHERE state IN (1, 2) AND trigger IN (1, 2) AND run_at > ?1`

	// What lies later than now by the old clock is shifted by ?2, the size of the
	// step. A row that was written since (until ?3) goes by the new clock already: so a
	// Rewind that is repeated shifts nothing twice.
	sqlRewindInFlight = `UPDATE open_runs SET claimed_at = claimed_at - ?2 * (claimed_at > ?1),
 send_after = send_after - ?2 * (send_after > ?1), timeout_at = timeout_at - ?2 * (timeout_at > ?1),
 cancel_requested_at = cancel_requested_at - ?2 * (cancel_requested_at > ?1), due_at = min(due_at, ?1),
 fire_at = fire_at - ?2 * (fire_at > ?1 AND status = 2), updated_at = ?1
 WHERE state = 3 AND NOT updated_at BETWEEN ?1 AND ?3`
	// A slot that is left was due by now, and is at most put off by its jitter.
	sqlRewindPlanned = `UPDATE open_runs SET fire_at = fire_at - ?2 * (fire_at > ?1 AND trigger <> 1),
 due_at = CASE WHEN state = 1 THEN fire_at - ?2 * (fire_at > ?1 AND trigger <> 1) ELSE due_at END,
 waiting_since = waiting_since - ?2 * (waiting_since > ?1), updated_at = ?1
 WHERE state IN (1, 2) AND (fire_at > ?1 AND trigger <> 1 OR waiting_since > ?1) AND NOT updated_at BETWEEN ?1 AND ?3`
	// No lease by the new clock lasts until ?1.
	sqlRewindLeases        = `UPDATE open_runs SET lease_until = lease_until - ?2 WHERE state = 3 AND lease_until > ?1`
	sqlRewindRequestLeases = `UPDATE execution_requests SET lease_until = lease_until - ?2 WHERE lease_until > ?1`
	// A repetition makes a portion due sooner, which is harmless.
	sqlRewindBacklogs = `UPDATE schedules SET backlog_at = backlog_at - ?2, plan_at = plan_at - ?2 * (plan_at > ?1) WHERE backlog_at > ?1`

	sqlRewindEvents = `INSERT INTO schedule_events (schedule_id, time, kind, from_at, to_at, note, revision)
SELECT schedule_id, ?1, 'clock_stepped', ?1, ?2, ?3, revision FROM schedules` + rewound

	// The cursor need not be a slot: the planner begins at the first one from there.
	sqlRewind = `UPDATE schedules SET next_run_at = ?2, plan_at = ?1` + rewound

	// What lies ahead was not looked at by the new clock.
	sqlRewindSeen = `UPDATE leaders SET seen_until = ?1 WHERE seen_until > ?1`

	rewound = `
WHERE deleted_at IS NULL AND NOT (paused = 1 AND (paused_until IS NULL OR paused_until > ?1))
  AND (cron_expr IS NOT NULL OR interval_ms IS NOT NULL OR once_at IS NOT NULL)
  AND (next_run_at IS NULL OR next_run_at > ?1)`
)
