-- +goose Up
-- With a queue: the runs of one instant of all schedules of an owner with this name are a group of
-- queue_groups. NULL: none.
ALTER TABLE schedules ADD COLUMN run_group TEXT;
-- A group that is sealed at an instant, unless it is before. NULL: somebody seals it.
ALTER TABLE queue_groups ADD COLUMN seal_at INTEGER;
CREATE INDEX queue_groups_sealing ON queue_groups (seal_at) WHERE state = 'RUNNING' AND NOT sealed;

-- +goose Down
-- Older releases seal no group by themselves: seal those that run with SealGroup.
DROP INDEX queue_groups_sealing;
ALTER TABLE queue_groups DROP COLUMN seal_at;
ALTER TABLE schedules DROP COLUMN run_group;
