-- +goose Up
-- Reservations of the next slot of a queue, for work outside Carillon. They go before all runs, and
-- count in max_in_flight and in limit_uses once they are granted.
CREATE TABLE reservations (
    reservation_id bytea PRIMARY KEY, -- 32 bytes
    queue_no       integer NOT NULL,
    user_id        text COLLATE "C" NOT NULL,
    requested_by   text,
    limits         text COLLATE "C" NOT NULL, -- as of open_runs
    position_key   bigint NOT NULL, -- the order of arrival: lower goes first
    hold_ms        bigint NOT NULL, -- how long it lasts from its grant on
    granted_at     timestamptz, -- NULL: it waits
    ends_at        timestamptz NOT NULL, -- it ends by itself
    created_at     timestamptz NOT NULL
);
CREATE INDEX reservations_queue ON reservations (queue_no, position_key);
CREATE INDEX reservations_end ON reservations (ends_at);

-- +goose Down
-- Older releases know only uses of runs.
DELETE FROM limit_uses WHERE used_by IN (SELECT reservation_id FROM reservations);
DROP TABLE reservations;
