-- +goose Up
-- Runs of deleted schedules that wait in queues count for their owner.
CREATE INDEX schedules_deleted_user ON schedules (user_id) WHERE deleted_at IS NOT NULL;
-- How many dead runs a queue has. Only dead runs are in it; to build it reads history once.
CREATE INDEX ended_runs_queue_dead ON ended_runs (queue_no) WHERE dead;

-- +goose Down
DROP INDEX ended_runs_queue_dead;
DROP INDEX schedules_deleted_user;
