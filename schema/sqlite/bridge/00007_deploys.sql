-- +goose Up
-- What a deploy owns is read at each of its deploys.
CREATE INDEX schedules_managed_by ON schedules (managed_by, schedule_id) WHERE managed_by IS NOT NULL AND deleted_at IS NULL;

-- The deploys that came with a request_id: a repeat must not undo what came
-- after the first.
CREATE TABLE deploys (
    managed_by   TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    applied_at   INTEGER NOT NULL,
    PRIMARY KEY (managed_by, user_id, request_id)
) STRICT;
CREATE INDEX deploys_applied ON deploys (applied_at); -- for retention

-- +goose Down
DROP TABLE deploys;
DROP INDEX schedules_managed_by;
