-- +goose Up
-- The tables of docs/architecture.md. Postgres' twin has the same names.
-- Times are integer microseconds since 1970 UTC, booleans 0 and 1.
-- No column ever holds a session, token, key of a service, or secret.

CREATE TABLE schedules (
    schedule_id        TEXT PRIMARY KEY,
    workflow_id        TEXT NOT NULL,
    version            INTEGER NOT NULL,
    user_id            TEXT NOT NULL,
    cron_expr          TEXT,
    interval_ms        INTEGER,
    once_at            INTEGER,
    timezone           TEXT NOT NULL,
    start_at           INTEGER,
    end_at             INTEGER,
    dst                TEXT NOT NULL,
    jitter_ms          INTEGER NOT NULL,
    overlap_policy     TEXT NOT NULL,
    overlap_key        TEXT NOT NULL,
    max_queued         INTEGER NOT NULL,
    catchup_policy     TEXT NOT NULL,
    catchup_window_ms  INTEGER NOT NULL,
    run_timeout_ms     INTEGER NOT NULL,
    priority           INTEGER NOT NULL,
    input              TEXT,                 -- raw JSON, as sent
    execution_grant_id TEXT,
    labels             TEXT,
    managed_by         TEXT,
    revision           INTEGER NOT NULL,
    revised_at         INTEGER NOT NULL,
    next_run_at        INTEGER,          -- the plan cursor: first slot not yet planned
    plan_at            INTEGER,          -- when the planner must look next
    backlog_from       INTEGER,
    backlog_until      INTEGER,
    backlog_revision   INTEGER,
    backlog_at         INTEGER,          -- the next portion is not due before
    plan_failures      INTEGER NOT NULL DEFAULT 0,
    paused             INTEGER NOT NULL DEFAULT 0,
    pause_note         TEXT,
    paused_by          TEXT,
    paused_until       INTEGER,
    shard              INTEGER NOT NULL,     -- hash bucket of user_id/overlap_key, 0..1023
    last_run_at        INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER
) STRICT;

CREATE INDEX schedules_plan_at ON schedules (plan_at) WHERE plan_at IS NOT NULL;
CREATE INDEX schedules_overlap_key ON schedules ((user_id || '/' || overlap_key));
CREATE INDEX schedules_user ON schedules (user_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_workflow ON schedules (workflow_id, schedule_id) WHERE deleted_at IS NULL;

CREATE TABLE schedule_revisions (
    schedule_id TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    definition  TEXT NOT NULL,               -- JSON, the whole of it
    workflow_id TEXT NOT NULL,               -- copied out of it for the reads of runs
    version     INTEGER NOT NULL,
    user_id     TEXT NOT NULL,
    changed_by  TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, revision)
) STRICT;

-- Conditions are spelt out with OR: for an IN list of three or more words SQLite
-- builds a table of its own, for each row and index, which made a third of the
-- cost of a slot. A query finds a partial index by the very same words.
CREATE TABLE schedule_runs (
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
    updated_at          INTEGER NOT NULL
) STRICT;

-- What is due; rows that wait for their overlap key stand outside it.
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at) WHERE status = 'PLANNED' AND waiting_since IS NULL;
CREATE INDEX schedule_runs_waiting ON schedule_runs (overlap_key, fire_at) WHERE status = 'PLANNED' AND waiting_since IS NOT NULL;
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
-- The last guard of overlap: whatever the code believes, two exclusive runs of
-- one overlap key are never in flight together.
CREATE UNIQUE INDEX schedule_runs_one_in_flight ON schedule_runs (overlap_key)
    WHERE exclusive AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE status = 'LAUNCHING';
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
-- What a change of its schedule drops or ends, however long its history.
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, run_at) WHERE status = 'PLANNED';
CREATE INDEX schedule_runs_history ON schedule_runs (schedule_id, run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_run_at ON schedule_runs (run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_updated ON schedule_runs (updated_at, idempotency_key);

CREATE TABLE execution_requests (
    idempotency_key BLOB PRIMARY KEY CHECK (length(idempotency_key) = 32),
    request_hash    BLOB NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('IN_PROGRESS','DONE')),
    sent            INTEGER NOT NULL DEFAULT 0, -- a request may have reached the executor
    lease_until     INTEGER,
    ok              INTEGER,
    status          TEXT,                           -- DONE: ENQUEUED, SUCCESS, FAILED, SKIPPED or CANCELLED
    reason          TEXT,
    run_id          TEXT,
    trace_id        TEXT,
    error_code      TEXT,
    error_message   TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX execution_requests_created ON execution_requests (created_at);

CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL,
    version     INTEGER NOT NULL,
    dag         TEXT NOT NULL,               -- raw JSON, as sent
    dag_hash    BLOB NOT NULL,              -- sha256 of its canonical form
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, version)
) STRICT;

CREATE TABLE leaders (
    shard      INTEGER PRIMARY KEY,
    holder     TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE workers (
    worker_id  TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE schedule_events (
    event_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id TEXT NOT NULL,
    time        INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    from_at     INTEGER,
    to_at       INTEGER,
    count       INTEGER NOT NULL DEFAULT 0,
    reason      TEXT,
    actor       TEXT,
    note        TEXT,
    revision    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX schedule_events_schedule ON schedule_events (schedule_id, event_id DESC);
CREATE INDEX schedule_events_time ON schedule_events (time);

-- +goose Down
DROP TABLE schedule_events;
DROP TABLE workers;
DROP TABLE leaders;
DROP TABLE workflow_versions;
DROP TABLE execution_requests;
DROP TABLE schedule_runs;
DROP TABLE schedule_revisions;
DROP TABLE schedules;
