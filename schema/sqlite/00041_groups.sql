-- +goose Up
-- Groups of runs of one queue that end together. Whoever ends a member holds the row of its group,
-- and ends the group if none is left.
CREATE TABLE queue_groups (
    group_no            INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id            TEXT NOT NULL UNIQUE,
    queue_no            INTEGER NOT NULL,
    user_id             TEXT NOT NULL,
    mode                TEXT NOT NULL, -- parallel, sequential
    on_failure          TEXT NOT NULL, -- stop, continue
    state               TEXT NOT NULL, -- RUNNING, COMPLETED, PARTIAL, CANCELLED
    sealed              INTEGER NOT NULL, -- it takes no more members
    members             INTEGER NOT NULL, -- the last group_seq
    stop_from           INTEGER, -- a member has failed: those from here on are cancelled unless they were admitted
    cancel_requested_at INTEGER,
    succeeded           INTEGER NOT NULL DEFAULT 0, -- of ended groups; of others they are counted
    failed              INTEGER NOT NULL DEFAULT 0,
    skipped             INTEGER NOT NULL DEFAULT 0,
    cancelled           INTEGER NOT NULL DEFAULT 0,
    on_complete         TEXT, -- the run that enters the queue at the end, as schedule.GroupRun writes it
    webhook             TEXT, -- NULL: that of the queue
    retry_of            TEXT, -- the group_id of the group before it
    body_hash           BLOB NOT NULL, -- of the request that made it
    created_at          INTEGER NOT NULL,
    ended_at            INTEGER
);
CREATE INDEX queue_groups_queue ON queue_groups (queue_no, group_no);
CREATE INDEX queue_groups_user ON queue_groups (user_id, group_no);
CREATE INDEX queue_groups_ended ON queue_groups (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX queue_groups_running ON queue_groups (queue_no, group_no) WHERE state = 'RUNNING';
-- Members of these are left to be cancelled; the sweep goes on where a transaction has stopped.
CREATE INDEX queue_groups_stopping ON queue_groups (group_no) WHERE state = 'RUNNING' AND (stop_from IS NOT NULL OR cancel_requested_at IS NOT NULL);

-- Members. An automatic retry has the number of the run before it.
ALTER TABLE open_runs ADD COLUMN group_no INTEGER;
ALTER TABLE open_runs ADD COLUMN group_seq INTEGER;
ALTER TABLE ended_runs ADD COLUMN group_no INTEGER;
ALTER TABLE ended_runs ADD COLUMN group_seq INTEGER;
CREATE INDEX open_runs_group ON open_runs (group_no, group_seq) WHERE group_no IS NOT NULL;
CREATE INDEX open_runs_chained ON open_runs (queue_no, position_key) WHERE queue_state = 3;
CREATE INDEX ended_runs_group ON ended_runs (group_no) WHERE group_no IS NOT NULL;
-- The group that a message is about.
ALTER TABLE alert_deliveries ADD COLUMN group_no INTEGER;
DROP TRIGGER open_runs_dispatched;
-- +goose StatementBegin
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of, limits, group_no ON open_runs
    WHEN OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS NOT OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of OR NEW.limits <> OLD.limits
            OR NEW.group_no IS NOT OLD.group_no)
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
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq
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
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL, e.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases know no chained runs: they would wait forever.
DELETE FROM open_runs WHERE queue_state = 3;
DELETE FROM alert_deliveries WHERE group_no IS NOT NULL;
DROP VIEW schedule_runs;
DROP TRIGGER open_runs_dispatched;
ALTER TABLE alert_deliveries DROP COLUMN group_no;
DROP INDEX ended_runs_group;
DROP INDEX open_runs_chained;
DROP INDEX open_runs_group;
ALTER TABLE ended_runs DROP COLUMN group_seq;
ALTER TABLE ended_runs DROP COLUMN group_no;
ALTER TABLE open_runs DROP COLUMN group_seq;
ALTER TABLE open_runs DROP COLUMN group_no;
DROP TABLE queue_groups;
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
-- +goose StatementBegin
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of, limits ON open_runs
    WHEN OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS NOT OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS NOT OLD.retry_of OR NEW.limits <> OLD.limits)
BEGIN
    SELECT RAISE(ABORT, 'Cannot modify params after dispatch: the run was admitted by its queue');
END;
-- +goose StatementEnd
