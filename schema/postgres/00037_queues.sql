-- +goose Up
-- Dispatch queues. A deleted queue keeps its row: history names it by its number.
CREATE TABLE queues (
    queue_no     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id     text COLLATE "C" NOT NULL UNIQUE,
    user_id      text COLLATE "C" NOT NULL,
    shared       boolean NOT NULL,
    definition   text NOT NULL, -- JSON, with every default resolved
    revision     bigint NOT NULL,
    paused       boolean NOT NULL DEFAULT false,
    pause_note   text,
    paused_by    text,
    paused_until timestamptz,
    closed       boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    deleted_at   timestamptz
);

-- What admissions write of a queue. The free space keeps the updates on one page.
CREATE TABLE queue_states (
    queue_no      integer PRIMARY KEY,
    stalled_until timestamptz, -- the executor cannot take work before
    stall_level   integer NOT NULL DEFAULT 0,
    stall_reason  text
) WITH (fillfactor = 10);

CREATE TABLE queue_events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id text COLLATE "C" NOT NULL,
    time     timestamptz NOT NULL,
    kind     text NOT NULL,
    actor    text,
    note     text,
    revision bigint NOT NULL DEFAULT 0
);
CREATE INDEX queue_events_queue ON queue_events (queue_id, event_id);
CREATE INDEX queue_events_time ON queue_events (time);

-- Requests that put runs into a queue: the same one again is answered with the same keys.
CREATE TABLE queue_requests (
    queue_no   integer NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    body_hash  bytea NOT NULL,
    keys       text NOT NULL, -- hex, 64 digits each
    created_at timestamptz NOT NULL,
    PRIMARY KEY (queue_no, user_id, request_id)
);
CREATE INDEX queue_requests_created ON queue_requests (created_at);

-- Runs of a queue. Their state is 5. Their status is ENQUEUED until the executor has them, and
-- then STARTED.
ALTER TABLE open_runs ADD COLUMN queue_no integer;
-- 1 delayed, 2 waiting, 3 chained, 4 dispatching, 5 running
ALTER TABLE open_runs ADD COLUMN queue_state smallint;
-- The order: lower goes first.
ALTER TABLE open_runs ADD COLUMN effective_priority integer;
ALTER TABLE open_runs ADD COLUMN position_key bigint;
ALTER TABLE open_runs ADD COLUMN enqueued_at timestamptz;
ALTER TABLE ended_runs ADD COLUMN queue_no integer;
ALTER TABLE ended_runs ADD COLUMN enqueued_at timestamptz;
CREATE INDEX open_runs_ready ON open_runs (queue_no, effective_priority, position_key, idempotency_key) WHERE queue_state = 2;
CREATE INDEX open_runs_delayed ON open_runs (queue_no, fire_at) WHERE queue_state = 1;
CREATE INDEX open_runs_queue_in_flight ON open_runs (queue_no, queue_state) WHERE queue_state >= 4;
CREATE INDEX ended_runs_queue ON ended_runs (queue_no, completed_at) WHERE queue_no IS NOT NULL;
ALTER TABLE open_runs ADD CONSTRAINT open_runs_in_queue CHECK ((state = 5) = (queue_no IS NOT NULL) AND (queue_no IS NULL) = (queue_state IS NULL));
CREATE SEQUENCE queue_positions;

-- What the executor may have been called with does not change.
-- +goose StatementBegin
CREATE FUNCTION carillon_refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'Cannot modify params after dispatch: the run % was admitted by its queue', encode(OLD.idempotency_key, 'hex');
END $$;
-- +goose StatementEnd
CREATE TRIGGER open_runs_dispatched BEFORE UPDATE OF input, sid, revision, attempt, retry_of ON open_runs FOR EACH ROW
    WHEN (OLD.queue_no IS NOT NULL AND OLD.claimed_at IS NOT NULL
        AND (NEW.input IS DISTINCT FROM OLD.input OR NEW.sid <> OLD.sid OR NEW.revision <> OLD.revision OR NEW.attempt <> OLD.attempt OR NEW.retry_of IS DISTINCT FROM OLD.retry_of))
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
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, (ARRAY['delayed','waiting','chained','dispatching','running'])[o.queue_state] AS queue_state, o.enqueued_at
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
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL::text, e.enqueued_at
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases know no runs of queues.
DELETE FROM open_runs WHERE queue_no IS NOT NULL;
DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[o.status] AS status,
    NULL::text AS reason, (ARRAY['schedule','catchup','manual','backfill','retry'])[o.trigger] AS trigger, o.overlap_key, (ARRAY['allow','skip','queue','replace'])[o.policy] AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL::text AS failure_class, NULL::boolean AS dead
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[e.status],
    e.reason, (ARRAY['schedule','catchup','manual','backfill','retry'])[e.trigger], e.overlap_key, (ARRAY['allow','skip','queue','replace'])[e.policy], e.policy <> 1, e.max_queued,
    NULL::timestamptz, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL::timestamptz, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL::timestamptz, e.failure_class, e.dead
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
DROP TRIGGER open_runs_dispatched ON open_runs;
DROP FUNCTION carillon_refuse_changes;
DROP SEQUENCE queue_positions;
ALTER TABLE open_runs DROP CONSTRAINT open_runs_in_queue;
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
