-- +goose Up
-- Dispatch queues. A deleted queue keeps its row: history names it by its number.
CREATE TABLE queues (
    queue_no     INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id     TEXT NOT NULL UNIQUE,
    user_id      TEXT NOT NULL,
    shared       INTEGER NOT NULL,
    definition   TEXT NOT NULL, -- JSON, with every default resolved
    revision     INTEGER NOT NULL,
    paused       INTEGER NOT NULL DEFAULT 0,
    pause_note   TEXT,
    paused_by    TEXT,
    paused_until INTEGER,
    closed       INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER
) STRICT;

-- What admissions write of a queue.
CREATE TABLE queue_states (
    queue_no      INTEGER PRIMARY KEY,
    stalled_until INTEGER, -- the executor cannot take work before
    stall_level   INTEGER NOT NULL DEFAULT 0,
    stall_reason  TEXT
) STRICT;

CREATE TABLE queue_events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id TEXT NOT NULL,
    time     INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    actor    TEXT,
    note     TEXT,
    revision INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX queue_events_queue ON queue_events (queue_id, event_id);
CREATE INDEX queue_events_time ON queue_events (time);

-- Requests that put runs into a queue: the same one again is answered with the same keys.
CREATE TABLE queue_requests (
    queue_no   INTEGER NOT NULL,
    user_id    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    keys       TEXT NOT NULL, -- hex, 64 digits each
    created_at INTEGER NOT NULL,
    PRIMARY KEY (queue_no, user_id, request_id)
) STRICT;
CREATE INDEX queue_requests_created ON queue_requests (created_at);

-- Runs of a queue. Their state is 5. Their status is ENQUEUED until the executor has them, and
-- then STARTED.
ALTER TABLE open_runs ADD COLUMN queue_no INTEGER;
-- 1 delayed, 2 waiting, 3 chained, 4 dispatching, 5 running
ALTER TABLE open_runs ADD COLUMN queue_state INTEGER;
-- The order: lower goes first.
ALTER TABLE open_runs ADD COLUMN effective_priority INTEGER;
ALTER TABLE open_runs ADD COLUMN position_key INTEGER;
ALTER TABLE open_runs ADD COLUMN enqueued_at INTEGER;
ALTER TABLE ended_runs ADD COLUMN queue_no INTEGER;
ALTER TABLE ended_runs ADD COLUMN enqueued_at INTEGER;
CREATE INDEX open_runs_ready ON open_runs (queue_no, effective_priority, position_key, idempotency_key) WHERE queue_state = 2;
CREATE INDEX open_runs_delayed ON open_runs (queue_no, fire_at) WHERE queue_state = 1;
CREATE INDEX open_runs_queue_in_flight ON open_runs (queue_no, queue_state) WHERE queue_state >= 4;
CREATE INDEX ended_runs_queue ON ended_runs (queue_no, completed_at) WHERE queue_no IS NOT NULL;
-- One row: the last one that was given.
CREATE TABLE queue_positions (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO queue_positions (last) VALUES (0);

-- What the executor may have been called with does not change.
-- +goose StatementBegin
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of ON open_runs
    WHEN OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS NOT OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of)
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
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, CASE o.queue_state WHEN 1 THEN 'delayed' WHEN 2 THEN 'waiting' WHEN 3 THEN 'chained' WHEN 4 THEN 'dispatching' WHEN 5 THEN 'running' END AS queue_state, o.enqueued_at
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
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL, e.enqueued_at
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases know no runs of queues.
DELETE FROM open_runs WHERE queue_no IS NOT NULL;
DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL AS failure_class, NULL AS dead
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL, e.failure_class, e.dead
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
DROP TRIGGER open_runs_dispatched;
DROP TABLE queue_positions;
DROP INDEX ended_runs_queue;
DROP INDEX open_runs_queue_in_flight;
DROP INDEX open_runs_delayed;
DROP INDEX open_runs_ready;
ALTER TABLE ended_runs DROP COLUMN enqueued_at;
ALTER TABLE ended_runs DROP COLUMN queue_no;
ALTER TABLE open_runs DROP COLUMN enqueued_at;
ALTER TABLE open_runs DROP COLUMN position_key;
ALTER TABLE open_runs DROP COLUMN effective_priority;
ALTER TABLE open_runs DROP COLUMN queue_state;
ALTER TABLE open_runs DROP COLUMN queue_no;
DROP TABLE queue_requests;
DROP TABLE queue_events;
DROP TABLE queue_states;
DROP TABLE queues;
