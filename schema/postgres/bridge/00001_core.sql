-- +goose Up
-- The tables of docs/architecture.md. SQLite's twin has the same names.
-- No column ever holds a session, token, key of a service, or secret.

CREATE TABLE schedules (
    schedule_id        text COLLATE "C" PRIMARY KEY,
    workflow_id        text NOT NULL,
    version            integer NOT NULL,
    user_id            text NOT NULL,
    cron_expr          text,
    interval_ms        bigint,
    once_at            timestamptz,
    timezone           text NOT NULL,
    start_at           timestamptz,
    end_at             timestamptz,
    dst                text NOT NULL,
    jitter_ms          bigint NOT NULL,
    overlap_policy     text NOT NULL,
    overlap_key        text NOT NULL,
    max_queued         integer NOT NULL,
    catchup_policy     text NOT NULL,
    catchup_window_ms  bigint NOT NULL,
    run_timeout_ms     bigint NOT NULL,
    priority           integer NOT NULL,
    input              text,                 -- raw JSON, as sent
    execution_grant_id text,
    labels             jsonb,
    managed_by         text,
    revision           bigint NOT NULL,
    revised_at         timestamptz NOT NULL,
    next_run_at        timestamptz,          -- the plan cursor: first slot not yet planned
    plan_at            timestamptz,          -- when the planner must look next
    backlog_from       timestamptz,
    backlog_until      timestamptz,
    backlog_revision   bigint,
    backlog_at         timestamptz,          -- the next portion is not due before
    plan_failures      integer NOT NULL DEFAULT 0,
    paused             boolean NOT NULL DEFAULT false,
    pause_note         text,
    paused_by          text,
    paused_until       timestamptz,
    shard              integer NOT NULL,     -- hash bucket of user_id/overlap_key, 0..1023
    last_run_at        timestamptz,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    deleted_at         timestamptz
) WITH (fillfactor = 70);

CREATE INDEX schedules_plan_at ON schedules (plan_at) WHERE plan_at IS NOT NULL;
CREATE INDEX schedules_overlap_key ON schedules ((user_id || '/' || overlap_key));
CREATE INDEX schedules_user ON schedules (user_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_workflow ON schedules (workflow_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_deleted ON schedules (deleted_at) WHERE deleted_at IS NOT NULL; -- for retention

CREATE TABLE schedule_revisions (
    schedule_id text COLLATE "C" NOT NULL,
    revision    bigint NOT NULL,
    definition  text NOT NULL,               -- JSON, the whole of it
    workflow_id text NOT NULL,               -- copied out of it for the reads of runs
    version     integer NOT NULL,
    user_id     text NOT NULL,
    changed_by  text,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, revision)
);

CREATE TABLE schedule_runs (
    idempotency_key     bytea PRIMARY KEY CHECK (octet_length(idempotency_key) = 32),
    schedule_id         text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,
    run_at              timestamptz NOT NULL,
    fire_at             timestamptz NOT NULL,
    status              text NOT NULL CHECK (status IN ('PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED')),
    reason              text,
    trigger             text NOT NULL CHECK (trigger IN ('schedule','catchup','manual','backfill','retry')),
    overlap_key         text COLLATE "C" NOT NULL, -- user_id/overlap_key
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
    updated_at          timestamptz NOT NULL
) WITH (fillfactor = 70);

-- What is due; rows that wait for their overlap key stand outside it.
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at) WHERE status = 'PLANNED' AND waiting_since IS NULL;
CREATE INDEX schedule_runs_waiting ON schedule_runs (overlap_key, fire_at) WHERE status = 'PLANNED' AND waiting_since IS NOT NULL;
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE status IN ('LAUNCHING','ENQUEUED','STARTED');
-- The last guard of overlap: whatever the code believes, two exclusive runs of
-- one overlap key are never in flight together.
CREATE UNIQUE INDEX schedule_runs_one_in_flight ON schedule_runs (overlap_key)
    WHERE exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE status = 'LAUNCHING';
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND status IN ('LAUNCHING','ENQUEUED','STARTED');
-- What a change of its schedule drops or ends, however long its history.
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, run_at) WHERE status = 'PLANNED';
CREATE INDEX schedule_runs_history ON schedule_runs (schedule_id, run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_run_at ON schedule_runs (run_at DESC, idempotency_key DESC);
CREATE INDEX schedule_runs_updated ON schedule_runs (updated_at, idempotency_key);

CREATE TABLE execution_requests (
    idempotency_key bytea PRIMARY KEY CHECK (octet_length(idempotency_key) = 32),
    request_hash    bytea NOT NULL,
    state           text NOT NULL CHECK (state IN ('IN_PROGRESS','DONE')),
    sent            boolean NOT NULL DEFAULT false, -- a request may have reached the executor
    lease_until     timestamptz,
    ok              boolean,
    status          text,                           -- DONE: ENQUEUED, SUCCESS, FAILED, SKIPPED or CANCELLED
    reason          text,
    run_id          text,
    trace_id        text,
    error_code      text,
    error_message   text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX execution_requests_created ON execution_requests (created_at);

CREATE TABLE workflow_versions (
    workflow_id text COLLATE "C" NOT NULL,
    version     integer NOT NULL,
    dag         text NOT NULL,               -- raw JSON, as sent
    dag_hash    bytea NOT NULL,              -- sha256 of its canonical form
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, version)
);

-- A logged table on purpose: an unlogged one is emptied by a crash, and the
-- epoch would go back.
CREATE TABLE leaders (
    shard      integer PRIMARY KEY,
    holder     text NOT NULL,
    epoch      bigint NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE workers (
    worker_id  text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);

CREATE TABLE schedule_events (
    event_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    time        timestamptz NOT NULL,
    kind        text NOT NULL,
    from_at     timestamptz,
    to_at       timestamptz,
    count       bigint NOT NULL DEFAULT 0,
    reason      text,
    actor       text,
    note        text,
    revision    bigint NOT NULL DEFAULT 0
);
CREATE INDEX schedule_events_schedule ON schedule_events (schedule_id, event_id DESC);
CREATE INDEX schedule_events_time ON schedule_events (time);

-- Status is what changes most and what the partial indexes are chosen by: its
-- statistics must keep up, and a fifth of a year's ledger is too much to wait
-- for before dead rows are cleared away.
ALTER TABLE schedules SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE schedule_runs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE execution_requests SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

-- +goose Down
DROP TABLE schedule_events, workers, leaders, workflow_versions, execution_requests, schedule_runs, schedule_revisions, schedules;
