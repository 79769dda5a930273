-- +goose Up
-- Several leaders, each of a range of hash buckets. A run is of the bucket of
-- its own overlap key, which an edit of its schedule does not change. SQLite
-- cannot hash: rows take it from a schedule with their key, else from their own.
ALTER TABLE schedule_runs ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
UPDATE schedule_runs SET shard = COALESCE(
    (SELECT s.shard FROM schedules s WHERE s.user_id || '/' || s.overlap_key = schedule_runs.overlap_key LIMIT 1),
    (SELECT s.shard FROM schedules s WHERE s.schedule_id = schedule_runs.schedule_id), 0);

-- Whether the leader has the lock as well: only then a lock that comes free
-- says that it is gone. asked_epoch is the term that was asked to resign.
ALTER TABLE leaders ADD COLUMN lock_held INTEGER NOT NULL DEFAULT 1;
ALTER TABLE leaders ADD COLUMN asked_epoch INTEGER;

-- What all workers must agree on, e.g. the number of shards.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- +goose Down
DROP TABLE settings;
ALTER TABLE leaders DROP COLUMN asked_epoch;
ALTER TABLE leaders DROP COLUMN lock_held;
ALTER TABLE schedule_runs DROP COLUMN shard;
