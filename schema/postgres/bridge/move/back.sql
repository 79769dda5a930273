-- Back to the table of version 27, with all runs since. judged_at stays empty.
ALTER VIEW schedule_runs RENAME TO schedule_runs_view;
CREATE TABLE schedule_runs (
    idempotency_key     bytea PRIMARY KEY CHECK (octet_length(idempotency_key) = 32),
    schedule_id         text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,
    run_at              timestamptz NOT NULL,
    fire_at             timestamptz NOT NULL,
    status              text NOT NULL CHECK (status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED')),
    reason              text,
    trigger             text NOT NULL CHECK (trigger IN ('schedule','catchup','manual','backfill','retry')),
    overlap_key         text COLLATE "C" NOT NULL,
    overlap_policy      text NOT NULL,
    exclusive           boolean NOT NULL,
    max_queued          integer NOT NULL,
    waiting_since       timestamptz,
    judged_at           timestamptz,
    attempt             integer NOT NULL DEFAULT 1,
    retry_of            bytea,
    deliveries          integer NOT NULL DEFAULT 0,
    input               text,
    priority            integer NOT NULL DEFAULT 0,
    run_id              text,
    trace_id            text,
    epoch               bigint NOT NULL DEFAULT 0,
    claimed_at          timestamptz,
    claimed_until       timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason       text,
    launched_at         timestamptz,
    started_at          timestamptz,
    completed_at        timestamptz,
    timeout_at          timestamptz,
    error_code          text,
    error_message       text,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    shard               integer NOT NULL,
    late_reports        integer,
    failed_attempts     integer NOT NULL DEFAULT 0,
    attempt_log         jsonb,
    exit_code           integer,
    log_url             text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
INSERT INTO schedule_runs (idempotency_key, schedule_id, revision, run_at, fire_at, status, reason, trigger, overlap_key, overlap_policy, exclusive, max_queued,
    waiting_since, attempt, retry_of, deliveries, input, priority, run_id, trace_id, epoch, claimed_at, claimed_until, cancel_requested_at,
    cancel_reason, launched_at, started_at, completed_at, timeout_at, error_code, error_message, created_at, updated_at, shard, late_reports,
    failed_attempts, attempt_log, exit_code, log_url)
SELECT idempotency_key, schedule_id, revision, run_at, fire_at, status, reason, trigger, overlap_key, overlap_policy, exclusive, max_queued,
    waiting_since, attempt, retry_of, deliveries, input, priority, run_id, trace_id, epoch, claimed_at, claimed_until, cancel_requested_at,
    cancel_reason, launched_at, started_at, completed_at, timeout_at, error_code, error_message, created_at, updated_at, shard, late_reports,
    failed_attempts, attempt_log, exit_code, log_url
FROM schedule_runs_view;
DROP VIEW schedule_runs_view;
DROP TABLE open_runs, ended_runs;
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at, priority DESC) WHERE status = 'PLANNED' AND waiting_since IS NULL;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, fire_at) WHERE status = 'PLANNED';
CREATE INDEX schedule_runs_waiting_turn ON schedule_runs (overlap_key, fire_at) WHERE upper(status) = 'PLANNED' AND waiting_since IS NOT NULL;
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE NOT exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE UNIQUE INDEX schedule_runs_one_in_flight ON schedule_runs (overlap_key) WHERE exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE INDEX schedule_runs_launching ON schedule_runs (epoch, claimed_until) WHERE lower(status) = 'launching';
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE lower(status) IN ('enqueued','started');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND lower(status) IN ('launching','enqueued','started');
CREATE INDEX schedule_runs_history ON schedule_runs (schedule_id, run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_run_at ON schedule_runs (run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_updated ON schedule_runs (updated_at, idempotency_key);
CREATE INDEX schedule_runs_launched ON schedule_runs (schedule_id, run_at) WHERE launched_at IS NOT NULL;
CREATE INDEX schedule_runs_ended ON schedule_runs (run_at DESC, idempotency_key DESC, status, reason) WHERE status IN ('FAILED','SKIPPED','CANCELLED');
CREATE INDEX schedule_runs_unscheduled ON schedule_runs (run_at DESC, idempotency_key DESC, trigger) WHERE trigger <> 'schedule';
CREATE INDEX schedule_runs_run_id ON schedule_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX schedule_runs_trace_id ON schedule_runs (trace_id) WHERE trace_id IS NOT NULL;
DROP FUNCTION IF EXISTS carillon_add_partition, carillon_drop_partition;
DROP INDEX schedules_sid;
ALTER TABLE schedules DROP COLUMN sid, DROP COLUMN planned_until; -- the sequence goes with sid
