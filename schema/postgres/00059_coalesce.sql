-- +goose Up
-- Overlap policy 5, coalesce: the newest slot of a schedule waits in place of older ones.
DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[o.status] AS status,
    NULL::text AS reason, (ARRAY['schedule','catchup','manual','backfill','retry','job'])[o.trigger] AS trigger, o.overlap_key, (ARRAY['allow','skip','queue','replace','coalesce'])[o.policy] AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL::text AS failure_class, NULL::boolean AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, (ARRAY['delayed','waiting','chained','dispatching','running'])[o.queue_state] AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq, o.deadline_at, o.fair_key, o.worker_id, o.worker_slot, o.progress,
    o.requested_by, (ARRAY['order','aged'])[o.admitted_as] AS admitted_as
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[e.status],
    e.reason, (ARRAY['schedule','catchup','manual','backfill','retry','job'])[e.trigger], e.overlap_key, (ARRAY['allow','skip','queue','replace','coalesce'])[e.policy], e.policy <> 1, e.max_queued,
    NULL::timestamptz, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL::timestamptz, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL::timestamptz, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL::text, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL::integer, e.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq, NULL::timestamptz, e.fair_key, e.worker_id, NULL::integer, NULL::text,
    e.requested_by, (ARRAY['order','aged'])[e.admitted_as]
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases do not know the policy: edit schedules that have it, and let their runs end, before.
DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[o.status] AS status,
    NULL::text AS reason, (ARRAY['schedule','catchup','manual','backfill','retry','job'])[o.trigger] AS trigger, o.overlap_key, (ARRAY['allow','skip','queue','replace'])[o.policy] AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL::text AS failure_class, NULL::boolean AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, (ARRAY['delayed','waiting','chained','dispatching','running'])[o.queue_state] AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq, o.deadline_at, o.fair_key, o.worker_id, o.worker_slot, o.progress,
    o.requested_by, (ARRAY['order','aged'])[o.admitted_as] AS admitted_as
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[e.status],
    e.reason, (ARRAY['schedule','catchup','manual','backfill','retry','job'])[e.trigger], e.overlap_key, (ARRAY['allow','skip','queue','replace'])[e.policy], e.policy <> 1, e.max_queued,
    NULL::timestamptz, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL::timestamptz, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL::timestamptz, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL::text, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL::integer, e.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq, NULL::timestamptz, e.fair_key, e.worker_id, NULL::integer, NULL::text,
    e.requested_by, (ARRAY['order','aged'])[e.admitted_as]
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
