-- +goose Up

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
    deleted_at         timestamptz,
    -- Expectations (docs/alerts.md) as JSON; NULL: none.
    expect             text,
    -- How long after its fire time a run may take to be accepted; NULL: LAUNCH_RETRY_FOR_MS.
    launch_timeout_ms  bigint,
    sid                serial,               -- its number in the tables of runs
    -- The greatest run_at that was ever inserted under a slot's own key. Slots up to
    -- it are looked up in history before they are inserted. NULL: none exists.
    planned_until      timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE UNIQUE INDEX schedules_sid ON schedules (sid);
CREATE INDEX schedules_plan_at ON schedules (plan_at) WHERE plan_at IS NOT NULL;
CREATE INDEX schedules_overlap_key ON schedules ((user_id || '/' || overlap_key));
CREATE INDEX schedules_user ON schedules (user_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_workflow ON schedules (workflow_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedules_deleted ON schedules (deleted_at) WHERE deleted_at IS NOT NULL; -- for retention
CREATE INDEX schedules_grant ON schedules (execution_grant_id, schedule_id) WHERE execution_grant_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_managed_by ON schedules (managed_by, schedule_id) WHERE managed_by IS NOT NULL AND deleted_at IS NULL;

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
-- The schedules that have runs of a workflow or an owner, deleted ones too.
CREATE INDEX schedule_revisions_workflow ON schedule_revisions (workflow_id, schedule_id);
CREATE INDEX schedule_revisions_user ON schedule_revisions (user_id, schedule_id);

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
    updated_at      timestamptz NOT NULL,
    -- When the first call that may have reached the executor was recorded; NULL:
    -- created_at. Has no meaning unless sent.
    sent_at         timestamptz,
    -- Calls of the key that may have reached the executor. Has no meaning unless sent.
    calls           integer NOT NULL DEFAULT 1
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX execution_requests_created ON execution_requests (created_at);

CREATE TABLE workflow_versions (
    workflow_id text COLLATE "C" NOT NULL,
    version     integer NOT NULL,
    dag         text NOT NULL,               -- raw JSON, as sent
    dag_hash    bytea NOT NULL,              -- sha256 of its canonical form
    created_at  timestamptz NOT NULL,
    user_id     text COLLATE "C" NOT NULL,   -- its owner; '' = stored for all owners (workflow_shares)
    PRIMARY KEY (workflow_id, user_id, version)
);

-- Logged on purpose: a crash empties an unlogged table, and the epoch would go back.
CREATE TABLE leaders (
    shard      integer PRIMARY KEY,
    holder     text NOT NULL,
    epoch      bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    -- Whether the leader has the lock as well: only then does a free lock mean that
    -- it is gone. asked_epoch is the term that was asked to resign.
    lock_held  boolean NOT NULL DEFAULT true,
    asked_epoch bigint,
    -- The kind of lock that the leader uses (LEADER_LOCK); '' = unknown. A lock of
    -- another kind says nothing about it.
    lock_kind  text NOT NULL DEFAULT '',
    -- Up to this fire_at a leader of the shard has seen everything that was due. A
    -- later slot that is late has been missed. NULL: nothing is seen.
    seen_until timestamptz
);

CREATE TABLE workers (
    worker_id  text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    -- host:pid of the worker, and why its launches would fail; '' = healthy.
    host       text NOT NULL DEFAULT '',
    unfit      text NOT NULL DEFAULT ''
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
-- Pauses of a schedule are read from its events.
CREATE INDEX schedule_events_pauses ON schedule_events (schedule_id, event_id DESC)
    WHERE kind IN ('paused','resumed','pause_ended');

-- Values that all workers share, e.g. the number of shards.
CREATE TABLE settings (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- Durable, scoped, revocable permissions to run (docs/grants.md). A grant holds no
-- credential. Only its revocation changes it, and it is never deleted: it says on
-- which account past runs took place.
CREATE TABLE execution_grants (
    grant_id           text COLLATE "C" NOT NULL,
    user_id            text COLLATE "C" NOT NULL,
    billing_account_id text NOT NULL,
    scopes             text[] NOT NULL,
    expires_at         timestamptz,
    revoked_at         timestamptz,
    revoked_by         text,
    revoke_note        text,
    created_by         text,
    created_at         timestamptz NOT NULL,
    PRIMARY KEY (user_id, grant_id)
);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);
CREATE INDEX execution_grants_id ON execution_grants (grant_id, user_id);

-- Who called what, with which result: calls that change something, and refused
-- ones. Rows are only added, and pruned by retention.
CREATE TABLE audit_log (
    audit_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time            timestamptz NOT NULL,
    subject         text NOT NULL,           -- '' = authentication is off
    via             text NOT NULL,           -- how it was shown: jwt, mtls, ...; never what was shown
    method          text NOT NULL,
    target          text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL, -- the target's owner, '' = not known
    request_id      text NOT NULL,
    code            text NOT NULL,           -- OK or the error's code
    revision_before bigint NOT NULL DEFAULT 0, -- of a schedule
    revision_after  bigint NOT NULL DEFAULT 0,
    -- Equal refused calls of one minute share a row: their number, and whether they
    -- named other targets than the one in the row.
    count           bigint NOT NULL DEFAULT 1,
    other_targets   boolean NOT NULL DEFAULT false
);
CREATE INDEX audit_log_time ON audit_log (time); -- for retention
CREATE INDEX audit_log_target ON audit_log (target, audit_id DESC);
CREATE INDEX audit_log_subject ON audit_log (subject, audit_id DESC);

-- +goose StatementBegin
CREATE FUNCTION refuse_audit_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is only added to';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log EXECUTE FUNCTION refuse_audit_update();

-- Deploys with a request_id: a repeat must not undo later changes.
CREATE TABLE deploys (
    managed_by   text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    request_id   text COLLATE "C" NOT NULL,
    request_hash bytea NOT NULL,
    applied_at   timestamptz NOT NULL,
    PRIMARY KEY (managed_by, user_id, request_id)
);
CREATE INDEX deploys_applied ON deploys (applied_at); -- for retention

-- Ranges of past slots that are run, or run again (docs/backfill.md). The leader
-- feeds a range in portions; cursor_at is its position.
CREATE TABLE backfills (
    backfill_id     text COLLATE "C" PRIMARY KEY,
    schedule_id     text COLLATE "C" NOT NULL,
    request_id      text NOT NULL,
    request_hash    bytea NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    revision        bigint NOT NULL,
    overlap_key     text COLLATE "C" NOT NULL, -- user_id/overlap_key of that revision
    shard           integer NOT NULL, -- its bucket
    from_at         timestamptz NOT NULL, -- the range, until before to_at
    to_at           timestamptz NOT NULL,
    reprocess       text NOT NULL CHECK (reprocess IN ('missed','failed','all')),
    slot_order      text NOT NULL CHECK (slot_order IN ('oldest_first','newest_first')),
    overlap_policy  text NOT NULL,
    concurrency     integer NOT NULL,
    rate_per_minute integer NOT NULL, -- 0 = as the runs before end
    note            text,
    created_by      text,
    state           text NOT NULL CHECK (state IN ('running','paused','finished','cancelled')),
    reason          text,
    state_note      text,
    changed_by      text,
    cursor_at       timestamptz NOT NULL,
    next_at         timestamptz, -- the next start is not to be before
    slots           bigint NOT NULL,
    to_run          bigint NOT NULL,
    passed_over     bigint NOT NULL,
    put_down        bigint NOT NULL,
    succeeded       bigint NOT NULL,
    failed          bigint NOT NULL,
    skipped         bigint NOT NULL,
    cancelled       bigint NOT NULL,
    unfinished      boolean NOT NULL, -- the leader must look
    looked_at       timestamptz NOT NULL, -- when it last did
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    ended_at        timestamptz
);
CREATE INDEX backfills_unfinished ON backfills (looked_at, backfill_id) WHERE unfinished;
CREATE INDEX backfills_created ON backfills (created_at DESC, backfill_id DESC);
CREATE INDEX backfills_schedule ON backfills (schedule_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_user ON backfills (user_id, created_at DESC, backfill_id DESC);
CREATE INDEX backfills_ended ON backfills (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- The run of each slot of a backfill. It is settled once its end is counted in the
-- backfill's row.
CREATE TABLE backfill_runs (
    backfill_id     text COLLATE "C" NOT NULL,
    run_at          timestamptz NOT NULL,
    idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32),
    settled         boolean NOT NULL,
    PRIMARY KEY (backfill_id, run_at)
);
CREATE INDEX backfill_runs_unsettled ON backfill_runs (backfill_id, run_at) WHERE NOT settled;
CREATE INDEX backfill_runs_key ON backfill_runs (idempotency_key);

-- The status of each expectation: one row for each schedule and kind that has one.
-- It is evaluated, under a lock of its row, at judge_at.
CREATE TABLE expectations (
    schedule_id   text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL CHECK (kind IN ('start','finish','success','failure')),
    status        text NOT NULL CHECK (status IN ('ok','late','alerting')),
    limit_ms      bigint NOT NULL DEFAULT 0, -- under which it was judged last
    late          bigint NOT NULL DEFAULT 0, -- in a row
    late_since    timestamptz,               -- the first of them
    watched_since timestamptz NOT NULL,
    judged_until  timestamptz NOT NULL,      -- slots up to here have their verdict
    met_at        timestamptz,               -- the last slot in time, or the last success
    alert_id      text COLLATE "C",          -- the open one
    judge_at      timestamptz,               -- NULL = nothing to judge until the schedule changes
    judged_at     timestamptz,
    PRIMARY KEY (schedule_id, kind)
);
CREATE INDEX expectations_judge_at ON expectations (judge_at) WHERE judge_at IS NOT NULL;
CREATE INDEX expectations_unmet ON expectations (kind) WHERE status <> 'ok';
CREATE INDEX expectations_failure ON expectations (schedule_id) WHERE kind = 'failure';

CREATE TABLE alerts (
    alert_id    text COLLATE "C" PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    workflow_id text NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    revision    bigint NOT NULL,
    limit_ms    bigint NOT NULL,
    cause       text NOT NULL,
    late        bigint NOT NULL,
    first_slot  timestamptz NOT NULL,
    last_slot   timestamptz NOT NULL,
    deadline    timestamptz NOT NULL,        -- of last_slot
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz,
    resolution  text,
    notified_at timestamptz,
    acked_at    timestamptz,
    acked_by    text,
    ack_note    text,
    idempotency_key bytea,
    detail      text,
    -- The targets that got the alert, separated by commas. They also get its end,
    -- even if the routes have changed.
    targets     text NOT NULL DEFAULT ''
);
CREATE INDEX alerts_opened ON alerts (opened_at DESC, alert_id DESC);
CREATE INDEX alerts_schedule ON alerts (schedule_id, opened_at DESC, alert_id DESC);
CREATE INDEX alerts_open ON alerts (opened_at DESC, alert_id DESC) WHERE closed_at IS NULL;
CREATE INDEX alerts_closed ON alerts (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The outbox: a message to one target, written in the transaction of its cause.
-- target is a hash of the URL, because the URL may hold a secret.
CREATE TABLE alert_deliveries (
    delivery_id   text COLLATE "C" PRIMARY KEY,
    alert_id      text COLLATE "C",          -- NULL: a test
    schedule_id   text COLLATE "C",
    user_id       text COLLATE "C",
    type          text NOT NULL,
    target        text COLLATE "C" NOT NULL,
    host          text NOT NULL,
    payload       text NOT NULL,
    state         text NOT NULL CHECK (state IN ('PENDING','DELIVERED','DEAD')),
    attempts      integer NOT NULL DEFAULT 0,
    round         integer NOT NULL DEFAULT 1, -- grows with every time it is sent again by hand
    round_at      timestamptz NOT NULL,       -- when that was
    next_at       timestamptz,                -- PENDING: not sent before; also the lease of an attempt under way
    last_status   integer,
    last_error    text,
    created_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    -- webhook, email, slack, pagerduty, teams or ntfy
    target_kind   text NOT NULL DEFAULT 'webhook'
);
CREATE INDEX alert_deliveries_next ON alert_deliveries (next_at) WHERE state = 'PENDING';
CREATE INDEX alert_deliveries_created ON alert_deliveries (created_at DESC, delivery_id DESC);
CREATE INDEX alert_deliveries_alert ON alert_deliveries (alert_id) WHERE alert_id IS NOT NULL;
CREATE INDEX alert_deliveries_ended ON alert_deliveries (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Targets that answered that they no longer exist.
CREATE TABLE alert_targets (
    target      text COLLATE "C" PRIMARY KEY,
    host        text NOT NULL,
    disabled_at timestamptz NOT NULL
);

-- The owners that may run and see the versions of a workflow that are stored for
-- all owners. '*' is every owner.
CREATE TABLE workflow_shares (
    workflow_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    given_by    text,
    given_at    timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, user_id)
);

-- Who led a shard, from when to when, and why it ended. ended_at is the last
-- proof of life; NULL = it leads. ttl_ms: leaders.expires_at less it is the last
-- renewal. A term in which the database did not answer for a while has several
-- rows of one epoch.
CREATE TABLE leader_terms (
    shard        integer NOT NULL,
    epoch        bigint NOT NULL,
    started_at   timestamptz NOT NULL,
    first_bucket integer NOT NULL,
    last_bucket  integer NOT NULL,
    worker_id    text NOT NULL,
    host         text NOT NULL,
    ttl_ms       bigint NOT NULL,
    ended_at     timestamptz,
    end_reason   text,
    end_detail   text,
    PRIMARY KEY (shard, epoch, started_at)
);
CREATE INDEX leader_terms_started ON leader_terms (started_at);
CREATE INDEX leader_terms_open ON leader_terms (shard) WHERE ended_at IS NULL;

-- Every server process with any role. The table workers has the candidates for
-- leadership only.
CREATE TABLE processes (
    process_id text PRIMARY KEY,
    host       text NOT NULL,
    version    text NOT NULL,
    roles      text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);

-- Failing schedules: a row while the newest decided run of a schedule is FAILED
-- (docs/semantics.md, "Failing schedules"). A run that ends FAILED writes
-- it, one that ends SUCCESS deletes it, each in its own transaction.
CREATE TABLE schedule_failures (
    schedule_id    text COLLATE "C" PRIMARY KEY,
    failures       bigint NOT NULL,          -- FAILED runs since the last success
    first_run_at   timestamptz NOT NULL,     -- slot of the first of them
    first_ended_at timestamptz NOT NULL,
    last_run_at    timestamptz NOT NULL,     -- slot of the newest
    last_ended_at  timestamptz NOT NULL,
    idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32), -- of the newest
    reason         text NOT NULL,            -- of the newest
    error_code     text NOT NULL             -- '' = none
);

-- Output of runs: of the steps of the local executor, and with step '' the output
-- that an executor reported. seq counts the parts of a run. from_byte and to_byte
-- are the range of the part in the step's output, so that gaps show.
CREATE TABLE run_logs (
    idempotency_key bytea NOT NULL,
    seq bigint NOT NULL,
    step text NOT NULL,
    written_at timestamptz NOT NULL,
    from_byte bigint NOT NULL,
    to_byte bigint NOT NULL,
    content text NOT NULL,
    PRIMARY KEY (idempotency_key, seq)
);
CREATE INDEX run_logs_written ON run_logs (written_at);

-- Alerts in one message: one row is one incident of one target
-- (docs/notifications.md, "One message per incident").
CREATE TABLE alert_groups (
    target      text COLLATE "C" NOT NULL,
    group_id    text COLLATE "C" NOT NULL, -- the alert that started it
    grouped_by  text COLLATE "C" NOT NULL, -- what its alerts have in common
    joined_at   timestamptz NOT NULL,     -- when the newest alert joined
    told_at     timestamptz,              -- of the last message; NULL = none yet
    check_at    timestamptz,              -- when a message may be due; NULL = when an alert changes
    closed_at   timestamptz,              -- its last message says that all alerts are closed
    PRIMARY KEY (target, group_id)
);
CREATE INDEX alert_groups_check ON alert_groups (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX alert_groups_open ON alert_groups (joined_at) WHERE closed_at IS NULL;
CREATE INDEX alert_groups_closed ON alert_groups (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The newest notice of each alert for each target that gets grouped messages.
CREATE TABLE alert_group_members (
    alert_id    text COLLATE "C" NOT NULL,
    target      text COLLATE "C" NOT NULL,
    group_id    text COLLATE "C",         -- NULL = in no group yet
    grouped_by  text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    type        text NOT NULL,
    payload     text NOT NULL,
    opened_at   timestamptz NOT NULL,     -- of the first notice
    noticed_at  timestamptz NOT NULL,     -- of the newest
    told        boolean NOT NULL,         -- the newest notice is in a message
    pending     boolean NOT NULL,         -- the group has not seen the newest notice
    PRIMARY KEY (alert_id, target)
);
CREATE INDEX alert_group_members_pending ON alert_group_members (noticed_at) WHERE pending;
CREATE INDEX alert_group_members_group ON alert_group_members (target, group_id);
CREATE INDEX alert_group_members_schedule ON alert_group_members (schedule_id);

-- Changes of schedules and open runs, written in the transaction that makes them, for
-- leaders that keep open runs in memory. Readers use snapshots and not at: at is the
-- start of a transaction.
CREATE TABLE changes (
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at           timestamptz NOT NULL DEFAULT now(),
    first_bucket smallint NOT NULL, -- the least and the greatest bucket that it concerns
    last_bucket  smallint NOT NULL,
    kind         smallint NOT NULL, -- 1 schedule changed, 2 run inserted or changed, 3 run ended, 4 cancel requested
    schedule_ids text[],            -- of kind 1
    keys         bytea[]            -- of the others
);
CREATE INDEX changes_xid ON changes (xid);
CREATE INDEX changes_at ON changes (kind, at); -- for retention

-- Runs that are not over, in a narrow table; and history, which is written once.
-- The bridge creates all that follows too: schema/bridge.go reads it from here.
-- +bridge tables
CREATE TABLE open_runs (
    idempotency_key     bytea PRIMARY KEY CHECK (octet_length(idempotency_key) = 32),
    sid                 integer NOT NULL, -- schedules.sid
    nth                 integer NOT NULL, -- 0: the slot's own key; else any number that no other run of the slot has
    revision            integer NOT NULL,
    bucket              smallint NOT NULL,
    state               smallint NOT NULL, -- 1 planned, 2 waits for its overlap group, 3 in flight
    status              smallint NOT NULL, -- codes: internal/schedule
    trigger             smallint NOT NULL,
    policy              smallint NOT NULL,
    exclusive_flight    boolean NOT NULL DEFAULT false, -- exclusive and in flight
    overlap_key         text COLLATE "C" NOT NULL, -- user_id/overlap_key
    run_at              timestamptz NOT NULL,
    fire_at             timestamptz NOT NULL,
    due_at              timestamptz NOT NULL, -- never later than the next instant at which somebody must look
    priority            integer NOT NULL,
    max_queued          integer NOT NULL,
    attempt             integer NOT NULL,
    deliveries          integer NOT NULL,
    failed_attempts     integer NOT NULL,
    epoch               bigint NOT NULL,
    claimed_at          timestamptz,
    waiting_since       timestamptz,
    send_after          timestamptz, -- LAUNCHING: not sent again before
    launched_at         timestamptz,
    started_at          timestamptz,
    timeout_at          timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason       text,
    retry_of            bytea,
    input               text,
    run_id              text,
    trace_id            text,
    error_code          text,
    error_message       text,
    attempt_log         jsonb,
    late_reports        integer,
    exit_code           integer,
    log_url             text,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
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
    run_at              timestamptz NOT NULL,
    fire_at             timestamptz NOT NULL,
    created_at          timestamptz NOT NULL,
    claimed_at          timestamptz,
    launched_at         timestamptz,
    started_at          timestamptz,
    completed_at        timestamptz NOT NULL,
    recorded_at         timestamptz NOT NULL, -- when the end was written
    cancel_requested_at timestamptz,
    timeout_at          timestamptz,
    epoch               bigint NOT NULL,
    sid                 integer NOT NULL,
    nth                 integer NOT NULL,
    revision            integer NOT NULL,
    priority            integer NOT NULL,
    max_queued          integer NOT NULL,
    attempt             integer NOT NULL,
    deliveries          integer NOT NULL,
    failed_attempts     integer NOT NULL,
    late_reports        integer, -- with exit_code the only columns that change
    exit_code           integer,
    bucket              smallint NOT NULL,
    status              smallint NOT NULL,
    trigger             smallint NOT NULL,
    policy              smallint NOT NULL,
    idempotency_key     bytea NOT NULL,
    overlap_key         text COLLATE "C" NOT NULL,
    reason              text,
    cancel_reason       text,
    retry_of            bytea,
    input               text,
    run_id              text,
    trace_id            text,
    error_code          text,
    error_message       text,
    attempt_log         jsonb,
    log_url             text,
    CHECK (status = 5 OR reason IS NOT NULL)
) PARTITION BY RANGE (run_at);
CREATE UNIQUE INDEX ended_runs_slot ON ended_runs (run_at, sid, nth);
CREATE INDEX ended_runs_schedule ON ended_runs (sid, run_at);
CREATE INDEX ended_runs_key ON ended_runs (idempotency_key);
CREATE INDEX ended_runs_recorded ON ended_runs (recorded_at, sid);
CREATE INDEX ended_runs_not_success ON ended_runs (run_at, status) WHERE status <> 5;
CREATE INDEX ended_runs_unscheduled ON ended_runs (run_at) WHERE trigger <> 1;
CREATE INDEX ended_runs_run_id ON ended_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ended_runs_trace_id ON ended_runs (trace_id) WHERE trace_id IS NOT NULL;
-- Partitions are contiguous, without a DEFAULT one: with it Postgres neither reads
-- partitions in order nor detaches them concurrently. What is older than the database
-- (or the move to these tables) is in ended_runs_before.
-- +goose StatementBegin
DO $$
DECLARE
    today text := to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') || ' 00:00:00+00';
BEGIN
    EXECUTE format('CREATE TABLE ended_runs_before PARTITION OF ended_runs FOR VALUES FROM (MINVALUE) TO (%L)', today);
    EXECUTE format('CREATE TABLE ended_runs_ahead PARTITION OF ended_runs FOR VALUES FROM (%L) TO (MAXVALUE)', today);
END $$;
-- +goose StatementEnd

-- The worker's role owns no table, so two functions of the owner change partitions.
-- Their locks hold up all ends of runs: they wait 50 ms for them and then give up.

-- carillon_add_partition makes a partition of the beginning of ended_runs_ahead. If that
-- has many rows, as after the move to these tables or days without partitions, it
-- becomes the partition: moving a row takes far longer than checking it.
-- +goose StatementBegin
CREATE FUNCTION carillon_add_partition(first timestamptz, last timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '50ms' SET timezone = 'UTC' AS $$
DECLARE
    name text := 'ended_runs_' || to_char(first, 'YYYYMMDD');
BEGIN
    LOCK TABLE ONLY ended_runs IN ACCESS EXCLUSIVE MODE;
    IF (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'ended_runs_ahead'::regclass)
        IS DISTINCT FROM format('FOR VALUES FROM (%L) TO (MAXVALUE)', first) THEN
        RAISE EXCEPTION 'ended_runs_ahead does not begin at %', first; -- else there would be a gap
    END IF;
    ALTER TABLE ended_runs DETACH PARTITION ended_runs_ahead;
    IF EXISTS (SELECT FROM ended_runs_ahead WHERE run_at < last OFFSET 10000) THEN
        EXECUTE format('ALTER TABLE ended_runs_ahead RENAME TO %I', name);
        EXECUTE format('CREATE TABLE ended_runs_ahead PARTITION OF ended_runs FOR VALUES FROM (%L) TO (MAXVALUE)', last);
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE run_at >= $1 RETURNING *) INSERT INTO ended_runs SELECT * FROM moved', name) USING last;
        EXECUTE format('ALTER TABLE ended_runs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, first, last);
    ELSE
        EXECUTE format('CREATE TABLE %I PARTITION OF ended_runs FOR VALUES FROM (%L) TO (%L)', name, first, last);
        WITH moved AS (DELETE FROM ended_runs_ahead WHERE run_at < last RETURNING *)
        INSERT INTO ended_runs SELECT * FROM moved;
        EXECUTE format('ALTER TABLE ended_runs ATTACH PARTITION ended_runs_ahead FOR VALUES FROM (%L) TO (MAXVALUE)', last);
    END IF;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION carillon_add_partition FROM PUBLIC;

-- carillon_drop_partition removes a partition if none of its rows was recorded at or
-- after before. It drops the oldest one and lets ended_runs_before begin later. Others
-- it empties, and also that one while ended_runs_before is large: Postgres reads all of
-- it to change its range.
-- +goose StatementBegin
CREATE FUNCTION carillon_drop_partition(name text, before timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '50ms' SET timezone = 'UTC' AS $$
DECLARE
    bound text[];
    young boolean;
BEGIN
    IF before > now() - interval '29 days' THEN
        RAISE EXCEPTION 'history is kept for 29 days at least, which ended later than %', before;
    END IF;
    LOCK TABLE ONLY ended_runs IN ACCESS EXCLUSIVE MODE;
    SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''(.*)''\) TO \(''(.*)''\)$') INTO bound
    FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE i.inhparent = 'ended_runs'::regclass AND c.relname = name;
    IF bound IS NULL OR bound[2]::timestamptz > before THEN
        RAISE EXCEPTION '% is no partition of ended_runs that ended before %', name, before;
    END IF;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE recorded_at >= $1)', name) INTO young USING before;
    IF young THEN
        RAISE EXCEPTION '% has runs that were recorded at or after %', name, before;
    END IF;
    IF pg_relation_size('ended_runs_before') < 16777216 AND (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'ended_runs_before'::regclass)
        = format('FOR VALUES FROM (MINVALUE) TO (%L)', bound[1]) THEN
        EXECUTE format('DROP TABLE %I', name);
        ALTER TABLE ended_runs DETACH PARTITION ended_runs_before;
        EXECUTE format('ALTER TABLE ended_runs ATTACH PARTITION ended_runs_before FOR VALUES FROM (MINVALUE) TO (%L)', bound[2]);
    ELSE
        EXECUTE format('TRUNCATE %I', name);
    END IF;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION carillon_drop_partition FROM PUBLIC;

-- +bridge view
-- Each run once, with words for codes. It is for reading.
CREATE VIEW schedule_runs AS
SELECT
    o.idempotency_key, s.schedule_id, o.revision, o.run_at, o.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[o.status] AS status,
    NULL::text AS reason, (ARRAY['schedule','catchup','manual','backfill','retry'])[o.trigger] AS trigger, o.overlap_key, (ARRAY['allow','skip','queue','replace'])[o.policy] AS overlap_policy, o.policy <> 1 AS exclusive, o.max_queued,
    o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
    o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after AS claimed_until, o.cancel_requested_at,
    o.cancel_reason, o.launched_at, o.started_at, NULL::timestamptz AS completed_at, o.timeout_at, o.error_code,
    o.error_message, o.created_at, o.updated_at, o.bucket AS shard, o.late_reports, o.failed_attempts,
    o.attempt_log, o.exit_code, o.log_url
FROM open_runs o JOIN schedules s ON s.sid = o.sid
UNION ALL
SELECT
    e.idempotency_key, s.schedule_id, e.revision, e.run_at, e.fire_at, (ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'])[e.status],
    e.reason, (ARRAY['schedule','catchup','manual','backfill','retry'])[e.trigger], e.overlap_key, (ARRAY['allow','skip','queue','replace'])[e.policy], e.policy <> 1, e.max_queued,
    NULL::timestamptz, e.attempt, e.retry_of, e.deliveries, e.input, e.priority,
    e.run_id, e.trace_id, e.epoch, e.claimed_at, NULL::timestamptz, e.cancel_requested_at,
    e.cancel_reason, e.launched_at, e.started_at, e.completed_at, e.timeout_at, e.error_code,
    e.error_message, e.created_at, e.recorded_at, e.bucket, e.late_reports, e.failed_attempts,
    e.attempt_log, e.exit_code, e.log_url
FROM ended_runs e JOIN schedules s ON s.sid = e.sid;
