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

-- +goose Down
DROP TABLE queue_events;
DROP TABLE queue_states;
DROP TABLE queues;
