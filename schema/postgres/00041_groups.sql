-- +goose Up
-- Groups of runs of one queue that end together. Whoever ends a member holds the row of its group,
-- and ends the group if none is left.
CREATE TABLE queue_groups (
    group_no            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id            text COLLATE "C" NOT NULL UNIQUE,
    queue_no            integer NOT NULL,
    user_id             text COLLATE "C" NOT NULL,
    mode                text NOT NULL, -- parallel, sequential
    on_failure          text NOT NULL, -- stop, continue
    state               text NOT NULL, -- RUNNING, COMPLETED, PARTIAL, CANCELLED
    sealed              boolean NOT NULL, -- it takes no more members
    members             integer NOT NULL, -- the last group_seq
    stop_from           integer, -- a member has failed: those from here on are cancelled unless they were admitted
    cancel_requested_at timestamptz,
    succeeded           integer NOT NULL DEFAULT 0, -- of ended groups; of others they are counted
    failed              integer NOT NULL DEFAULT 0,
    skipped             integer NOT NULL DEFAULT 0,
    cancelled           integer NOT NULL DEFAULT 0,
    on_complete         text, -- the run that enters the queue at the end, as schedule.GroupRun writes it
    webhook             text, -- NULL: that of the queue
    retry_of            text COLLATE "C", -- the group_id of the group before it
    body_hash           bytea NOT NULL, -- of the request that made it
    created_at          timestamptz NOT NULL,
    ended_at            timestamptz
);
CREATE INDEX queue_groups_queue ON queue_groups (queue_no, group_no);
CREATE INDEX queue_groups_user ON queue_groups (user_id, group_no);
CREATE INDEX queue_groups_ended ON queue_groups (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX queue_groups_running ON queue_groups (queue_no, group_no) WHERE state = 'RUNNING';
-- Members of these are left to be cancelled; the sweep goes on where a transaction has stopped.
CREATE INDEX queue_groups_stopping ON queue_groups (group_no) WHERE state = 'RUNNING' AND (stop_from IS NOT NULL OR cancel_requested_at IS NOT NULL);

-- Members. An automatic retry has the number of the run before it.
ALTER TABLE open_runs ADD COLUMN group_no integer;
ALTER TABLE open_runs ADD COLUMN group_seq integer;
ALTER TABLE ended_runs ADD COLUMN group_no integer;
ALTER TABLE ended_runs ADD COLUMN group_seq integer;
CREATE INDEX open_runs_group ON open_runs (group_no, group_seq) WHERE group_no IS NOT NULL;
CREATE INDEX open_runs_chained ON open_runs (queue_no, position_key) WHERE queue_state = 3;
CREATE INDEX ended_runs_group ON ended_runs (group_no) WHERE group_no IS NOT NULL;
-- The group that a message is about.
ALTER TABLE alert_deliveries ADD COLUMN group_no integer;
DROP TRIGGER open_runs_dispatched ON open_runs;
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of, limits, group_no ON open_runs FOR EACH ROW
    WHEN (OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS DISTINCT FROM OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS DISTINCT FROM OLD.retry_of OR NEW.limits <> OLD.limits
            OR NEW.group_no IS DISTINCT FROM OLD.group_no))
    EXECUTE FUNCTION carillon_refuse_changes();
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
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq
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
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases know no chained runs: they would wait forever.
DELETE FROM open_runs WHERE queue_state = 3;
DELETE FROM alert_deliveries WHERE group_no IS NOT NULL;
DROP VIEW schedule_runs;
DROP TRIGGER open_runs_dispatched ON open_runs;
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
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[o.status] AS status,
    NULL::text AS reason, (ARRAY['schedule','catchup','manual','backfill','retry','job'])[o.trigger] AS trigger, o.overlap_key, (ARRAY['allow','skip','queue','replace'])[o.policy] AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL::text AS failure_class, NULL::boolean AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, (ARRAY['delayed','waiting','chained','dispatching','running'])[o.queue_state] AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits
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
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL::integer, e.limits
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of, limits ON open_runs FOR EACH ROW
    WHEN (OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS DISTINCT FROM OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS DISTINCT FROM OLD.retry_of OR NEW.limits <> OLD.limits))
    EXECUTE FUNCTION carillon_refuse_changes();
