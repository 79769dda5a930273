-- Back to the table of version 27, with all runs since. judged_at stays empty.
-- SQLite does not rename a view.
CREATE TABLE schedule_runs_wide (
    idempotency_key     BLOB PRIMARY KEY CHECK (length(idempotency_key) = 32),
    schedule_id         TEXT NOT NULL,
    revision            INTEGER NOT NULL,
    run_at              INTEGER NOT NULL,
    fire_at             INTEGER NOT NULL,
    status              TEXT NOT NULL CHECK (status = 'PLANNED' OR status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED' OR
        status = 'SUCCESS' OR status = 'FAILED' OR status = 'SKIPPED' OR status = 'CANCELLED'),
    reason              TEXT,
    trigger             TEXT NOT NULL CHECK (trigger = 'schedule' OR trigger = 'catchup' OR trigger = 'manual' OR trigger = 'backfill' OR
        trigger = 'retry'),
    overlap_key         TEXT NOT NULL, -- user_id/overlap_key
    overlap_policy      TEXT NOT NULL,
    exclusive           INTEGER NOT NULL,
    max_queued          INTEGER NOT NULL,
    waiting_since       INTEGER,
    judged_at           INTEGER,
    attempt             INTEGER NOT NULL DEFAULT 1,
    retry_of            BLOB,
    deliveries          INTEGER NOT NULL DEFAULT 0,
    input               TEXT,
    priority            INTEGER NOT NULL DEFAULT 0,
    run_id              TEXT,
    trace_id            TEXT,
    epoch               INTEGER NOT NULL DEFAULT 0,
    claimed_at          INTEGER,
    claimed_until       INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason       TEXT,
    launched_at         INTEGER,
    started_at          INTEGER,
    completed_at        INTEGER,
    timeout_at          INTEGER,
    error_code          TEXT,
    error_message       TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    shard               INTEGER NOT NULL DEFAULT 0,
    late_reports        INTEGER,
    failed_attempts     INTEGER NOT NULL DEFAULT 0,
    attempt_log         TEXT,
    exit_code           INTEGER,
    log_url             TEXT
) STRICT;
INSERT INTO schedule_runs_wide (idempotency_key, schedule_id, revision, run_at, fire_at, status, reason, trigger, overlap_key, overlap_policy, exclusive, max_queued,
    waiting_since, attempt, retry_of, deliveries, input, priority, run_id, trace_id, epoch, claimed_at, claimed_until, cancel_requested_at,
    cancel_reason, launched_at, started_at, completed_at, timeout_at, error_code, error_message, created_at, updated_at, shard, late_reports,
    failed_attempts, attempt_log, exit_code, log_url)
SELECT idempotency_key, schedule_id, revision, run_at, fire_at, status, reason, trigger, overlap_key, overlap_policy, exclusive, max_queued,
    waiting_since, attempt, retry_of, deliveries, input, priority, run_id, trace_id, epoch, claimed_at, claimed_until, cancel_requested_at,
    cancel_reason, launched_at, started_at, completed_at, timeout_at, error_code, error_message, created_at, updated_at, shard, late_reports,
    failed_attempts, attempt_log, exit_code, log_url
FROM schedule_runs;
DROP VIEW schedule_runs;
DROP TABLE open_runs;
DROP TABLE ended_runs;
ALTER TABLE schedule_runs_wide RENAME TO schedule_runs;
CREATE INDEX schedule_runs_waiting ON schedule_runs (overlap_key, fire_at) WHERE status = 'PLANNED' AND waiting_since IS NOT NULL;
CREATE UNIQUE INDEX schedule_runs_one_in_flight ON schedule_runs (overlap_key)
    WHERE exclusive AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_history ON schedule_runs (schedule_id, run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_run_at ON schedule_runs (run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_updated ON schedule_runs (updated_at, idempotency_key);
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key)
    WHERE NOT exclusive AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE (status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_launching ON schedule_runs (epoch, claimed_until, claimed_at, timeout_at) WHERE status = 'LAUNCHING';
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at, priority DESC) WHERE status = 'PLANNED' AND waiting_since IS NULL;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, fire_at)
    WHERE status = 'PLANNED' AND (trigger <> 'schedule' OR judged_at IS NOT NULL OR waiting_since IS NOT NULL OR fire_at <> run_at);
CREATE INDEX schedule_runs_run_id ON schedule_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX schedule_runs_trace_id ON schedule_runs (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX schedule_runs_ended ON schedule_runs (run_at DESC, idempotency_key DESC, status, reason)
    WHERE (status = 'FAILED' OR status = 'SKIPPED' OR status = 'CANCELLED');
CREATE INDEX schedule_runs_unscheduled ON schedule_runs (run_at DESC, idempotency_key DESC, trigger) WHERE trigger <> 'schedule';
DROP INDEX schedules_sid;
ALTER TABLE schedules DROP COLUMN planned_until;
ALTER TABLE schedules DROP COLUMN sid;
