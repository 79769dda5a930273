-- +goose Up
-- Dispatch queues. A deleted queue keeps its row: history names it by its number.
CREATE TABLE queues (
    queue_no     INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id     TEXT NOT NULL UNIQUE,
    user_id      TEXT NOT NULL,
    shared       INTEGER NOT NULL,
    definition   TEXT NOT NULL, -- JSON, with every default resolved
    revision     INTEGER NOT NULL,
    paused       INTEGER NOT NULL DEFAULT 0,
    pause_note   TEXT,
    paused_by    TEXT,
    paused_until INTEGER,
    closed       INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER
) STRICT;

-- What admissions write of a queue.
CREATE TABLE queue_states (
    queue_no      INTEGER PRIMARY KEY,
    stalled_until INTEGER, -- the executor cannot take work before
    stall_level   INTEGER NOT NULL DEFAULT 0,
    stall_reason  TEXT
) STRICT;

CREATE TABLE queue_events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id TEXT NOT NULL,
    time     INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    actor    TEXT,
    note     TEXT,
    revision INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX queue_events_queue ON queue_events (queue_id, event_id);
CREATE INDEX queue_events_time ON queue_events (time);

-- +goose Down
DROP TABLE queue_events;
DROP TABLE queue_states;
DROP TABLE queues;
