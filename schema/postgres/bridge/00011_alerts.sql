-- +goose Up
-- What a schedule promises (docs/alerts.md), as JSON; NULL: nothing, as most.
ALTER TABLE schedules ADD COLUMN expect text;

-- How each promise stands: a row for each schedule and kind that has one, and
-- none for all others. It is locked by whoever judges it, and judged when
-- judge_at has come.
CREATE TABLE expectations (
    schedule_id   text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL CHECK (kind IN ('start','finish','success')),
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

-- When a schedule stood still is read off its events.
CREATE INDEX schedule_events_pauses ON schedule_events (schedule_id, event_id DESC)
    WHERE kind IN ('paused','resumed','pause_ended');

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
    ack_note    text
);
CREATE INDEX alerts_opened ON alerts (opened_at DESC, alert_id DESC);
CREATE INDEX alerts_schedule ON alerts (schedule_id, opened_at DESC, alert_id DESC);
CREATE INDEX alerts_open ON alerts (opened_at DESC, alert_id DESC) WHERE closed_at IS NULL;
CREATE INDEX alerts_closed ON alerts (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The outbox: a message to one target, written with what it tells of. target is
-- a hash of the URL, which may hold a secret itself.
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
    ended_at      timestamptz
);
CREATE INDEX alert_deliveries_next ON alert_deliveries (next_at) WHERE state = 'PENDING';
CREATE INDEX alert_deliveries_created ON alert_deliveries (created_at DESC, delivery_id DESC);
CREATE INDEX alert_deliveries_alert ON alert_deliveries (alert_id) WHERE alert_id IS NOT NULL;
CREATE INDEX alert_deliveries_ended ON alert_deliveries (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Targets that said that they are gone.
CREATE TABLE alert_targets (
    target      text COLLATE "C" PRIMARY KEY,
    host        text NOT NULL,
    disabled_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE alert_targets;
DROP TABLE alert_deliveries;
DROP TABLE alerts;
DROP INDEX schedule_events_pauses;
DROP TABLE expectations;
ALTER TABLE schedules DROP COLUMN expect;
