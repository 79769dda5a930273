-- +goose Up
-- The dispatch queue of a schedule: its runs go into it at fire_at.
ALTER TABLE schedules ADD COLUMN queue_id TEXT;
-- With a queue: what its runs use besides the limits of the queue, as open_runs.limits; and the
-- target of the messages about them.
ALTER TABLE schedules ADD COLUMN limits TEXT;
ALTER TABLE schedules ADD COLUMN webhook TEXT;
CREATE INDEX schedules_queue ON schedules (queue_id) WHERE queue_id IS NOT NULL;

-- Runs of schedules in a queue have the state 4, and the epoch of the leader that put them there.
-- They count in their overlap group. Jobs have the state 5 and the epoch 0.
DROP INDEX open_runs_overlap;
CREATE INDEX open_runs_overlap ON open_runs (overlap_key) WHERE state IN (2, 3, 4) AND NOT exclusive_flight;

-- +goose Down
-- Older releases know no runs of schedules in queues.
DELETE FROM limit_uses WHERE used_by IN (SELECT idempotency_key FROM open_runs WHERE state = 4);
DELETE FROM open_runs WHERE state = 4;
DROP INDEX open_runs_overlap;
CREATE INDEX open_runs_overlap ON open_runs (overlap_key) WHERE state IN (2, 3) AND NOT exclusive_flight;
DROP INDEX schedules_queue;
ALTER TABLE schedules DROP COLUMN webhook;
ALTER TABLE schedules DROP COLUMN limits;
ALTER TABLE schedules DROP COLUMN queue_id;
