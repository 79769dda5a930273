-- Runs that are not over, and the end of the old table. The view of the core file follows.
INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, exclusive_flight, overlap_key, run_at, fire_at,
    due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch, claimed_at, waiting_since, send_after, launched_at, started_at,
    timeout_at, cancel_requested_at, cancel_reason, retry_of, input, run_id, trace_id, error_code, error_message, attempt_log, late_reports,
    exit_code, log_url, created_at, updated_at)
SELECT
    r.idempotency_key, s.sid, CASE WHEN r.trigger IN ('schedule','catchup') THEN 0 ELSE (SELECT count(*) FROM schedule_runs n
        WHERE n.schedule_id = r.schedule_id AND n.run_at = r.run_at AND n.idempotency_key <= r.idempotency_key) END, r.revision, r.shard, CASE WHEN r.status <> 'PLANNED' THEN 3 WHEN r.waiting_since IS NULL THEN 1 ELSE 2 END,
    array_position(ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'], r.status)::smallint,
    array_position(ARRAY['schedule','catchup','manual','backfill','retry'], r.trigger)::smallint,
    array_position(ARRAY['allow','skip','queue','replace'], r.overlap_policy)::smallint, r.exclusive AND r.status <> 'PLANNED', r.overlap_key,
    r.run_at,
    r.fire_at, CASE WHEN r.status <> 'PLANNED' THEN r.updated_at WHEN r.waiting_since IS NULL THEN r.fire_at ELSE 'infinity' END, r.priority,
    r.max_queued, r.attempt, r.deliveries,
    r.failed_attempts, r.epoch, r.claimed_at, r.waiting_since, r.claimed_until, r.launched_at,
    r.started_at, r.timeout_at, r.cancel_requested_at, r.cancel_reason, r.retry_of, r.input,
    r.run_id, r.trace_id, r.error_code, r.error_message, r.attempt_log, r.late_reports,
    r.exit_code, r.log_url, r.created_at, r.updated_at
FROM schedule_runs r JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE r.status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED');

-- Nothing is left.
UPDATE schedules SET planned_until = (SELECT max(run_at) FROM schedule_runs r WHERE r.schedule_id = schedules.schedule_id);
DROP TABLE schedule_runs;
