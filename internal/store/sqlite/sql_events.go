package sqlite

import "github.com/carillon/carillon/internal/store/tables"

// Events, their inboxes and wake rows.
const (
	sqlUnsubscribe = `DELETE FROM subscriptions WHERE sid IN (SELECT s.sid FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value)
 RETURNING (SELECT s.schedule_id FROM schedules s WHERE s.sid = subscriptions.sid)`

	sqlSubscriptionsOf = `SELECT b.sid, s.schedule_id, s.user_id || '/' || s.overlap_key, b.topic, b.prefix, s.consume
 FROM subscriptions b CROSS JOIN schedules s ON s.sid = b.sid
 WHERE b.user_id = ?1 AND (b.prefix OR b.topic IN (SELECT j.value FROM json_each(?2) j)) ORDER BY b.sid, b.topic`

	sqlDrawEvents = `SELECT coalesce((SELECT n.seq FROM sqlite_sequence n WHERE n.name = 'events'), 0) + 1 WHERE ?1 > 0`

	sqlInsertEventsOfTopics = `INSERT INTO events (seq, user_id, topic, source, event_id, type, subject, time, data, data_hash, fanout, published_by, published_at, caused_by, hops)
 SELECT j.value ->> 0, ?1, j.value ->> 1, j.value ->> 2, j.value ->> 3, nullif(j.value ->> 4, ''), nullif(j.value ->> 5, ''), nullif(j.value ->> 6, 0),
 j.value ->> 7, unhex(j.value ->> 8), j.value ->> 9, nullif(j.value ->> 10, ''), ?2,
 CASE WHEN j.value ->> 11 <> '' THEN unhex(j.value ->> 11) END, j.value ->> 12 FROM json_each(?3) j WHERE true
 ON CONFLICT (user_id, topic, source, event_id) DO NOTHING RETURNING seq, topic, source, event_id`

	sqlEventsByID = `SELECT ` + tables.EventColumns + ` FROM json_each(?2) j CROSS JOIN events e
 ON e.user_id = ?1 AND e.topic = j.value ->> 0 AND e.source = j.value ->> 1 AND e.event_id = j.value ->> 2`

	sqlInsertInbox = `INSERT INTO inbox (sid, seq, round, state, created_at) SELECT j.value ->> 0, j.value ->> 1, 1, 1, ?1 FROM json_each(?2) j`

	sqlWakeConsumers = `INSERT INTO wakes (sid, bucket, fire_at, created_at) SELECT j.value ->> 0, j.value ->> 1, j.value ->> 2, j.value ->> 2 FROM json_each(?1) j WHERE true
 ON CONFLICT (sid) DO UPDATE SET fire_at = min(wakes.fire_at, excluded.fire_at), bucket = excluded.bucket WHERE wakes.fire_at > excluded.fire_at OR wakes.bucket <> excluded.bucket RETURNING sid`

	sqlWakeChanged = `INSERT INTO wakes (sid, bucket, fire_at, created_at)
 SELECT s.sid, j.value ->> 1, j.value ->> 2, j.value ->> 2 FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value ->> 0 WHERE true
 ON CONFLICT (sid) DO UPDATE SET fire_at = excluded.fire_at, bucket = excluded.bucket`

	sqlWakesOfSchedules = `SELECT ` + tables.WakeColumns + `, '' FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value CROSS JOIN wakes w ON w.sid = s.sid`
	sqlWakesOfBuckets   = `SELECT ` + tables.WakeColumns + `, '' FROM wakes w CROSS JOIN schedules s ON s.sid = w.sid WHERE w.bucket BETWEEN ?1 AND ?2`
	sqlLockWakes        = `SELECT ` + tables.WakeColumns + `, (SELECT r.definition FROM schedule_revisions r WHERE r.schedule_id = s.schedule_id AND r.revision = s.revision)
 FROM json_each(?1) j CROSS JOIN schedules s ON s.schedule_id = j.value CROSS JOIN wakes w ON w.sid = s.sid ORDER BY w.sid`

	sqlReadReady = `SELECT i.sid, i.seq, i.round, i.created_at, e.topic, e.source, e.event_id, e.published_at, octet_length(e.data)
 FROM json_each(?1) j CROSS JOIN inbox i ON i.sid = j.value ->> 0 AND (i.seq, i.round) IN (
  SELECT p.seq, p.round FROM inbox p INDEXED BY inbox_pending WHERE p.sid = j.value ->> 0 AND p.state = 1 ORDER BY p.seq LIMIT ?2)
 CROSS JOIN events e ON e.seq = i.seq ORDER BY i.sid, i.seq, i.round`

	sqlReserveEvents = `UPDATE inbox SET state = 2, run_key = ?3, offered_at = coalesce(offered_at, ?2)
 WHERE sid = ?1 AND state = 1 AND (seq, round) IN (SELECT j.value ->> 0, j.value ->> 1 FROM json_each(?4) j)`
	sqlSkipEvents = `UPDATE inbox SET state = 4, reason = ?3, ended_at = ?2
 WHERE sid = ?1 AND state = 1 AND (seq, round) IN (SELECT j.value ->> 0, j.value ->> 1 FROM json_each(?4) j)`

	sqlSchedulesBySID = `SELECT s.sid, s.schedule_id, s.user_id FROM json_each(?1) j CROSS JOIN schedules s ON s.sid = j.value ->> 0`
	sqlHopsOf         = `SELECT i.run_key, max(e.hops) FROM json_each(?1) j CROSS JOIN inbox i ON i.run_key = unhex(j.value) CROSS JOIN events e ON e.seq = i.seq
 GROUP BY i.run_key`

	sqlHandlersOf = `SELECT h.idempotency_key, h.sid, s.schedule_id, s.user_id || '/' || s.overlap_key
 FROM json_each(?1) j CROSS JOIN handler_runs h ON h.idempotency_key = unhex(j.value) CROSS JOIN schedules s ON s.sid = h.sid`

	sqlAuditRuns = `SELECT unhex(j.value), coalesce((SELECT r.status FROM ended_runs r WHERE r.idempotency_key = unhex(j.value)), 0),
 EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = unhex(j.value)), h.idempotency_key IS NOT NULL, coalesce(h.event_count, 0), h.events_digest
 FROM json_each(?1) j LEFT JOIN handler_runs h ON h.idempotency_key = unhex(j.value)`
	sqlAuditBatches = `SELECT i.run_key, e.topic, e.source, e.event_id, i.round
 FROM json_each(?1) j CROSS JOIN inbox i ON i.run_key = unhex(j.value) AND i.state = 3 CROSS JOIN events e ON e.seq = i.seq ORDER BY i.run_key, i.seq, i.round`
)
