-- +goose Up
-- Every process that launches, with the number under which it holds keys. The
-- process holds a lock on the file <database>.instance-<instance_no>. If that lock
-- is free, the process is gone, and others take its keys over at once.
-- AUTOINCREMENT: no number is used again.
CREATE TABLE instances (
    instance_no       INTEGER PRIMARY KEY AUTOINCREMENT,
    instance_id       TEXT NOT NULL UNIQUE,
    host              TEXT NOT NULL,
    server_generation TEXT NOT NULL DEFAULT '', -- '': the lock is not held yet
    started_at        INTEGER NOT NULL,
    seen_at           INTEGER NOT NULL
) STRICT;

-- The instance that may call the executor for the key. NULL: unknown, only the
-- lease protects the key.
ALTER TABLE execution_requests ADD COLUMN holder INTEGER;

-- +goose Down
ALTER TABLE execution_requests DROP COLUMN holder;
DROP TABLE instances;
