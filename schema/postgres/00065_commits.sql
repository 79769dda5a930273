-- +goose Up
-- What the committed runs of a schedule have kept for the next one.
CREATE TABLE handlers (
    sid            integer PRIMARY KEY,
    state          text NOT NULL,                -- raw JSON, as sent
    state_revision bigint NOT NULL,              -- counts the changes
    state_run      bytea,                        -- the run that kept it; NULL: a person has set it
    updated_at     timestamptz NOT NULL
) WITH (fillfactor = 70);

-- The run that published an event, and how many runs came one after the other before it.
ALTER TABLE events ADD COLUMN caused_by bytea;
ALTER TABLE events ADD COLUMN hops integer NOT NULL DEFAULT 0;
CREATE INDEX events_cause ON events (caused_by) WHERE caused_by IS NOT NULL;

-- +goose Down
DROP INDEX events_cause;
ALTER TABLE events DROP COLUMN caused_by;
ALTER TABLE events DROP COLUMN hops;
DROP TABLE handlers;
