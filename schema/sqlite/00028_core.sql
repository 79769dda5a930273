-- +goose Up

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
    deleted_at         INTEGER,
    -- Expectations (docs/alerts.md) as JSON; NULL: none.
    expect             TEXT,
    -- How long after its fire time a run may take to be accepted; NULL: LAUNCH_RETRY_FOR_MS.
    launch_timeout_ms  INTEGER,
    -- Its number in the tables of runs: each insert draws one, so it is never NULL. It
    -- is not NOT NULL because SQLite cannot add such a column to the rows of version 27.
    sid                INTEGER,
    -- The greatest run_at that was ever inserted under a slot's own key. Slots up to
    -- it are looked up in history before they are inserted. NULL: none exists.
    planned_until      INTEGER
) STRICT;
CREATE UNIQUE INDEX schedules_sid ON schedules (sid);
CREATE INDEX schedules_overlap_key ON schedules ((user_id || '/' || overlap_key));
CREATE INDEX schedules_user ON schedules (user_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_workflow ON schedules (workflow_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_grant ON schedules (execution_grant_id, schedule_id) WHERE execution_grant_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_managed_by ON schedules (managed_by, schedule_id) WHERE managed_by IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_plan_at ON schedules (plan_at, schedule_id) WHERE plan_at IS NOT NULL;

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
-- The schedules that have runs of a workflow or an owner, deleted ones too.
CREATE INDEX schedule_revisions_workflow ON schedule_revisions (workflow_id, schedule_id);
CREATE INDEX schedule_revisions_user ON schedule_revisions (user_id, schedule_id);

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
    updated_at      INTEGER NOT NULL,
    -- When the first call that may have reached the executor was recorded; NULL:
    -- created_at. Has no meaning unless sent.
    sent_at         INTEGER,
    -- Calls of the key that may have reached the executor. Has no meaning unless sent.
    calls           INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX execution_requests_created ON execution_requests (created_at);

CREATE TABLE leaders (
    shard      INTEGER PRIMARY KEY,
    holder     TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- Whether the leader has the lock as well: only then does a free lock mean that
    -- it is gone. asked_epoch is the term that was asked to resign.
    lock_held  INTEGER NOT NULL DEFAULT 1,
    asked_epoch INTEGER,
    -- The kind of lock that the leader uses (LEADER_LOCK); '' = unknown. A lock of
    -- another kind says nothing about it.
    lock_kind  TEXT NOT NULL DEFAULT '',
    -- Up to this fire_at a leader of the shard has seen everything that was due. A
    -- later slot that is late has been missed. NULL: nothing is seen.
    seen_until INTEGER
) STRICT;

CREATE TABLE workers (
    worker_id  TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    -- host:pid of the worker, and why its launches would fail; '' = healthy.
    host       TEXT NOT NULL DEFAULT '',
    unfit      TEXT NOT NULL DEFAULT ''
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
-- Pauses of a schedule are read from its events.
CREATE INDEX schedule_events_pauses ON schedule_events (schedule_id, event_id DESC)
    WHERE kind IN ('paused','resumed','pause_ended');

-- Values that all workers share, e.g. the number of shards.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- Who called what, with which result: calls that change something, and refused
-- ones. Rows are only added, and pruned by retention.
CREATE TABLE audit_log (
    audit_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    time            INTEGER NOT NULL,
    subject         TEXT NOT NULL,           -- '' = authentication is off
    via             TEXT NOT NULL,           -- how it was shown: jwt, mtls, ...; never what was shown
    method          TEXT NOT NULL,
    target          TEXT NOT NULL,
    user_id         TEXT NOT NULL,           -- the target's owner, '' = not known
    request_id      TEXT NOT NULL,
    code            TEXT NOT NULL,           -- OK or the error's code
    revision_before INTEGER NOT NULL DEFAULT 0, -- of a schedule
    revision_after  INTEGER NOT NULL DEFAULT 0,
    -- Equal refused calls of one minute share a row: their number, and whether they
    -- named other targets than the one in the row.
    count           INTEGER NOT NULL DEFAULT 1,
    other_targets   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX audit_log_time ON audit_log (time); -- for retention
CREATE INDEX audit_log_target ON audit_log (target, audit_id DESC);
CREATE INDEX audit_log_subject ON audit_log (subject, audit_id DESC);

-- +goose StatementBegin
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log is only added to');
END;
-- +goose StatementEnd

-- Deploys with a request_id: a repeat must not undo later changes.
CREATE TABLE deploys (
    managed_by   TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    applied_at   INTEGER NOT NULL,
    PRIMARY KEY (managed_by, user_id, request_id)
) STRICT;
CREATE INDEX deploys_applied ON deploys (applied_at); -- for retention

-- Ranges of past slots that are run, or run again (docs/backfill.md). The leader
-- feeds a range in portions; cursor_at is its position.
CREATE TABLE backfills (
    backfill_id     TEXT PRIMARY KEY,
    schedule_id     TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    request_hash    BLOB NOT NULL,
    user_id         TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    overlap_key     TEXT NOT NULL,           -- user_id/overlap_key of that revision
    shard           INTEGER NOT NULL,        -- its bucket
    from_at         INTEGER NOT NULL,        -- the range, until before to_at
    to_at           INTEGER NOT NULL,
    reprocess       TEXT NOT NULL CHECK (reprocess IN ('missed','failed','all')),
    slot_order      TEXT NOT NULL CHECK (slot_order IN ('oldest_first','newest_first')),
    overlap_policy  TEXT NOT NULL,
    concurrency     INTEGER NOT NULL,
    rate_per_minute INTEGER NOT NULL,        -- 0 = as the runs before end
    note            TEXT,
    created_by      TEXT,
    state           TEXT NOT NULL CHECK (state IN ('running','paused','finished','cancelled')),
    reason          TEXT,
    state_note      TEXT,
    changed_by      TEXT,
    cursor_at       INTEGER NOT NULL,
    next_at         INTEGER,                 -- the next start is not to be before
    slots           INTEGER NOT NULL,
    to_run          INTEGER NOT NULL,
    passed_over     INTEGER NOT NULL,
    put_down        INTEGER NOT NULL,
    succeeded       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    skipped         INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    unfinished      INTEGER NOT NULL,        -- the leader must look
    looked_at       INTEGER NOT NULL,        -- when it last did
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER
) STRICT;
CREATE INDEX backfills_unfinished ON backfills (looked_at, backfill_id) WHERE unfinished;
CREATE INDEX backfills_created ON backfills (created_at DESC, backfill_id DESC);
CREATE INDEX backfills_schedule ON backfills (schedule_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_user ON backfills (user_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_ended ON backfills (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- The run of each slot of a backfill. It is settled once its end is counted in the
-- backfill's row.
CREATE TABLE backfill_runs (
    backfill_id     TEXT NOT NULL,
    run_at          INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL CHECK (length(idempotency_key) = 32),
    settled         INTEGER NOT NULL,
    PRIMARY KEY (backfill_id, run_at)
) STRICT;
CREATE INDEX backfill_runs_unsettled ON backfill_runs (backfill_id, run_at) WHERE NOT settled;
CREATE INDEX backfill_runs_key ON backfill_runs (idempotency_key);

CREATE TABLE alerts (
    alert_id    TEXT PRIMARY KEY,
    schedule_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    limit_ms    INTEGER NOT NULL,
    cause       TEXT NOT NULL,
    late        INTEGER NOT NULL,
    first_slot  INTEGER NOT NULL,
    last_slot   INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,        -- of last_slot
    opened_at   INTEGER NOT NULL,
    closed_at   INTEGER,
    resolution  TEXT,
    notified_at INTEGER,
    acked_at    INTEGER,
    acked_by    TEXT,
    ack_note    TEXT,
    idempotency_key BLOB,
    detail      TEXT,
    -- The targets that got the alert, separated by commas. They also get its end,
    -- even if the routes have changed.
    targets     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX alerts_opened ON alerts (opened_at DESC, alert_id DESC);
CREATE INDEX alerts_schedule ON alerts (schedule_id, opened_at DESC, alert_id DESC);
CREATE INDEX alerts_open ON alerts (opened_at DESC, alert_id DESC) WHERE closed_at IS NULL;
CREATE INDEX alerts_closed ON alerts (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The outbox: a message to one target, written in the transaction of its cause.
-- target is a hash of the URL, because the URL may hold a secret.
CREATE TABLE alert_deliveries (
    delivery_id   TEXT PRIMARY KEY,
    alert_id      TEXT,          -- NULL: a test
    schedule_id   TEXT,
    user_id       TEXT,
    type          TEXT NOT NULL,
    target        TEXT NOT NULL,
    host          TEXT NOT NULL,
    payload       TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('PENDING','DELIVERED','DEAD')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    round         INTEGER NOT NULL DEFAULT 1, -- grows with every time it is sent again by hand
    round_at      INTEGER NOT NULL,       -- when that was
    next_at       INTEGER,                -- PENDING: not sent before; also the lease of an attempt under way
    last_status   INTEGER,
    last_error    TEXT,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    -- webhook, email, slack, pagerduty, teams or ntfy
    target_kind   TEXT NOT NULL DEFAULT 'webhook'
) STRICT;
CREATE INDEX alert_deliveries_next ON alert_deliveries (next_at) WHERE state = 'PENDING';
CREATE INDEX alert_deliveries_created ON alert_deliveries (created_at DESC, delivery_id DESC);
CREATE INDEX alert_deliveries_alert ON alert_deliveries (alert_id) WHERE alert_id IS NOT NULL;
CREATE INDEX alert_deliveries_ended ON alert_deliveries (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Targets that answered that they no longer exist.
CREATE TABLE alert_targets (
    target      TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    disabled_at INTEGER NOT NULL
) STRICT;

-- user_id '': stored for all owners.
CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL,
    user_id     TEXT NOT NULL,              -- empty: stored for all owners
    version     INTEGER NOT NULL,
    dag         TEXT NOT NULL,              -- raw JSON, as sent
    dag_hash    BLOB NOT NULL,              -- sha256 of its canonical form
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, user_id, version)
) STRICT;

-- The owners that may run and see the versions of a workflow that are stored for
-- all owners. '*' is every owner.
CREATE TABLE workflow_shares (
    workflow_id TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    given_by    TEXT,
    given_at    INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, user_id)
) STRICT;

-- Durable, scoped, revocable permissions to run (docs/grants.md). A grant holds no
-- credential. Only its revocation changes it, and it is never deleted: it says on
-- which account past runs took place.
CREATE TABLE execution_grants (
    user_id            TEXT NOT NULL,
    grant_id           TEXT NOT NULL,
    billing_account_id TEXT NOT NULL,
    scopes             TEXT NOT NULL,        -- a JSON array
    expires_at         INTEGER,
    revoked_at         INTEGER,
    revoked_by         TEXT,
    revoke_note        TEXT,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    PRIMARY KEY (user_id, grant_id)
) STRICT;
CREATE INDEX execution_grants_id ON execution_grants (grant_id, user_id);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);

-- Who led a shard, from when to when, and why it ended. ended_at is the last
-- proof of life; NULL = it leads. ttl_ms: leaders.expires_at less it is the last
-- renewal. A term in which the database did not answer for a while has several
-- rows of one epoch.
CREATE TABLE leader_terms (
    shard        INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    first_bucket INTEGER NOT NULL,
    last_bucket  INTEGER NOT NULL,
    worker_id    TEXT NOT NULL,
    host         TEXT NOT NULL,
    ttl_ms       INTEGER NOT NULL,
    ended_at     INTEGER,
    end_reason   TEXT,
    end_detail   TEXT,
    PRIMARY KEY (shard, epoch, started_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX leader_terms_started ON leader_terms (started_at);
CREATE INDEX leader_terms_open ON leader_terms (shard) WHERE ended_at IS NULL;

-- Every server process with any role. The table workers has the candidates for
-- leadership only.
CREATE TABLE processes (
    process_id TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    version    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Failing schedules: a row while the newest decided run of a schedule is FAILED
-- (docs/semantics.md, "Failing schedules"). A run that ends FAILED writes
-- it, one that ends SUCCESS deletes it, each in its own transaction.
CREATE TABLE schedule_failures (
    schedule_id    TEXT PRIMARY KEY,
    failures       INTEGER NOT NULL,         -- FAILED runs since the last success
    first_run_at   INTEGER NOT NULL,         -- slot of the first of them
    first_ended_at INTEGER NOT NULL,
    last_run_at    INTEGER NOT NULL,         -- slot of the newest
    last_ended_at  INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL CHECK (length(idempotency_key) = 32),
    reason         TEXT NOT NULL,            -- of the newest
    error_code     TEXT NOT NULL             -- '' = none
) STRICT;

-- The status of each expectation: one row for each schedule and kind that has one.
-- It is evaluated, under a lock of its row, at judge_at.
CREATE TABLE expectations (
    schedule_id   TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('start','finish','success','failure')),
    status        TEXT NOT NULL CHECK (status IN ('ok','late','alerting')),
    limit_ms      INTEGER NOT NULL DEFAULT 0, -- under which it was judged last
    late          INTEGER NOT NULL DEFAULT 0, -- in a row
    late_since    INTEGER,               -- the first of them
    watched_since INTEGER NOT NULL,
    judged_until  INTEGER NOT NULL,      -- slots up to here have their verdict
    met_at        INTEGER,               -- the last slot in time, or the last success
    alert_id      TEXT,          -- the open one
    judge_at      INTEGER,               -- NULL = nothing to judge until the schedule changes
    judged_at     INTEGER,
    PRIMARY KEY (schedule_id, kind)
) STRICT;
CREATE INDEX expectations_judge_at ON expectations (judge_at) WHERE judge_at IS NOT NULL;
CREATE INDEX expectations_unmet ON expectations (kind) WHERE status <> 'ok';
CREATE INDEX expectations_failure ON expectations (schedule_id) WHERE kind = 'failure';

-- Output of runs: of the steps of the local executor, and with step '' the output
-- that an executor reported. seq counts the parts of a run. from_byte and to_byte
-- are the range of the part in the step's output, so that gaps show.
CREATE TABLE run_logs (
    idempotency_key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    step TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    from_byte INTEGER NOT NULL,
    to_byte INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (idempotency_key, seq)
) STRICT;
CREATE INDEX run_logs_written ON run_logs (written_at);

-- Alerts in one message: one row is one incident of one target
-- (docs/notifications.md, "One message per incident").
CREATE TABLE alert_groups (
    target      TEXT NOT NULL,
    group_id    TEXT NOT NULL,            -- the alert that started it
    grouped_by  TEXT NOT NULL,            -- what its alerts have in common
    joined_at   INTEGER NOT NULL,         -- when the newest alert joined
    told_at     INTEGER,                  -- of the last message; NULL = none yet
    check_at    INTEGER,                  -- when a message may be due; NULL = when an alert changes
    closed_at   INTEGER,                  -- its last message says that all alerts are closed
    PRIMARY KEY (target, group_id)
) STRICT;
CREATE INDEX alert_groups_check ON alert_groups (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX alert_groups_open ON alert_groups (joined_at) WHERE closed_at IS NULL;
CREATE INDEX alert_groups_closed ON alert_groups (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The newest notice of each alert for each target that gets grouped messages.
CREATE TABLE alert_group_members (
    alert_id    TEXT NOT NULL,
    target      TEXT NOT NULL,
    group_id    TEXT,                     -- NULL = in no group yet
    grouped_by  TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    type        TEXT NOT NULL,
    payload     TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,         -- of the first notice
    noticed_at  INTEGER NOT NULL,         -- of the newest
    told        INTEGER NOT NULL,         -- the newest notice is in a message
    pending     INTEGER NOT NULL,         -- the group has not seen the newest notice
    PRIMARY KEY (alert_id, target)
) STRICT;
CREATE INDEX alert_group_members_pending ON alert_group_members (noticed_at) WHERE pending;
CREATE INDEX alert_group_members_group ON alert_group_members (target, group_id);
CREATE INDEX alert_group_members_schedule ON alert_group_members (schedule_id);

-- Changes of schedules and open runs, written in the transaction that makes them, for
-- leaders that keep open runs in memory. kind: 1 schedule changed, 2 run inserted or
-- changed, 3 run ended, 4 cancel requested. AUTOINCREMENT, because change_id is the
-- read position: without it numbers start again at 1 once the table is empty.
CREATE TABLE changes (
    change_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    first_bucket INTEGER NOT NULL,
    last_bucket  INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    schedule_ids TEXT,                       -- a JSON array
    keys         BLOB                        -- idempotency keys, 32 bytes each
) STRICT;

-- Runs that are not over, in a narrow table; and history, which is written once.
-- The bridge creates all that follows too: schema/bridge.go reads it from here.
-- +bridge tables
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

-- +bridge view
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
