-- +goose Up
-- What a consumer consumes: JSON, as schedule.Consume has it.
ALTER TABLE schedules ADD COLUMN consume TEXT;

-- Which schedules consume a topic of an owner. topic is an id, or with prefix its beginning. Written
-- with the schedule.
CREATE TABLE subscriptions (
    user_id TEXT NOT NULL,
    topic   TEXT NOT NULL,
    sid     INTEGER NOT NULL,
    prefix  INTEGER NOT NULL,
    PRIMARY KEY (user_id, topic, sid)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_sid ON subscriptions (sid);

-- Events of topics. A row never changes.
CREATE TABLE events (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      TEXT NOT NULL,
    topic        TEXT NOT NULL,
    source       TEXT NOT NULL,      -- '' = none
    event_id     TEXT NOT NULL,
    type         TEXT,
    subject      TEXT,
    time         INTEGER,            -- the publisher's; it schedules nothing
    data         TEXT NOT NULL,      -- raw JSON, as sent
    data_hash    BLOB NOT NULL,      -- sha256 of the data in canonical form
    fanout       INTEGER NOT NULL,   -- consumers that it matched
    published_by TEXT,
    published_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_id ON events (user_id, topic, source, event_id);
CREATE INDEX events_topic ON events (user_id, topic, seq DESC);
CREATE INDEX events_published ON events (published_at);

-- The state of an event for each consumer: 1 pending, 2 reserved, 3 consumed, 4 skipped, 5 dead. An
-- ended row (3 to 5) never changes.
CREATE TABLE inbox (
    sid        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    round      INTEGER NOT NULL,     -- 1 = published; later ones are redrives
    state      INTEGER NOT NULL,
    reason     TEXT,                 -- of skipped and dead
    run_key    BLOB,                 -- the attempt that holds it or ended it
    attempts   INTEGER NOT NULL DEFAULT 0, -- that failed
    created_at INTEGER NOT NULL,
    offered_at INTEGER,              -- first taken
    ended_at   INTEGER,
    PRIMARY KEY (sid, seq, round)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_pending ON inbox (sid, seq) WHERE state = 1;
CREATE INDEX inbox_run ON inbox (run_key) WHERE run_key IS NOT NULL;
CREATE INDEX inbox_ended ON inbox (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX inbox_event ON inbox (seq);

-- "Look at this consumer at fire_at". Whoever changes what the look would find inserts the row after
-- that change.
CREATE TABLE wakes (
    sid        INTEGER PRIMARY KEY,
    bucket     INTEGER NOT NULL,     -- of its overlap key
    fire_at    INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX wakes_bucket ON wakes (bucket);

-- What each run of a consumer has taken.
CREATE TABLE handler_runs (
    idempotency_key BLOB PRIMARY KEY,
    sid             INTEGER NOT NULL,
    root_run        BLOB NOT NULL,   -- the first attempt
    event_count     INTEGER NOT NULL,
    events_digest   BLOB NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX handler_runs_created ON handler_runs (created_at);

DROP VIEW schedule_runs;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' WHEN 7 THEN 'event' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' WHEN 5 THEN 'coalesce' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL AS failure_class, NULL AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, CASE o.queue_state WHEN 1 THEN 'delayed' WHEN 2 THEN 'waiting' WHEN 3 THEN 'chained' WHEN 4 THEN 'dispatching' WHEN 5 THEN 'running' END AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq, o.deadline_at, o.fair_key, o.worker_id, o.worker_slot, o.progress,
    o.requested_by, CASE o.admitted_as WHEN 1 THEN 'order' WHEN 2 THEN 'aged' END AS admitted_as
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' WHEN 7 THEN 'event' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' WHEN 5 THEN 'coalesce' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL, e.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq, NULL, e.fair_key, e.worker_id, NULL, NULL,
    e.requested_by, CASE e.admitted_as WHEN 1 THEN 'order' WHEN 2 THEN 'aged' END
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;

-- +goose Down
-- Older releases do not know what runs of consumers have taken.
DROP VIEW schedule_runs;
DROP TABLE handler_runs;
DROP TABLE wakes;
DROP TABLE inbox;
DROP TABLE events;
DROP TABLE subscriptions;
ALTER TABLE schedules DROP COLUMN consume;
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, CASE o.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END AS status,
    NULL AS reason, CASE o.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END AS trigger, o.overlap_key, CASE o.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' WHEN 5 THEN 'coalesce' END AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url, o.max_attempts, o.start_by, NULL AS failure_class, NULL AS dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = o.queue_no) AS queue_id, CASE o.queue_state WHEN 1 THEN 'delayed' WHEN 2 THEN 'waiting' WHEN 3 THEN 'chained' WHEN 4 THEN 'dispatching' WHEN 5 THEN 'running' END AS queue_state, o.enqueued_at,
    coalesce(o.snoozes, 0) AS snoozes, coalesce(o.interruptions, 0) AS interruptions, coalesce(o.attempts_before, 0) AS attempts_before, o.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = o.group_no) AS group_id, o.group_seq, o.deadline_at, o.fair_key, o.worker_id, o.worker_slot, o.progress,
    o.requested_by, CASE o.admitted_as WHEN 1 THEN 'order' WHEN 2 THEN 'aged' END AS admitted_as
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, CASE e.status WHEN 1 THEN 'PLANNED' WHEN 2 THEN 'LAUNCHING' WHEN 3 THEN 'ENQUEUED' WHEN 4 THEN 'STARTED' WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' WHEN 8 THEN 'CANCELLED' END,
    e.reason, CASE e.trigger WHEN 1 THEN 'schedule' WHEN 2 THEN 'catchup' WHEN 3 THEN 'manual' WHEN 4 THEN 'backfill' WHEN 5 THEN 'retry' WHEN 6 THEN 'job' END, e.overlap_key, CASE e.policy WHEN 1 THEN 'allow' WHEN 2 THEN 'skip' WHEN 3 THEN 'queue' WHEN 4 THEN 'replace' WHEN 5 THEN 'coalesce' END, e.policy <> 1, e.max_queued,
    NULL, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url, e.max_attempts, NULL, e.failure_class, e.dead,
    (SELECT q.queue_id FROM queues q WHERE q.queue_no = e.queue_no), NULL, e.enqueued_at,
    coalesce(e.snoozes, 0), coalesce(e.interruptions, 0), NULL, e.limits,
    (SELECT g.group_id FROM queue_groups g WHERE g.group_no = e.group_no), e.group_seq, NULL, e.fair_key, e.worker_id, NULL, NULL,
    e.requested_by, CASE e.admitted_as WHEN 1 THEN 'order' WHEN 2 THEN 'aged' END
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
