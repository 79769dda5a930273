-- +goose Up
-- Snapshots of the last hour: what one of them sees was committed before it. Rows of
-- changes do not say when they were committed, and readers must not miss one.
CREATE TABLE change_snapshots (
    taken_at          timestamptz NOT NULL,
    server_generation text NOT NULL, -- of the server that the snapshot is of
    snapshot          text NOT NULL
);

-- +goose Down
DROP TABLE change_snapshots;
