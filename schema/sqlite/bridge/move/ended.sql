-- One portion of history, in the order of run_at. Parameters: run_at and key of the
-- last run that is there, and the size of the portion. nth is counted over all runs
-- of a slot, so that it does not depend on portions.
INSERT INTO ended_runs (run_at, fire_at, created_at, claimed_at, launched_at, started_at, completed_at, recorded_at, cancel_requested_at, timeout_at,
    epoch, sid, nth, revision, priority, max_queued, attempt, deliveries, failed_attempts, late_reports, exit_code, bucket, status, trigger, policy,
    idempotency_key, overlap_key, reason, cancel_reason, retry_of, input, run_id, trace_id, error_code, error_message, attempt_log, log_url)
SELECT
    r.run_at, r.fire_at, r.created_at, r.claimed_at, r.launched_at, r.started_at,
    coalesce(r.completed_at, r.updated_at), r.updated_at, r.cancel_requested_at, r.timeout_at, r.epoch, s.sid,
    CASE WHEN r.trigger IN ('schedule','catchup') THEN 0 ELSE (SELECT count(*) FROM schedule_runs n
        WHERE n.schedule_id = r.schedule_id AND n.run_at = r.run_at AND n.idempotency_key <= r.idempotency_key) END, r.revision, r.priority, r.max_queued, r.attempt, r.deliveries,
    r.failed_attempts, r.late_reports, r.exit_code, r.shard,
    CASE r.status WHEN 'PLANNED' THEN 1 WHEN 'LAUNCHING' THEN 2 WHEN 'ENQUEUED' THEN 3 WHEN 'STARTED' THEN 4 WHEN 'SUCCESS' THEN 5 WHEN 'FAILED' THEN 6 WHEN 'SKIPPED' THEN 7 WHEN 'CANCELLED' THEN 8 END, CASE r.trigger WHEN 'schedule' THEN 1 WHEN 'catchup' THEN 2 WHEN 'manual' THEN 3 WHEN 'backfill' THEN 4 WHEN 'retry' THEN 5 END,
    CASE r.overlap_policy WHEN 'allow' THEN 1 WHEN 'skip' THEN 2 WHEN 'queue' THEN 3 WHEN 'replace' THEN 4 END, r.idempotency_key, r.overlap_key,
    CASE WHEN r.status <> 'SUCCESS' THEN coalesce(r.reason, r.cancel_reason, 'unrecorded') ELSE r.reason END, r.cancel_reason, r.retry_of,
    r.input, r.run_id, r.trace_id, r.error_code, r.error_message, r.attempt_log,
    r.log_url
FROM schedule_runs r JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE (r.run_at, r.idempotency_key) > (?1, ?2) AND r.status IN ('SUCCESS','FAILED','SKIPPED','CANCELLED')
ORDER BY r.run_at, r.idempotency_key LIMIT ?3;
