-- +goose Up
-- Named bounds on runs in flight or on starts per time. Queues share them.
CREATE TABLE limits (
    limit_no      INTEGER PRIMARY KEY AUTOINCREMENT,
    limit_id      TEXT NOT NULL UNIQUE,
    user_id       TEXT NOT NULL,
    shared        INTEGER NOT NULL, -- any owner may use it
    keyed         INTEGER NOT NULL, -- it counts for each key
    max_in_flight INTEGER, -- NULL: any number
    rate_starts   INTEGER, -- NULL: no rate
    rate_per_ms   INTEGER,
    rate_burst    INTEGER,
    note          TEXT,
    revision      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
);

-- Numbers of one key of a limit, instead of those of the limit.
CREATE TABLE limit_keys (
    limit_no      INTEGER NOT NULL,
    limit_key     TEXT NOT NULL,
    max_in_flight INTEGER, -- 0: none may start; NULL: as the limit
    rate_starts   INTEGER, -- NULL: as the limit
    rate_per_ms   INTEGER,
    rate_burst    INTEGER,
    note          TEXT,
    until         INTEGER, -- NULL: for as long as it is not changed
    PRIMARY KEY (limit_no, limit_key)
);

-- A row for each limit of a run in flight. Uses are counted, never kept as a number.
CREATE TABLE limit_uses (
    limit_no  INTEGER NOT NULL,
    limit_key TEXT NOT NULL, -- '' of a limit without keys
    used_by   BLOB NOT NULL, -- the run
    PRIMARY KEY (used_by, limit_no, limit_key)
) WITHOUT ROWID;
CREATE INDEX limit_uses_limit ON limit_uses (limit_no, limit_key);

-- When the next run may start if starts are evenly spaced.
CREATE TABLE limit_rates (
    limit_no      INTEGER NOT NULL,
    limit_key     TEXT NOT NULL,
    next_start_at INTEGER NOT NULL,
    PRIMARY KEY (limit_no, limit_key)
);
ALTER TABLE queue_states ADD COLUMN next_start_at INTEGER;

-- The limits of a run: sorted, with commas between them. '' for none. The same text blocks or
-- starts together, so admissions read the first runs of each text.
ALTER TABLE open_runs ADD COLUMN limits TEXT NOT NULL DEFAULT '';
ALTER TABLE ended_runs ADD COLUMN limits TEXT;
CREATE INDEX open_runs_limits ON open_runs (queue_no, limits, effective_priority, position_key) WHERE queue_state = 2;
DROP TRIGGER open_runs_dispatched;
-- +goose StatementBegin
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of, limits ON open_runs
    WHEN OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS NOT OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of OR NEW.limits <> OLD.limits)
BEGIN
    SELECT RAISE(ABORT, 'Cannot modify params after dispatch: the run was admitted by its queue');
END;
-- +goose StatementEnd
DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL AS failure_class, NULL AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, CASE o.queue_state WHEN 1 THEN 'delayed' WHEN 2 THEN 'waiting' WHEN 3 THEN 'chained' WHEN 4 THEN 'dispatching' WHEN 5 THEN 'running' END AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL, e.limits
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases know no limits: runs that wait for one would start.
DROP VIEW schedule_runs;
DROP TRIGGER open_runs_dispatched;
DROP INDEX open_runs_limits;
ALTER TABLE ended_runs DROP COLUMN limits;
ALTER TABLE open_runs DROP COLUMN limits;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL AS failure_class, NULL AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, CASE o.queue_state WHEN 1 THEN 'delayed' WHEN 2 THEN 'waiting' WHEN 3 THEN 'chained' WHEN 4 THEN 'dispatching' WHEN 5 THEN 'running' END AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
-- +goose StatementBegin
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of ON open_runs
    WHEN OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS NOT OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of)
BEGIN
    SELECT RAISE(ABORT, 'Cannot modify params after dispatch: the run was admitted by its queue');
END;
-- +goose StatementEnd
ALTER TABLE queue_states DROP COLUMN next_start_at;
DROP TABLE limit_rates;
DROP TABLE limit_uses;
DROP TABLE limit_keys;
DROP TABLE limits;
