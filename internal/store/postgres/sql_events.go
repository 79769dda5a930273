package postgres

import "github.com/carillon/carillon/internal/store/tables"

// Events, their inboxes and wake rows.
const (
	sqlUnsubscribe = `
DELETE FROM subscriptions b USING schedules s WHERE s.sid = b.sid AND s.schedule_id = ANY($1::text[]) RETURNING s.schedule_id`

	sqlSubscriptionsOf = `
SELECT b.sid, s.schedule_id, s.user_id || '/' || s.overlap_key, b.topic, b.prefix, s.consume
FROM subscriptions b JOIN schedules s ON s.sid = b.sid
WHERE b.user_id = $1 AND (b.topic = ANY($2::text[]) OR b.prefix) ORDER BY b.sid, b.topic`

	sqlDrawEvents = `SELECT nextval('events_seq_seq') FROM generate_series(1, $1::integer)`

	sqlInsertEventsOfTopics = `
INSERT INTO events (seq, user_id, topic, source, event_id, type, subject, time, data, data_hash, fanout, published_by, published_at, caused_by, hops)
SELECT u.seq, $1, u.topic, u.source, u.event_id, nullif(u.type, ''), nullif(u.subject, ''),
	CASE WHEN u.time <> 0 THEN 'epoch'::timestamptz + u.time * interval '1 microsecond' END, u.data, decode(u.hash, 'hex'), u.fanout, nullif(u.by, ''), $2,
	CASE WHEN u.cause <> '' THEN decode(u.cause, 'hex') END, u.hops
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[], $12::integer[], $13::text[],
	$14::text[], $15::integer[])
	AS u(seq, topic, source, event_id, type, subject, time, data, hash, fanout, by, cause, hops)
ON CONFLICT (user_id, topic, source, event_id) DO NOTHING RETURNING seq, topic, source, event_id`

	sqlEventsByID = `
SELECT ` + tables.EventColumns + ` FROM unnest($2::text[], $3::text[], $4::text[]) AS u(topic, source, event_id)
JOIN events e ON e.user_id = $1 AND e.topic = u.topic AND e.source = u.source AND e.event_id = u.event_id`

	sqlInsertInbox = `
INSERT INTO inbox (sid, seq, round, state, created_at) SELECT u.sid, u.seq, 1, 1, $1 FROM unnest($2::integer[], $3::bigint[]) AS u(sid, seq)`

	// sqlWakeConsumers locks a row also where it is not changed: the take locks it before it reads
	// the inbox, so it sees what was written before the lock.
	sqlWakeConsumers = `
INSERT INTO wakes (sid, bucket, fire_at, created_at)
SELECT u.sid, u.bucket, 'epoch'::timestamptz + u.at * interval '1 microsecond', 'epoch'::timestamptz + u.at * interval '1 microsecond'
FROM unnest($1::integer[], $2::integer[], $3::bigint[]) AS u(sid, bucket, at) ORDER BY u.sid
ON CONFLICT (sid) DO UPDATE SET fire_at = least(wakes.fire_at, excluded.fire_at), bucket = excluded.bucket WHERE wakes.fire_at > excluded.fire_at OR wakes.bucket <> excluded.bucket RETURNING sid`

	sqlWakeChanged = `
INSERT INTO wakes (sid, bucket, fire_at, created_at)
SELECT s.sid, u.bucket, 'epoch'::timestamptz + u.at * interval '1 microsecond', 'epoch'::timestamptz + u.at * interval '1 microsecond'
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS u(schedule_id, bucket, at) JOIN schedules s ON s.schedule_id = u.schedule_id ORDER BY s.sid
ON CONFLICT (sid) DO UPDATE SET fire_at = excluded.fire_at, bucket = excluded.bucket`

	sqlWakesOfSchedules = `SELECT ` + tables.WakeColumns + `, '' FROM schedules s JOIN wakes w ON w.sid = s.sid WHERE s.schedule_id = ANY($1::text[])`
	sqlWakesOfBuckets   = `SELECT ` + tables.WakeColumns + `, '' FROM wakes w JOIN schedules s ON s.sid = w.sid WHERE w.bucket BETWEEN $1 AND $2`
	sqlLockWakes        = `SELECT ` + tables.WakeColumns + `, (SELECT r.definition FROM schedule_revisions r WHERE r.schedule_id = s.schedule_id AND r.revision = s.revision)
FROM schedules s JOIN wakes w ON w.sid = s.sid WHERE s.schedule_id = ANY($1::text[]) ORDER BY w.sid FOR UPDATE OF w SKIP LOCKED`

	sqlReadReady = `
SELECT i.sid, i.seq, i.round, i.created_at, e.topic, e.source, e.event_id, e.published_at, octet_length(e.data)
FROM unnest($1::integer[]) AS u(sid)
CROSS JOIN LATERAL (SELECT * FROM inbox i WHERE i.sid = u.sid AND i.state = 1 ORDER BY i.seq LIMIT $2) i
JOIN events e ON e.seq = i.seq ORDER BY i.sid, i.seq, i.round`

	sqlReserveEvents = `
UPDATE inbox i SET state = 2, run_key = $3, offered_at = coalesce(i.offered_at, $2)
FROM unnest($4::bigint[], $5::integer[]) AS u(seq, round) WHERE i.sid = $1 AND i.seq = u.seq AND i.round = u.round AND i.state = 1`
	sqlSkipEvents = `
UPDATE inbox i SET state = 4, reason = $3, ended_at = $2
FROM unnest($4::bigint[], $5::integer[]) AS u(seq, round) WHERE i.sid = $1 AND i.seq = u.seq AND i.round = u.round AND i.state = 1`

	sqlSchedulesBySID = `SELECT s.sid, s.schedule_id, s.user_id FROM schedules s WHERE s.sid = ANY($1::integer[])`
	sqlHopsOf         = `
SELECT i.run_key, max(e.hops) FROM inbox i JOIN events e ON e.seq = i.seq WHERE i.run_key = ANY($1::bytea[]) GROUP BY i.run_key`

	sqlHandlersOf = `
SELECT h.idempotency_key, h.sid, s.schedule_id, s.user_id || '/' || s.overlap_key FROM handler_runs h JOIN schedules s ON s.sid = h.sid
WHERE h.idempotency_key = ANY($1::bytea[])`

	sqlAuditRuns = `
SELECT k.key, coalesce((SELECT r.status FROM ended_runs r WHERE r.idempotency_key = k.key LIMIT 1), 0), EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = k.key),
	h.idempotency_key IS NOT NULL, coalesce(h.event_count, 0), h.events_digest
FROM unnest($1::bytea[]) AS k(key) LEFT JOIN handler_runs h ON h.idempotency_key = k.key`
	sqlAuditBatches = `
SELECT i.run_key, e.topic, e.source, e.event_id, i.round
FROM unnest($1::bytea[]) AS k(key) JOIN inbox i ON i.run_key = k.key AND i.state = 3 JOIN events e ON e.seq = i.seq ORDER BY i.run_key, i.seq, i.round`
)
