-- +goose Up
-- Runs that are not over, in a narrow table; and history, which is written once.

-- sid is the number of a schedule in the tables of runs.
ALTER TABLE schedules ADD COLUMN sid INTEGER;
ALTER TABLE schedules ADD COLUMN planned_until INTEGER;
UPDATE schedules SET sid = n.sid FROM (SELECT schedule_id, row_number() OVER (ORDER BY created_at, schedule_id) AS sid FROM schedules) n
WHERE n.schedule_id = schedules.schedule_id;
CREATE UNIQUE INDEX schedules_sid ON schedules (sid);

CREATE TABLE open_runs (
    idempotency_key     BLOB PRIMARY KEY CHECK (length(idempotency_key) = 32),
    sid                 INTEGER NOT NULL, -- schedules.sid
    nth                 INTEGER NOT NULL, -- 0: the slot's own key; else any number that no other run of the slot has
    revision            INTEGER NOT NULL,
    bucket              INTEGER NOT NULL,
    state               INTEGER NOT NULL, -- 1 planned, 2 waits for its overlap group, 3 in flight
    status              INTEGER NOT NULL, -- codes: internal/schedule
    trigger             INTEGER NOT NULL,
    policy              INTEGER NOT NULL,
    exclusive_flight    INTEGER NOT NULL DEFAULT 0, -- exclusive and in flight
    overlap_key         TEXT NOT NULL, -- user_id/overlap_key
    run_at              INTEGER NOT NULL,
    fire_at             INTEGER NOT NULL,
    due_at              INTEGER NOT NULL, -- never later than the next instant at which somebody must look
    priority            INTEGER NOT NULL,
    max_queued          INTEGER NOT NULL,
    attempt             INTEGER NOT NULL,
    deliveries          INTEGER NOT NULL,
    failed_attempts     INTEGER NOT NULL,
    epoch               INTEGER NOT NULL,
    claimed_at          INTEGER,
    waiting_since       INTEGER,
    send_after          INTEGER, -- LAUNCHING: not sent again before
    launched_at         INTEGER,
    started_at          INTEGER,
    timeout_at          INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason       TEXT,
    retry_of            BLOB,
    input               TEXT,
    run_id              TEXT,
    trace_id            TEXT,
    error_code          TEXT,
    error_message       TEXT,
    attempt_log         TEXT,
    late_reports        INTEGER,
    exit_code           INTEGER,
    log_url             TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX open_runs_due ON open_runs (state, due_at, bucket);
CREATE INDEX open_runs_schedule ON open_runs (sid, run_at);
-- With the next one: what of an overlap group is not over.
CREATE INDEX open_runs_overlap ON open_runs (overlap_key) WHERE state IN (2, 3) AND NOT exclusive_flight;
-- The last guard of overlap: whatever the code believes, two exclusive runs of
-- one overlap key are never in flight together.
CREATE UNIQUE INDEX open_runs_one_in_flight ON open_runs (overlap_key) WHERE exclusive_flight;
CREATE INDEX open_runs_run_id ON open_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX open_runs_trace_id ON open_runs (trace_id) WHERE trace_id IS NOT NULL;

CREATE TABLE ended_runs (
    run_at              INTEGER NOT NULL,
    fire_at             INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    claimed_at          INTEGER,
    launched_at         INTEGER,
    started_at          INTEGER,
    completed_at        INTEGER NOT NULL,
    recorded_at         INTEGER NOT NULL, -- when the end was written
    cancel_requested_at INTEGER,
    timeout_at          INTEGER,
    epoch               INTEGER NOT NULL,
    sid                 INTEGER NOT NULL,
    nth                 INTEGER NOT NULL,
    revision            INTEGER NOT NULL,
    priority            INTEGER NOT NULL,
    max_queued          INTEGER NOT NULL,
    attempt             INTEGER NOT NULL,
    deliveries          INTEGER NOT NULL,
    failed_attempts     INTEGER NOT NULL,
    late_reports        INTEGER, -- with exit_code the only columns that change
    exit_code           INTEGER,
    bucket              INTEGER NOT NULL,
    status              INTEGER NOT NULL,
    trigger             INTEGER NOT NULL,
    policy              INTEGER NOT NULL,
    idempotency_key     BLOB NOT NULL,
    overlap_key         TEXT NOT NULL,
    reason              TEXT,
    cancel_reason       TEXT,
    retry_of            BLOB,
    input               TEXT,
    run_id              TEXT,
    trace_id            TEXT,
    error_code          TEXT,
    error_message       TEXT,
    attempt_log         TEXT,
    log_url             TEXT,
    CHECK (status = 5 OR reason IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX ended_runs_slot ON ended_runs (run_at, sid, nth);
CREATE INDEX ended_runs_schedule ON ended_runs (sid, run_at);
CREATE INDEX ended_runs_key ON ended_runs (idempotency_key);
CREATE INDEX ended_runs_recorded ON ended_runs (recorded_at, sid);
CREATE INDEX ended_runs_not_success ON ended_runs (run_at, status) WHERE status <> 5;
CREATE INDEX ended_runs_unscheduled ON ended_runs (run_at) WHERE trigger <> 1;
CREATE INDEX ended_runs_run_id ON ended_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ended_runs_trace_id ON ended_runs (trace_id) WHERE trace_id IS NOT NULL;

ALTER TABLE schedule_runs RENAME TO schedule_runs_wide;

INSERT INTO ended_runs (run_at, fire_at, created_at, claimed_at, launched_at, started_at, completed_at, recorded_at, cancel_requested_at, timeout_at, epoch, sid, nth, revision, priority, max_queued, attempt, deliveries, failed_attempts, late_reports, exit_code, bucket, status, trigger, policy, idempotency_key, overlap_key, reason, cancel_reason, retry_of, input, run_id, trace_id, error_code, error_message, attempt_log, log_url)
SELECT
    r.run_at, r.fire_at, r.created_at, r.claimed_at, r.launched_at, r.started_at,
    coalesce(r.completed_at, r.updated_at), r.updated_at, r.cancel_requested_at, r.timeout_at, r.epoch, s.sid,
    CASE WHEN r.trigger IN ('schedule','catchup') THEN 0 ELSE row_number() OVER (PARTITION BY r.schedule_id, r.run_at ORDER BY r.idempotency_key) END, r.revision, r.priority, r.max_queued, r.attempt, r.deliveries,
    r.failed_attempts, r.late_reports, r.exit_code, r.shard, CASE r.status WHEN 'PLANNED' THEN 1 WHEN 'LAUNCHING' THEN 2 WHEN 'ENQUEUED' THEN 3 WHEN 'STARTED' THEN 4 WHEN 'SUCCESS' THEN 5 WHEN 'FAILED' THEN 6 WHEN 'SKIPPED' THEN 7 WHEN 'CANCELLED' THEN 8 END, CASE r.trigger WHEN 'schedule' THEN 1 WHEN 'catchup' THEN 2 WHEN 'manual' THEN 3 WHEN 'backfill' THEN 4 WHEN 'retry' THEN 5 END,
    CASE r.overlap_policy WHEN 'allow' THEN 1 WHEN 'skip' THEN 2 WHEN 'queue' THEN 3 WHEN 'replace' THEN 4 END, r.idempotency_key, r.overlap_key, CASE WHEN r.status <> 'SUCCESS' THEN coalesce(r.reason, r.cancel_reason, 'unrecorded') ELSE r.reason END, r.cancel_reason, r.retry_of,
    r.input, r.run_id, r.trace_id, r.error_code, r.error_message, r.attempt_log,
    r.log_url
FROM schedule_runs_wide r JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE r.status IN ('SUCCESS','FAILED','SKIPPED','CANCELLED');

INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, exclusive_flight, overlap_key, run_at, fire_at, due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch, claimed_at, waiting_since, send_after, launched_at, started_at, timeout_at, cancel_requested_at, cancel_reason, retry_of, input, run_id, trace_id, error_code, error_message, attempt_log, late_reports, exit_code, log_url, created_at, updated_at)
SELECT
    r.idempotency_key, s.sid, CASE WHEN r.trigger IN ('schedule','catchup') THEN 0 ELSE row_number() OVER (PARTITION BY r.schedule_id, r.run_at ORDER BY r.idempotency_key) END, r.revision, r.shard, CASE WHEN r.status <> 'PLANNED' THEN 3 WHEN r.waiting_since IS NULL THEN 1 ELSE 2 END,
    CASE r.status WHEN 'PLANNED' THEN 1 WHEN 'LAUNCHING' THEN 2 WHEN 'ENQUEUED' THEN 3 WHEN 'STARTED' THEN 4 WHEN 'SUCCESS' THEN 5 WHEN 'FAILED' THEN 6 WHEN 'SKIPPED' THEN 7 WHEN 'CANCELLED' THEN 8 END, CASE r.trigger WHEN 'schedule' THEN 1 WHEN 'catchup' THEN 2 WHEN 'manual' THEN 3 WHEN 'backfill' THEN 4 WHEN 'retry' THEN 5 END, CASE r.overlap_policy WHEN 'allow' THEN 1 WHEN 'skip' THEN 2 WHEN 'queue' THEN 3 WHEN 'replace' THEN 4 END, r.exclusive AND r.status <> 'PLANNED', r.overlap_key, r.run_at,
    r.fire_at, CASE WHEN r.status <> 'PLANNED' THEN r.updated_at WHEN r.waiting_since IS NULL THEN r.fire_at ELSE 9223372036854775807 END, r.priority, r.max_queued, r.attempt, r.deliveries,
    r.failed_attempts, r.epoch, r.claimed_at, r.waiting_since, r.claimed_until, r.launched_at,
    r.started_at, r.timeout_at, r.cancel_requested_at, r.cancel_reason, r.retry_of, r.input,
    r.run_id, r.trace_id, r.error_code, r.error_message, r.attempt_log, r.late_reports,
    r.exit_code, r.log_url, r.created_at, r.updated_at
FROM schedule_runs_wide r JOIN schedules s ON s.schedule_id = r.schedule_id
WHERE r.status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED');

-- Slots before it are looked up in history before they are inserted. NULL: none exists.
UPDATE schedules SET planned_until = (SELECT max(run_at) FROM schedule_runs_wide r WHERE r.schedule_id = schedules.schedule_id);

DROP TABLE schedule_runs_wide;

-- Each run once, with words for codes. It is for reading.
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
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
