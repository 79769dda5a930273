-- +goose Up
-- What a schedule promises (docs/alerts.md), as JSON; NULL: nothing, as most.
ALTER TABLE schedules ADD COLUMN expect TEXT;

-- How each promise stands: a row for each schedule and kind that has one, and
-- none for all others. It is locked by whoever judges it, and judged when
-- judge_at has come.
CREATE TABLE expectations (
    schedule_id   TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('start','finish','success')),
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

-- When a schedule stood still is read off its events.
CREATE INDEX schedule_events_pauses ON schedule_events (schedule_id, event_id DESC)
    WHERE kind IN ('paused','resumed','pause_ended');

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
    ack_note    TEXT
) STRICT;
CREATE INDEX alerts_opened ON alerts (opened_at DESC, alert_id DESC);
CREATE INDEX alerts_schedule ON alerts (schedule_id, opened_at DESC, alert_id DESC);
CREATE INDEX alerts_open ON alerts (opened_at DESC, alert_id DESC) WHERE closed_at IS NULL;
CREATE INDEX alerts_closed ON alerts (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The outbox: a message to one target, written with what it tells of. target is
-- a hash of the URL, which may hold a secret itself.
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
    ended_at      INTEGER
) STRICT;
CREATE INDEX alert_deliveries_next ON alert_deliveries (next_at) WHERE state = 'PENDING';
CREATE INDEX alert_deliveries_created ON alert_deliveries (created_at DESC, delivery_id DESC);
CREATE INDEX alert_deliveries_alert ON alert_deliveries (alert_id) WHERE alert_id IS NOT NULL;
CREATE INDEX alert_deliveries_ended ON alert_deliveries (ended_at) WHERE ended_at IS NOT NULL; -- for retention

-- Targets that said that they are gone.
CREATE TABLE alert_targets (
    target      TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    disabled_at INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE alert_targets;
DROP TABLE alert_deliveries;
DROP TABLE alerts;
DROP INDEX schedule_events_pauses;
DROP TABLE expectations;
ALTER TABLE schedules DROP COLUMN expect;
