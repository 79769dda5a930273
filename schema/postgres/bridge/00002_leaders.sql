-- +goose Up
-- Several leaders, each of a range of hash buckets. A run is of the bucket of
-- its own overlap key, which an edit of its schedule does not change.
ALTER TABLE schedule_runs ADD COLUMN shard integer NOT NULL DEFAULT 0;
UPDATE schedule_runs SET shard = (256 * get_byte(sha256(convert_to(overlap_key, 'UTF8')), 0)
    + get_byte(sha256(convert_to(overlap_key, 'UTF8')), 1)) % 1024;
ALTER TABLE schedule_runs ALTER COLUMN shard DROP DEFAULT;

-- Whether the leader has the lock as well: only then a lock that comes free
-- says that it is gone. asked_epoch is the term that was asked to resign.
ALTER TABLE leaders ADD COLUMN lock_held boolean NOT NULL DEFAULT true;
ALTER TABLE leaders ADD COLUMN asked_epoch bigint;

-- What all workers must agree on, e.g. the number of shards.
CREATE TABLE settings (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- +goose Down
DROP TABLE settings;
ALTER TABLE leaders DROP COLUMN asked_epoch, DROP COLUMN lock_held;
ALTER TABLE schedule_runs DROP COLUMN shard;
